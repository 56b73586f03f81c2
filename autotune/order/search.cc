#include "autotune/order/search.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace carya::autotune {
namespace {

// Sums of the same costs in another order differ by rounding; what is closer than this is a tie.
constexpr double kTie = 1e-12;
// Slack of every comparison with a bound, for the same reason and far above kTie.
constexpr double kSlack = 1e-9;
// Sets of each size in the quick look that gives the first bound.
constexpr std::size_t kQuickWidth = 32;

}  // namespace

Plan Search::to_plan(const std::vector<Element>& elements) {
  Plan plan;
  for (const Element& element : elements) {
    if (!element.joined) plan.stages.emplace_back();
    plan.stages.back().ops.push_back(element.op);
  }
  return plan;
}

bool Search::run(double margin, std::size_t sets_max) {
  constexpr double kNoLimit = std::numeric_limits<double>::infinity();
  constexpr std::size_t kAnyWidth = std::numeric_limits<std::size_t>::max();
  if (pass(kNoLimit, kQuickWidth, kAnyWidth) == Outcome::kComplete) return true;
  const double limit_ns = best_ns() * (1 + margin);
  if (pass(limit_ns, kAnyWidth, sets_max) == Outcome::kComplete) return true;
  const std::size_t ops = model_->chain().size();
  pass(limit_ns, std::max(kQuickWidth, sets_max / (ops * ops)), kAnyWidth);
  // Never worse than the quick look: if the wider one lost that plan on its way, look quickly again.
  if (best_ns() > limit_ns / (1 + margin) * (1 + kSlack)) pass(kNoLimit, kQuickWidth, kAnyWidth);
  return false;
}

Search::Outcome Search::pass(double limit_ns, std::size_t width, std::size_t sets_max) {
  clear();
  const std::size_t ops = model_->chain().size();
  find_or_add(0, model_->profile().source);
  sets_[0].closed.ns = 0;
  bool narrowed = false;
  for (std::size_t size = 0; size <= ops; ++size) {
    // Moved away and back: expanding adds to larger sizes only.
    std::vector<std::uint32_t> sets = std::move(by_size_[size]);
    narrowed |= choose(sets, limit_ns, width);
    for (const std::uint32_t set : sets) {
      if (sets_.size() > sets_max) return Outcome::kTooManySets;
      expand(set, limit_ns);  // nothing to do for the whole chain
    }
    by_size_[size] = std::move(sets);
  }
  return narrowed ? Outcome::kNarrowed : Outcome::kComplete;
}

void Search::clear() {
  index_ = SetIndex();
  sets_.clear();
  open_.clear();
  by_size_.assign(model_->chain().size() + 1, {});
}

std::uint32_t Search::find_or_add(OpSet done, const Size& size) {
  const std::uint32_t number = index_.find_or_add(done);
  if (number < sets_.size()) return number;
  Set set{.done = done, .size = size};
  set.eligible = precedence_->eligible(done);
  for_each_op(precedence_->maximal(done), [&](std::size_t op) {
    if ((model_->fuses_with(op) & set.eligible) != 0) set.ends |= op_bit(op);
  });
  for_each_op(model_->chain().all() & ~done, [&](std::size_t op) { set.floor_ns += bound_->op_ns(op); });
  set.first_end = static_cast<std::uint32_t>(open_.size());
  open_.resize(open_.size() + static_cast<std::size_t>(__builtin_popcountll(set.ends)));
  by_size_[static_cast<std::size_t>(__builtin_popcountll(done))].push_back(number);
  sets_.push_back(set);
  return number;
}

bool Search::choose(std::vector<std::uint32_t>& sets, double limit_ns, std::size_t width) {
  std::vector<std::pair<double, std::uint32_t>> promising;  // least cost of a whole plan through the set
  for (const std::uint32_t number : sets) {
    Set& set = sets_[number];
    for_each_op(set.ends, [&](std::size_t end) {
      const Value& open = open_[end_index(number, static_cast<int>(end))];
      const bool better = open.ns < set.closed.ns * (1 - kTie);
      const bool tie = !better && open.ns <= set.closed.ns * (1 + kTie);
      if (better || (tie && rank(open.step) > rank(set.closed.step))) set.closed = open;
    });
    const double least_ns = set.closed.ns + bound_->rest_ns(set.done, set.size);
    if (std::isfinite(least_ns) && least_ns <= limit_ns * (1 + kSlack))
      promising.emplace_back(least_ns, number);
  }
  const bool narrowed = promising.size() > width;
  if (narrowed) {
    std::sort(promising.begin(), promising.end());
    promising.resize(width);
  }
  sets.clear();
  for (const auto& [least_ns, number] : promising) {
    sets_[number].live = true;
    sets.push_back(number);
  }
  return narrowed;
}

