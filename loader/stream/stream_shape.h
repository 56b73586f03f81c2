#pragma once

#include <cstdint>
#include <string>

#include "base/error.h"

namespace carya::loader {

/// The rows of one step that belong to one rank: positions [first, first + count) of the epoch, in a batch of `rows`
/// rows.
struct RankPart {
  std::uint64_t first = 0;
  std::uint64_t count = 0;  ///< rows that hold records
  std::uint64_t rows = 0;   ///< rows of the arrays: count, or more with pad_last
  /// The part has one row, which another rank delivers too. Here it is computed and marked as not valid.
  bool repeated = false;

  friend bool operator==(const RankPart&, const RankPart&) = default;
};

/// How the positions of an epoch become steps, and how steps become parts of ranks (DESIGN section 4).
///
/// In a last step with fewer positions than ranks, each rank without a position repeats one, since the loss of an empty
/// batch has no mean (docs/decisions/012).
/// Steps may start at any position P: the k-th step after P covers [P + kG, P + (k+1)G).
/// Threads: a value; pure.
struct StreamShape {
  std::uint64_t records = 0;      ///< N
  std::uint64_t global_size = 0;  ///< G
  std::uint64_t world_size = 1;   ///< W, divides G
  std::uint64_t rank = 0;
  bool drop_last = false;
  bool pad_last = false;

  /// Errors: kInvalidArgument (G or W of 0, G not divisible by W, rank outside of the world, N of 0, N < G with
  /// drop_last). Each message says what to do.
  static Result<StreamShape> create(std::uint64_t records, std::uint64_t batch_size,
                                    std::uint64_t global_size, std::uint64_t world_size, std::uint64_t rank,
                                    bool drop_last, bool pad_last);

  std::uint64_t rank_rows_max() const { return global_size / world_size; }
  /// The number of steps from position P to the end of the epoch.
  std::uint64_t steps_from(std::uint64_t position) const;
  /// The number of positions that the step at P covers over all ranks: G, or fewer in the last step.
  std::uint64_t step_positions(std::uint64_t position) const;
  /// This rank's part of the step at P.
  RankPart part(std::uint64_t position) const;
  /// Whether the epoch has no step at P.
  bool at_end(std::uint64_t position) const { return steps_from(position) == 0; }
};

}  // namespace carya::loader
