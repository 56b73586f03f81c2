#pragma once

#include <algorithm>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "autotune/order/cost.h"
#include "autotune/order/lower_bound.h"
#include "autotune/order/precedence.h"
#include "autotune/order/set_index.h"
#include "autotune/order/stage_model.h"

namespace carya::autotune {

/// The search behind order.h and alternatives.h: dynamic programming over the sets of ops that can be done at some
/// moment (the down-sets of the precedence). The README has the proofs.
///
/// For every set it keeps the least cost at which the set is done with all stages closed. For every op that may have
/// been the last one, it also keeps the least cost with that op's stage still open. A move adds ops:
///   1. one op begins a stage;
///   2. one op joins the open stage of another;
///   3. several ops begin a measured stage, which is charged as a whole. Perhaps one more op follows, with which the
/// stage
///      leaves the tree of measured stages and stays open.
/// Sets are expanded by their number of ops, so that each set is final when its turn comes.
/// Threads: owner only. Memory: about 250 bytes per set.
class Search {
 public:
  static constexpr int kClosed = -1;

  /// How the last op was added: from a set and its open end (or kClosed), through a node of the measured stages (or
  /// none), by an op (or none).
  struct Step {
    std::uint32_t from = SetIndex::kNone;
    std::int8_t end = kClosed;
    std::int8_t op = -1;
    std::int16_t node = StageModel::kNoNode;
  };
  /// A move out of a set, and the number of the set that it leads to.
  struct Move {
    int end = kClosed;  ///< the open end that the move needs; kClosed: it begins a stage
    int node = StageModel::kNoNode;
    int op = -1;
    double ns = 0;
    std::uint32_t to = SetIndex::kNone;
  };
  /// One op of a plan. `joined`: it is in the stage of the op before.
  struct Element {
    std::size_t op = 0;
    bool joined = false;
  };

  static Plan to_plan(const std::vector<Element>& elements);

  /// Make a search that keeps references to all three arguments.
  Search(const Precedence& precedence, const StageModel& model, const LowerBound& bound)
      : precedence_(&precedence), model_(&model), bound_(&bound) {}

  /// Look at every set that can be part of a plan of at most (1 + margin) x the optimum. Returns true if all were
  /// looked at, so that the best plan is the optimum. False: there were more than sets_max, and only the most promising
  /// sets of each size were looked at.
  bool run(double margin, std::size_t sets_max);

  /// The least cost of the whole chain.
  double best_ns() const;
  std::vector<Element> best() const;

  // For alternatives.h: the sets that were expanded, and the moves between them.
  std::size_t set_count() const { return sets_.size(); }
  const std::vector<std::uint32_t>& of_size(std::size_t ops) const { return by_size_[ops]; }
  OpSet done(std::uint32_t set) const { return sets_[set].done; }
  OpSet ends(std::uint32_t set) const { return sets_[set].ends; }
  bool live(std::uint32_t set) const { return sets_[set].live; }
  double reach_ns(std::uint32_t set, int end) const { return value(set, end).ns; }
  /// The index of an open end among all: unique per (set, end).
  std::size_t end_index(std::uint32_t set, int end) const;
  std::size_t end_count() const { return open_.size(); }
  /// The end at which a move arrives: its last op, or kClosed.
  int arrival(const Move& move) const;
  /// The ops on the best way to a set and end.
  std::vector<Element> way_to(std::uint32_t set, int end) const;
  /// The ops that a move adds.
  std::vector<Element> added(int end, int node, int op) const;
  /// Calls visit(move) for every move out of the set to a live set.
  template <typename Visit>
  void moves(std::uint32_t set, Visit&& visit) const {
    const auto locate = [&](OpSet done, const Size&, double) {
      const std::uint32_t to = index_.find(done);
      return to != SetIndex::kNone && sets_[to].live ? to : SetIndex::kNone;
    };
    enumerate(set, locate, visit);
  }

 private:
  struct Value {
    double ns = std::numeric_limits<double>::infinity();
    Step step;
  };
  struct Set {
    OpSet done = 0;
    OpSet eligible = 0;  // ops that can come next
    OpSet ends = 0;      // ops that may have been last and can be joined by one that can come next
    Size size;
    double floor_ns = 0;  // of all ops outside, by LowerBound::op_ns
    Value closed;
    std::uint32_t first_end = 0;  // in open_
    bool live = false;            // expanded, or whole
  };
  // How a tie is decided: the later declared op comes last, then the same before it, then fewer stages.
  struct Rank {
    int last = -1;
    int before = -1;
    bool joined = false;
    auto operator<=>(const Rank&) const = default;
  };
  enum class Outcome : std::uint8_t { kComplete, kNarrowed, kTooManySets };

