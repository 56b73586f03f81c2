#include "autotune/order/deviations.h"

#include <algorithm>

namespace carya::autotune {

Deviations::Deviations(const Search& search, const StageModel& model, double limit_ns)
    : search_(&search),
      ops_(model.chain().size()),
      best_before_(ops_, 0),
      closed_ns_(search.set_count(), std::numeric_limits<double>::infinity()),
      open_ns_(search.end_count(), std::numeric_limits<double>::infinity()),
      turned_(ops_ * ops_),
      split_(ops_) {
  OpSet before = 0;
  for (const Search::Element& element : search.best()) {
    best_before_[element.op] = before;
    before |= op_bit(element.op);
    if (element.joined) best_joined_ |= op_bit(element.op);
  }
  measure_ways_on();
  for (std::size_t size = 0; size < ops_; ++size)
    for (const std::uint32_t set : search.of_size(size)) look_through(set, limit_ns);
}

// Backwards: moves lead to larger sets, whose ways on are known.
void Deviations::measure_ways_on() {
  for (std::size_t size = ops_ + 1; size-- > 0;) {
    for (const std::uint32_t set : search_->of_size(size)) {
      if (size == ops_) closed_ns_[set] = 0;
      search_->moves(set, [&](const Search::Move& move) {
        double& known =
            move.end == Search::kClosed ? closed_ns_[set] : open_ns_[search_->end_index(set, move.end)];
        known = std::min(known, move.ns + on_ns(move));
      });
      for_each_op(search_->ends(set), [&](std::size_t end) {  // an open stage can always be closed
        double& known = open_ns_[search_->end_index(set, static_cast<int>(end))];
        known = std::min(known, closed_ns_[set]);
      });
    }
  }
}

double Deviations::on_ns(const Search::Move& move) const {
  const int end = search_->arrival(move);
  return end == Search::kClosed ? closed_ns_[move.to] : open_ns_[search_->end_index(move.to, end)];
}

void Deviations::look_through(std::uint32_t set, double limit_ns) {
  search_->moves(set, [&](const Search::Move& move) {
    const double ns = search_->reach_ns(set, move.end) + move.ns + on_ns(move);
    if (!(ns <= limit_ns)) return;
    const auto improve = [&](Deviation& known) {
      if (ns < known.ns) known = {.ns = ns, .from = set, .move = move};
    };
    OpSet done = search_->done(set);
    const auto look = [&](const Search::Element& element) {
      // Ops that the optimum runs before this one and that come after it here.
      for_each_op(best_before_[element.op] & ~done,
                  [&](std::size_t second) { improve(turned_[element.op * ops_ + second]); });
      if (!element.joined && (best_joined_ & op_bit(element.op)) != 0) improve(split_[element.op]);
      done |= op_bit(element.op);
    };
    if (move.node == StageModel::kNoNode) {  // nearly all: one op, without a list
      look({.op = static_cast<std::size_t>(move.op), .joined = move.end != Search::kClosed});
    } else {
      for (const Search::Element& element : search_->added(move.end, move.node, move.op)) look(element);
    }
  });
}

Plan Deviations::plan(const Deviation& deviation) const {
  std::vector<Search::Element> way = search_->way_to(deviation.from, deviation.move.end);
  const auto add = [&](const Search::Move& move) {
    const std::vector<Search::Element> ops = search_->added(move.end, move.node, move.op);
    way.insert(way.end(), ops.begin(), ops.end());
  };
  add(deviation.move);
  std::uint32_t set = deviation.move.to;
  int end = search_->arrival(deviation.move);
  while (way.size() < ops_) {
    Search::Move best;
    double best_ns = std::numeric_limits<double>::infinity();
    search_->moves(set, [&](const Search::Move& move) {
      const double ns = move.ns + on_ns(move);
      if ((move.end != Search::kClosed && move.end != end) || !(ns < best_ns)) return;
      best = move;
      best_ns = ns;
    });
    add(best);
    set = best.to;
    end = search_->arrival(best);
  }
  return Search::to_plan(way);
}

}  // namespace carya::autotune
