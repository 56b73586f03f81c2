#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/error.h"
#include "base/permutation.h"

namespace carya::loader {

/// The order of a mix of sources: which source has each position, and which of its samples stands there. It is in closed
/// form, so that any position is found without those before it.
///
/// Position p of epoch e stands at P = e * length + p of the whole stream. How many of the positions before P a source
/// has follows from P and the weights alone, by nested integer floors: source 0 has floor(P * w0 / W), of the rest source
/// 1 has its share, and so on. Each count never goes down, and exactly one goes up with each P. So each source is at its
/// own place at every position: its n-th sample is number n mod count of its own epoch n div count. Largest remainders
/// look fairer and take samples back. Source: Grain's `mix` (google/grain, `_dataset_and_key_of_next_element`).
///
/// Within blocks of positions a permutation keyed by seed, epoch and block breaks the pattern that the floors make.
///
/// Threads: one at a time, since permutations and blocks are kept between calls.
/// Cost: some 10 ns per position and source, and 20 ns for each permutation (`bench functions`, "mix of 8").
class MixOrder {
 public:
  static constexpr std::uint64_t kBlock = 4096;
  static constexpr std::uint64_t kPositionsMax = std::uint64_t{1} << 63;
  static constexpr std::uint64_t kWeightsMax = std::uint64_t{1}
                                               << 31;  // so that products of two have 62 bits

  struct Source {
    std::uint64_t count = 1;  ///< samples of an epoch of its own, at most Permutation::kCountMax
    std::optional<std::uint64_t> shuffle_seed;  ///< of its own order; none: one sample after the other
  };
  /// Weights from a position of the whole stream on: one for each source.
  struct Stretch {
    std::uint64_t at = 0;
    std::vector<std::uint64_t> weights;
  };
  struct Options {
    std::vector<Source> sources;
    std::vector<Stretch> table;         ///< begins at 0 and rises
    std::uint64_t length = 1;           ///< positions of an epoch
    std::optional<std::uint64_t> seed;  ///< of the order within blocks; none: as the floors have it
    bool in_turn = false;               ///< each source gives its samples in their order, also within blocks
  };
  /// Where positions stand, an element for each: the source, its own epoch, and the index in the order of that epoch, or
  /// the sample's number where the source is shuffled.
  struct Rows {
    std::span<std::int64_t> sources, epochs, indices;
  };

  /// Errors: kInvalidArgument (no sources, a table that does not rise, weights, counts).
  static Result<MixOrder> create(Options options);

  /// How many samples each source has given before a position of the whole stream.
  std::vector<std::uint64_t> given(std::uint64_t position) const;

  /// The sources at positions [first, first + n) of an epoch, and how many samples each of those has given before.
  /// Errors: kInvalidArgument (past the end of the epoch; past position kPositionsMax of the stream).
  Status places(std::uint64_t epoch, std::uint64_t first, std::span<std::int64_t> sources,
                std::span<std::int64_t> numbers);

  /// The rows at positions [first, first + n) of an epoch. Errors: as `places`.
  Status rows(std::uint64_t epoch, std::uint64_t first, const Rows& rows);

 private:
  struct Place {
    std::size_t source;
    std::uint64_t number;
  };
  /// A permutation and what it is of.
  struct Kept {
    std::uint64_t key;
    Permutation permutation;
  };

  explicit MixOrder(Options options);
  const Permutation& permutation_of_block(std::uint64_t epoch, std::uint64_t block);
  Place place(std::uint64_t position) const;
  const std::vector<Place>& block_in_turn(std::uint64_t epoch, std::uint64_t block);

  Options options_;
  std::vector<std::uint64_t> totals_;              // of the weights of each stretch
  std::vector<std::vector<std::uint64_t>> bases_;  // what each source has given where each stretch begins
  std::optional<Kept> block_;                      // of the block that was asked last
  std::vector<std::optional<Kept>> orders_;        // of the epoch of each source that was asked last
  std::uint64_t turned_key_ = 0;                   // the block that `turned_` is of, if there is one
  std::vector<Place> turned_;
};

}  // namespace carya::loader
