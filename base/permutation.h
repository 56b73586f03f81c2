#pragma once

#include <cstdint>

namespace carya {

/// A keyed bijection on [0, count) that maps a position to a record, in O(1) memory (DESIGN section 4).
///
/// It is a Feistel network on the next power of two, at least 2^6. A value is cut into a left half of floor(bits / 2)
/// bits and a right half of the others. The rounds xor a keyed hash of one half into the other, in turn. A result
/// outside of [0, count) goes through the network again (cycle walking), so the whole stays a bijection. Since count is
/// more than half of the domain (or tiny), the mean is below two passes. The quality rests on three constraints:
/// - There are 16 rounds up to 16 bits, and 8 above. Small halves mix slowly, and tests count the orders of a small
///   count.
/// - The domain has at least 2^6 values, since halves below 3 bits have few round functions.
/// - A keyed exchange of the values 0 and 1 follows the rounds. A Feistel network with halves of 2 bits or more makes
///   only even permutations, so half of the orders of 64 or 128 records would never occur.
///
/// Round keys are Philox words of (seed, epoch), so that neighbouring seeds and epochs have nothing in common. Range:
/// count 0..2^48. Cost: 14 ns mean per position at 10^9; at worst, just above a power of two, 53 ns
/// (bench_permutation). Threads: pure, const.
class Permutation {
 public:
  /// CHECKs count <= kCountMax.
  Permutation(std::uint64_t seed, std::uint64_t epoch, std::uint64_t count);

  /// The record at `position`. CHECKs position < count.
  std::uint64_t operator()(std::uint64_t position) const;
  std::uint64_t count() const { return count_; }

  static constexpr std::uint64_t kCountMax = std::uint64_t{1} << 48;

 private:
  static constexpr int kRoundsMax = 16;
  std::uint64_t pass(std::uint64_t value) const;

  std::uint64_t count_;
  int rounds_;         // even, so that the halves keep their places
  int left_bits_;      // 3..24
  int right_bits_;     // left_bits_ or left_bits_ + 1
  std::uint64_t odd_;  // 0 or 1; 1 exchanges the values 0 and 1
  std::uint64_t round_keys_[kRoundsMax];
};

}  // namespace carya
