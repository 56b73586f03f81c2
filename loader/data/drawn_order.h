#pragma once

#include <cstdint>
#include <vector>

#include "base/error.h"

namespace carya::loader {

/// Which record stands at a position of an epoch that does not have each record once: records are drawn by weights, with
/// replacement, or come several times. Any position is found without those before it. Threads: const is thread-safe.
///
/// It gives indices into the records that a stream goes through. Random numbers of a row at position p are those of
/// occurrence kAgain + p of its record, so that a record has other ones each time.
class DrawnOrder {
 public:
  static constexpr std::uint64_t kAgain = std::uint64_t{1} << 48;  ///< past the occurrences of substitutes
  static constexpr std::uint64_t kPositionsMax = std::uint64_t{1} << 40;

  /// Record i has the weight ends[i] - ends[i - 1]. Position p takes the p-th number of Philox4x64-10 as numpy's
  /// `Philox(key=[key, epoch])` gives them. Errors: kInvalidArgument (no records, ends that fall or do not end above 0,
  /// an end beyond 2^53, positions outside of 1..kPositionsMax).
  static Result<DrawnOrder> weighted(std::vector<std::int64_t> ends, std::uint64_t positions,
                                     std::uint64_t key);
  /// An epoch goes through the records in blocks: `within` positions have within / times records one after the other,
  /// then the same again, until they came `times` times. Errors: kInvalidArgument (a count of 0, `within` that `times`
  /// does not divide, more positions than records x times or kPositionsMax).
  static Result<DrawnOrder> repeated(std::uint64_t records, std::uint64_t times, std::uint64_t within,
                                     std::uint64_t positions);

  std::uint64_t records() const { return records_; }
  std::uint64_t positions() const { return positions_; }
  /// Whether an index is a place in the shuffled order of the records, if the stream is shuffled, and not a record's.
  bool in_order() const { return ends_.empty(); }
  std::uint64_t index(std::uint64_t epoch, std::uint64_t position) const;

 private:
  DrawnOrder() = default;

  std::uint64_t records_ = 0, positions_ = 0;
  std::vector<std::int64_t> ends_;  // weighted
  std::uint64_t key_ = 0;
  std::uint64_t within_ = 1, apart_ = 1;  // repeated: positions and records of a block
};

}  // namespace carya::loader
