#include "transforms/jpeg/huffman.h"

#include <algorithm>
#include <cstring>

#include "transforms/jpeg/table_join.h"

namespace carya::jpeg {
namespace {

// Call f(code, length, symbol) for every code, in order of the code.
template <typename F>
void for_each_code(const HuffmanSpec& spec, F f) {
  std::uint32_t code = 0;
  const std::uint8_t* symbol = spec.bytes + 16;
  for (int length = 1; length <= 16; ++length) {
    for (int i = 0; i < spec.bytes[length - 1]; ++i) f(code++, length, *symbol++);
    code <<= 1;
  }
}

int extend(int raw, int size) {
  return raw < (1 << (size - 1)) ? raw - (1 << size) + 1 : raw;
}

}  // namespace

void Canonical::build(const HuffmanSpec& spec) {
  std::uint32_t code = 0;
  int index = 0;
  for (int length = 1; length <= 16; ++length) {
    offset[length] = index - static_cast<std::int32_t>(code);
    code += spec.bytes[length - 1];
    index += spec.bytes[length - 1];
    limit[length] = code << (16 - length);
    code <<= 1;
  }
  limit[17] = 0xFFFFFFFFu;
  symbols.fill(0);
  std::memcpy(symbols.data(), spec.bytes + 16, static_cast<std::size_t>(spec.symbol_count));
}

void DcTable::build(const HuffmanSpec& spec) {
  canonical.build(spec);
  symbol.fill(0);
  for_each_code(spec, [&](std::uint32_t code, int length, int size) {
    if (length > kBits) return;
    Symbol* out = symbol.data() + (code << (kBits - length));
    for (int i = 0; i < 1 << (kBits - length); ++i) out[i] = dc_symbol(length, size);
  });
}

namespace {

constexpr std::uint32_t kSlowEntry = PairTable::kSlow << PairBits::kAdvanceShift;

}  // namespace

void Singles::of_ac(const HuffmanSpec& spec) {
  entry.fill(kSlowEntry);
  for_each_code(spec, [&](std::uint32_t code, int length, int symbol) {
    const int size = symbol & 15;
    if (length > PairTable::kBits || length + size > PairTable::kReach || size > PairTable::kSizeMax) return;
    const int free_bits = PairTable::kBits - length;
    const int advance = size == 0 && symbol != 0xF0 ? PairTable::kEnd : (symbol >> 4) + 1;
    const std::uint32_t base = static_cast<std::uint32_t>(length + size) |
                               static_cast<std::uint32_t>(size) << PairBits::kSizeShift |
                               static_cast<std::uint32_t>(symbol >> 4) << PairBits::kRunShift |
                               static_cast<std::uint32_t>(advance) << PairBits::kAdvanceShift;
    std::uint32_t* out = entry.data() + (code << free_bits);
    if (size == 0 || size > free_bits) {
      std::fill_n(out, 1 << free_bits, base);
      return;
    }
    const int count = 1 << (free_bits - size);
    for (int raw = 0; raw < 1 << size; ++raw, out += count)
      std::fill_n(out, count, base | static_cast<std::uint32_t>(extend(raw, size)) << PairBits::kValueShift);
  });
}

void AcTable::build(const HuffmanSpec& spec) {
  canonical.build(spec);
  symbol.fill(0);
  for_each_code(spec, [&](std::uint32_t code, int length, int value) {
    if (length > kSymbolBits) return;
    std::fill_n(symbol.data() + (code << (kSymbolBits - length)), 1 << (kSymbolBits - length),
                ac_symbol(length, value));
  });
  Singles singles;
  singles.of_ac(spec);
  join_pairs(singles, pairs);
}

void SkipTable::build(const HuffmanSpec& spec) {
  alignas(64) std::array<std::uint32_t, 1 << kBits> singles;
  singles.fill(0);
  for_each_code(spec, [&](std::uint32_t code, int length, int symbol) {
    if (length > kBits) return;
    const int size = symbol & 15;
    const std::uint32_t step =
        size != 0 ? static_cast<std::uint32_t>((symbol >> 4) + 1) : (symbol == 0xF0 ? 16u : 128u);
    std::uint32_t* out = singles.data() + (code << (kBits - length));
    const std::uint32_t one =
        static_cast<std::uint32_t>(length + size) | static_cast<std::uint32_t>(length) << 8 | step << 16;
    for (int i = 0; i < 1 << (kBits - length); ++i) out[i] = one;
  });
  join_skips(singles.data(), *this);
}

bool TableCache::same(Built& built, const HuffmanSpec& spec) {
  const int bytes = 16 + spec.symbol_count;
  if (built.bytes == bytes &&
      std::memcmp(built.spec.data(), spec.bytes, static_cast<std::size_t>(bytes)) == 0)
    return true;
  built.bytes = bytes;
  std::memcpy(built.spec.data(), spec.bytes, static_cast<std::size_t>(bytes));
  return false;
}

const DcTable& TableCache::dc(int slot, const HuffmanSpec& spec) {
  if (!same(built_[0][slot], spec)) dc_[slot].build(spec);
  return dc_[slot];
}

const AcTable& TableCache::ac(int slot, const HuffmanSpec& spec) {
  if (!same(built_[1][slot], spec)) ac_[slot].build(spec);
  return ac_[slot];
}

const SkipTable& TableCache::skip(int slot, const HuffmanSpec& spec) {
  if (!same(built_[2][slot], spec)) skip_[slot].build(spec);
  return skip_[slot];
}

}  // namespace carya::jpeg
