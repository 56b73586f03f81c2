#include "base/permutation.h"

#include <algorithm>
#include <bit>

#include "base/error.h"
#include "base/philox.h"

namespace carya {
namespace {

constexpr int kBitsMin = 6;
constexpr int kSmallBits = 16;                 // up to here twice the rounds
constexpr std::uint32_t kDomain = 0x7065726d;  // "perm": keeps these words apart from other uses of a seed

/// The top `bits` bits of a keyed hash of `half`.
/// Source: the multiply-xorshift-multiply core of the 64-bit finalizers, constants of Stafford's variant 13.
inline std::uint64_t round_function(std::uint64_t half, std::uint64_t key, int bits) {
  std::uint64_t hash = (half ^ key) * 0xBF58476D1CE4E5B9;
  hash ^= hash >> 32;
  hash *= 0x94D049BB133111EB;
  return hash >> (64 - bits);
}

}  // namespace

Permutation::Permutation(std::uint64_t seed, std::uint64_t epoch, std::uint64_t count) : count_(count) {
  CHECK(count <= kCountMax);
  const int bits = std::max<int>(kBitsMin, count > 1 ? std::bit_width(count - 1) : 0);
  rounds_ = bits <= kSmallBits ? kRoundsMax : kRoundsMax / 2;
  left_bits_ = bits / 2;
  right_bits_ = bits - left_bits_;
  const Philox4x32::Key key{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)};
  Philox4x32::Counter counter{static_cast<std::uint32_t>(epoch), static_cast<std::uint32_t>(epoch >> 32), 0,
                              kDomain};
  for (int round = 0; round < kRoundsMax; round += 2, ++counter[2]) {
    const Philox4x32::Counter words = Philox4x32::block(counter, key);
    round_keys_[round] = words[0] | (std::uint64_t{words[1]} << 32);
    round_keys_[round + 1] = words[2] | (std::uint64_t{words[3]} << 32);
  }
  odd_ = Philox4x32::block(counter, key)[0] & 1;
}

std::uint64_t Permutation::pass(std::uint64_t value) const {
  std::uint64_t right = value & ((std::uint64_t{1} << right_bits_) - 1);
  std::uint64_t left = value >> right_bits_;
  for (int round = 0; round < rounds_; round += 2) {
    left ^= round_function(right, round_keys_[round], left_bits_);
    right ^= round_function(left, round_keys_[round + 1], right_bits_);
  }
  value = (left << right_bits_) | right;
  return value ^ (odd_ & static_cast<std::uint64_t>(value < 2));
}

std::uint64_t Permutation::operator()(std::uint64_t position) const {
  CHECK(position < count_);
  // Ends: the network is a bijection, so walking from a value below count_ comes back to one, at the latest
  // to itself.
  std::uint64_t value = pass(position);
  while (value >= count_) value = pass(value);
  return value;
}

}  // namespace carya