void Search::expand(std::uint32_t set, double limit_ns) {
  const double reached_ns = sets_[set].closed.ns;  // no end of the set is reached for less
  const double floor_ns = sets_[set].floor_ns;
  const OpSet before = sets_[set].done;
  const auto locate = [&](OpSet done, const Size& size, double least_ns) {
    double rest_ns = floor_ns;
    for_each_op(done & ~before, [&](std::size_t op) { rest_ns -= bound_->op_ns(op); });
    // `floor_ns` is part of what the limit is compared with, so the slack covers the rounding of the
    // difference.
    if (reached_ns + least_ns + rest_ns > limit_ns * (1 + kSlack)) return SetIndex::kNone;
    return find_or_add(done, size);
  };
  enumerate(set, locate, [&](const Move& move) { relax(set, move); });
}

void Search::relax(std::uint32_t from, const Move& move) {
  const double ns = value(from, move.end).ns + move.ns;
  if (!std::isfinite(ns)) return;  // the set was never left by that end
  const int end = arrival(move);
  Value& known = end == kClosed ? sets_[move.to].closed : open_[end_index(move.to, end)];
  if (ns > known.ns * (1 + kTie)) return;
  const Step step{.from = from,
                  .end = static_cast<std::int8_t>(move.end),
                  .op = static_cast<std::int8_t>(move.op),
                  .node = static_cast<std::int16_t>(move.node)};
  if (ns < known.ns * (1 - kTie) || rank(step) > rank(known.step)) known = {ns, step};
}

int Search::last(const Step& step) const {
  if (step.op >= 0) return step.op;
  return step.node == StageModel::kNoNode ? -1 : static_cast<int>(model_->op_of(step.node));
}

Search::Rank Search::rank(const Step& step) const {
  if (step.from == SetIndex::kNone) return {};
  // The op before the last in the same move: at the step's node, or at the parent when the node is the last.
  const int node = step.op >= 0 || step.node == StageModel::kNoNode ? step.node : model_->parent(step.node);
  if (node > StageModel::kRoot)
    return {.last = last(step), .before = static_cast<int>(model_->op_of(node)), .joined = true};
  if (step.end != kClosed) return {.last = last(step), .before = step.end, .joined = true};
  return {.last = last(step), .before = last(sets_[step.from].closed.step), .joined = false};
}

std::size_t Search::end_index(std::uint32_t set, int end) const {
  const OpSet below = sets_[set].ends & (op_bit(static_cast<std::size_t>(end)) - 1);
  return sets_[set].first_end + static_cast<std::size_t>(__builtin_popcountll(below));
}

int Search::arrival(const Move& move) const {
  if (move.op < 0) return kClosed;
  return (sets_[move.to].ends & op_bit(static_cast<std::size_t>(move.op))) != 0 ? move.op : kClosed;
}

double Search::best_ns() const {
  const std::uint32_t whole = index_.find(model_->chain().all());
  return whole == SetIndex::kNone ? std::numeric_limits<double>::infinity() : sets_[whole].closed.ns;
}

std::vector<Search::Element> Search::best() const {
  const std::uint32_t whole = index_.find(model_->chain().all());
  CHECK(whole != SetIndex::kNone);  // even the narrowest look ends somewhere
  return way_to(whole, kClosed);
}

std::vector<Search::Element> Search::added(int end, int node, int op) const {
  std::vector<Element> ops;
  if (node != StageModel::kNoNode)
    for (const std::size_t member : model_->path(node)) ops.push_back({member, !ops.empty()});
  if (op >= 0) ops.push_back({static_cast<std::size_t>(op), end != kClosed || !ops.empty()});
  return ops;
}

std::vector<Search::Element> Search::way_to(std::uint32_t set, int end) const {
  std::vector<Element> way;  // last op first
  while (sets_[set].done != 0) {
    const Step step = value(set, end).step;
    std::vector<Element> ops = added(step.end, step.node, step.op);
    way.insert(way.end(), ops.rbegin(), ops.rend());
    set = step.from;
    end = step.end;
  }
  std::reverse(way.begin(), way.end());
  return way;
}

}  // namespace carya::autotune
