#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "autotune/order/search.h"

namespace carya::autotune {

/// What the best plan costs that differs from the optimum in one given respect, for every respect at once:
/// two ops the other way round, or an op not fused with the one before it. Found from the sets of a finished
/// search in one pass, since each plan is a way through a move: way there + move + way on.
/// Keeps a reference to the search. Immutable. Threads: const is thread-safe.
class Deviations {
 public:
  /// Looks at plans of at most `limit_ns`, the limit that the search kept or less.
  Deviations(const Search& search, const StageModel& model, double limit_ns);

  struct Deviation {
    double ns = std::numeric_limits<double>::infinity();  ///< infinite: none within the limit
    std::uint32_t from = SetIndex::kNone;
    Search::Move move;
    bool found() const { return from != SetIndex::kNone; }
  };

  /// The cheapest plan in which `first`, that the optimum runs after `second`, runs before it.
  const Deviation& turned(std::size_t first, std::size_t second) const {
    return turned_[first * ops_ + second];
  }
  /// The cheapest plan in which `op`, that the optimum runs in the stage of the op before, begins a stage.
  const Deviation& split(std::size_t op) const { return split_[op]; }
  Plan plan(const Deviation& deviation) const;

 private:
  void measure_ways_on();
  void look_through(std::uint32_t set, double limit_ns);
  double on_ns(const Search::Move& move) const;

  const Search* search_;
  std::size_t ops_;
  std::vector<OpSet> best_before_;  // [op]: ops that the optimum runs before it
  OpSet best_joined_ = 0;           // ops that the optimum runs in the stage of the op before
  std::vector<double> closed_ns_;   // [set]: the cheapest way on from it
  std::vector<double> open_ns_;     // [Search::end_index]: the same, the op's stage being open
  std::vector<Deviation> turned_;   // [first * ops + second]
  std::vector<Deviation> split_;
};

}  // namespace carya::autotune