  Outcome pass(double limit_ns, std::size_t width, std::size_t sets_max);
  void clear();
  std::uint32_t find_or_add(OpSet done, const Size& size);
  /// Which sets of one size go on: those within the limit, at most `width`, the most promising.
  bool choose(std::vector<std::uint32_t>& sets, double limit_ns, std::size_t width);
  void expand(std::uint32_t set, double limit_ns);
  void relax(std::uint32_t from, const Move& move);
  int last(const Step& step) const;
  Rank rank(const Step& step) const;
  const Value& value(std::uint32_t set, int end) const {
    return end == kClosed ? sets_[set].closed : open_[end_index(set, end)];
  }

  /// visit(move) for every move; locate(done, size, least_ns) gives the number of the set where moves lead
  /// that cost at least least_ns, or kNone to skip them.
  template <typename Locate, typename Visit>
  void enumerate(std::uint32_t set, Locate&& locate, Visit&& visit) const;
  template <typename Locate, typename Visit>
  void walk(int node, StageModel::Walk stage, OpSet done, Locate&& locate, Visit&& visit) const;

  const Precedence* precedence_;
  const StageModel* model_;
  const LowerBound* bound_;
  SetIndex index_;           // numbers are indices of sets_
  std::vector<Set> sets_;    // [0] is the empty set
  std::vector<Value> open_;  // of each set, one per member of `ends`, in order
  std::vector<std::vector<std::uint32_t>> by_size_;
};

template <typename Locate, typename Visit>
void Search::enumerate(std::uint32_t set, Locate&& locate, Visit&& visit) const {
  constexpr double kNever = std::numeric_limits<double>::infinity();
  const Set here = sets_[set];  // a copy: locate may add sets
  const Chain& chain = model_->chain();
  for_each_op(here.eligible, [&](std::size_t op) {
    OpSet leaders = 0;
    for_each_op(here.ends, [&](std::size_t end) {
      if ((model_->fuses_with(end) & op_bit(op)) != 0) leaders |= op_bit(end);
    });
    const bool begins = model_->child(StageModel::kRoot, op) == StageModel::kNoNode;
    if (!begins && leaders == 0) return;
    const Size out = chain.op(op).size(here.size);
    const double first_ns = begins ? model_->first_ns(op, here.size, out) : kNever;
    const double follower_ns = leaders != 0 ? model_->follower_ns(op, here.size, out) : kNever;
    const std::uint32_t to = locate(here.done | op_bit(op), out, std::min(first_ns, follower_ns));
    if (to == SetIndex::kNone) return;
    const int added = static_cast<int>(op);
    if (begins)
      visit(Move{.end = kClosed, .node = StageModel::kNoNode, .op = added, .ns = first_ns, .to = to});
    for_each_op(leaders, [&](std::size_t end) {
      visit(Move{.end = static_cast<int>(end),
                 .node = StageModel::kNoNode,
                 .op = added,
                 .ns = follower_ns,
                 .to = to});
    });
  });
  for (const int node : model_->children(StageModel::kRoot))
    walk(node, StageModel::begin(here.size), here.done, locate, visit);
}

template <typename Locate, typename Visit>
void Search::walk(int node, StageModel::Walk stage, OpSet done, Locate&& locate, Visit&& visit) const {
  const std::size_t op = model_->op_of(node);
  if ((done & op_bit(op)) != 0 || (precedence_->before(op) & ~done) != 0) return;
  model_->append(stage, op);
  done |= op_bit(op);
  // Not cut short when there is no such set: a longer measured stage may cost less than its beginning.
  if (const std::uint32_t to = locate(done, stage.at, stage.ns); to != SetIndex::kNone)
    visit(Move{.end = kClosed, .node = node, .op = -1, .ns = stage.ns, .to = to});
  for_each_op(precedence_->eligible(done) & model_->fuses_with(op), [&](std::size_t next) {
    if (const int below = model_->child(node, next); below != StageModel::kNoNode) {
      walk(below, stage, done, locate, visit);
      return;
    }
    const Size out = model_->chain().op(next).size(stage.at);
    const double ns = stage.ns + model_->follower_ns(next, stage.at, out);
    if (const std::uint32_t to = locate(done | op_bit(next), out, ns); to != SetIndex::kNone)
      visit(Move{.end = kClosed, .node = node, .op = static_cast<int>(next), .ns = ns, .to = to});
  });
}

}  // namespace carya::autotune
