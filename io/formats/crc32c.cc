#include "io/formats/crc32c.h"

#include <array>
#include <cstring>

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

namespace carya::io {
namespace {

constexpr std::uint32_t kPolynomial = 0x82f63b78;  // bits in reverse

using Tables = std::array<std::array<std::uint32_t, 256>, 8>;

constexpr Tables make_tables() {
  Tables tables{};
  for (std::uint32_t n = 0; n < 256; ++n) {
    std::uint32_t crc = n;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? kPolynomial : 0);
    tables[0][n] = crc;
  }
  for (std::size_t k = 1; k < 8; ++k)
    for (std::size_t n = 0; n < 256; ++n)
      tables[k][n] = (tables[k - 1][n] >> 8) ^ tables[0][tables[k - 1][n] & 0xff];
  return tables;
}

constexpr Tables kTables = make_tables();

std::uint32_t step(std::uint32_t state, std::byte byte) {
  return (state >> 8) ^ kTables[0][(state ^ static_cast<std::uint32_t>(byte)) & 0xff];
}

std::uint32_t portable(std::uint32_t state, std::span<const std::byte> bytes) {
  while (bytes.size() >= 8) {
    std::uint64_t word;
    std::memcpy(&word, bytes.data(), 8);
    word ^= state;
    state = 0;
    for (std::size_t k = 0; k < 8; ++k) state ^= kTables[7 - k][(word >> (8 * k)) & 0xff];
    bytes = bytes.subspan(8);
  }
  for (const std::byte byte : bytes) state = step(state, byte);
  return state;
}

#if defined(__x86_64__)

constexpr std::size_t kStream = 1024;  // bytes of each of the three streams

// A state after kStream zero bytes, by the four bytes of the state before them: the CRC is linear.
using Shift = std::array<std::array<std::uint32_t, 256>, 4>;

Shift make_shift() {
  Shift shift{};
  for (std::uint32_t k = 0; k < 4; ++k)
    for (std::uint32_t bit = 0; bit < 8; ++bit) {
      std::uint32_t state = 1u << (8 * k + bit);
      for (std::size_t i = 0; i < kStream; ++i) state = step(state, std::byte{});
      shift[k][1u << bit] = state;
    }
  for (auto& table : shift)
    for (std::uint32_t n = 1; n < 256; ++n) table[n] = table[n & (n - 1)] ^ table[n & (~n + 1)];
  return shift;
}

std::uint32_t shifted(const Shift& shift, std::uint32_t state) {
  return shift[0][state & 0xff] ^ shift[1][(state >> 8) & 0xff] ^ shift[2][(state >> 16) & 0xff] ^
         shift[3][state >> 24];
}

std::uint64_t word_at(const std::byte* at) {
  std::uint64_t word;
  std::memcpy(&word, at, 8);
  return word;
}

// The instruction takes three cycles, and one may start in each: three streams that know nothing of another.
__attribute__((target("sse4.2"))) std::uint32_t crc32c_by_sse42(std::uint32_t begin,
                                                                std::span<const std::byte> bytes) {
  static const Shift kShift = make_shift();
  std::uint64_t first = begin;
  while (bytes.size() >= 3 * kStream) {
    std::uint64_t second = 0, third = 0;
    for (std::size_t i = 0; i < kStream; i += 8) {
      first = _mm_crc32_u64(first, word_at(bytes.data() + i));
      second = _mm_crc32_u64(second, word_at(bytes.data() + kStream + i));
      third = _mm_crc32_u64(third, word_at(bytes.data() + 2 * kStream + i));
    }
    first = shifted(kShift, static_cast<std::uint32_t>(first)) ^ second;
    first = shifted(kShift, static_cast<std::uint32_t>(first)) ^ third;
    bytes = bytes.subspan(3 * kStream);
  }
  while (bytes.size() >= 8) {
    first = _mm_crc32_u64(first, word_at(bytes.data()));
    bytes = bytes.subspan(8);
  }
  auto state = static_cast<std::uint32_t>(first);
  for (const std::byte byte : bytes) state = _mm_crc32_u8(state, static_cast<unsigned char>(byte));
  return state;
}

const bool kHasInstruction = __builtin_cpu_supports("sse4.2") != 0;

#endif

}  // namespace

std::uint32_t crc32c_portable(std::span<const std::byte> bytes) {
  return ~portable(~0u, bytes);
}

std::uint32_t crc32c(std::span<const std::byte> bytes) {
#if defined(__x86_64__)
  if (kHasInstruction) return ~crc32c_by_sse42(~0u, bytes);
#endif
  return crc32c_portable(bytes);
}

}  // namespace carya::io
