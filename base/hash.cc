#include "base/hash.h"

#include <xxhash.h>
#ifdef __x86_64__
#include <xxh_x86dispatch.h>  // the same functions, each call at the best instructions of the machine
#endif

#include <array>
#include <cstring>

#include "base/error.h"

namespace carya {

struct Hasher128::State {
  XXH3_state_t* xxh = XXH3_createState();
  ~State() { XXH3_freeState(xxh); }
};

std::string Hash128::hex() const {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text(32, '0');
  for (int i = 0; i < 16; ++i) {
    text[i] = kDigits[(high >> (60 - 4 * i)) & 15];
    text[16 + i] = kDigits[(low >> (60 - 4 * i)) & 15];
  }
  return text;
}

std::uint64_t hash64(std::span<const std::byte> bytes, std::uint64_t seed) {
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
}

std::uint64_t hash64(std::string_view text, std::uint64_t seed) {
  return hash64(std::as_bytes(std::span(text)), seed);
}

Hasher128::Hasher128() : state_(std::make_unique<State>()) {
  CHECK(state_->xxh != nullptr);
  XXH3_128bits_reset(state_->xxh);
}
Hasher128::~Hasher128() = default;
Hasher128::Hasher128(Hasher128&&) noexcept = default;
Hasher128& Hasher128::operator=(Hasher128&&) noexcept = default;

void Hasher128::update(std::span<const std::byte> bytes) {
  XXH3_128bits_update(state_->xxh, bytes.data(), bytes.size());
}

void Hasher128::update(std::string_view text) {
  update(static_cast<std::uint64_t>(text.size()));
  update(std::as_bytes(std::span(text)));
}

void Hasher128::update(std::uint64_t number) {
  std::array<std::byte, 8> bytes;  // little-endian, as every machine we build for
  std::memcpy(bytes.data(), &number, 8);
  update(std::span<const std::byte>(bytes));
}

void Hasher128::reset() {
  XXH3_128bits_reset(state_->xxh);
}

Hash128 Hasher128::digest() const {
  const XXH128_hash_t hash = XXH3_128bits_digest(state_->xxh);
  return {hash.high64, hash.low64};
}

}  // namespace carya
