#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace carya {

/// A 128-bit fingerprint. It tells different inputs apart but is not cryptographic: an adversary can make two alike.
struct Hash128 {
  std::uint64_t high = 0;
  std::uint64_t low = 0;
  bool operator==(const Hash128&) const = default;
  /// 32 lower-case hexadecimal digits, high first.
  std::string hex() const;
};

/// For tables of hashes.
struct HashOfHash {
  std::size_t operator()(Hash128 hash) const { return hash.low; }
};

/// XXH3-64 of bytes. Source: xxHash 0.8 (its output is frozen).
std::uint64_t hash64(std::span<const std::byte> bytes, std::uint64_t seed = 0);
std::uint64_t hash64(std::string_view text, std::uint64_t seed = 0);

/// XXH3-128 of bytes that come in pieces. Threads: owner only.
class Hasher128 {
 public:
  Hasher128();
  ~Hasher128();
  Hasher128(Hasher128&&) noexcept;
  Hasher128& operator=(Hasher128&&) noexcept;

  void update(std::span<const std::byte> bytes);
  /// Add the text and its length, so that ("ab", "c") and ("a", "bc") differ.
  void update(std::string_view text);
  void update(std::uint64_t number);
  Hash128 digest() const;
  /// Forget all input.
  void reset();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace carya
