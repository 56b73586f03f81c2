#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace carya::transforms {

/// Which column of a row each column of the nearest resize takes, kept between pictures of one size.
///
/// Exact:   nearest_index(); the same bytes on every SIMD target.
/// Threads: owner only for update(); pick() of several threads may run at the same time.
/// Cost:    no heap allocation once tables of that size have been made.
class NearestColumns {
 public:
  /// Make the tables. `mirrored`: as if the input had been mirrored before.
  void update(std::int64_t in_width, std::int64_t out_width, bool mirrored);

  /// Write a row of `out_width` pixels of 1, 3 or 4 channels. Reads exactly the input's row and writes exactly its
  /// own.
  void pick(const std::uint8_t* in, std::int64_t channels, std::uint8_t* out) const;

 private:
  void make_lookups();

  std::int64_t in_width_ = 0;
  bool mirrored_ = false;
  std::vector<std::int32_t> columns_;
  // Of gray rows, for 16 columns at a time: where `blocks_` times 16 bytes are read, and which of each of them is
  // taken (0x80: none). No blocks: columns one by one.
  int blocks_ = 0;
  std::vector<std::int32_t> firsts_;
  std::vector<std::uint8_t> lookups_;
};

}  // namespace carya::transforms
