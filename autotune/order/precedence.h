#pragma once

#include <vector>

#include "autotune/order/chain.h"

namespace carya::autotune {

/// Which op must run before which, under a sense: the transitive closure of "declared earlier, and the two
/// may not change places". The orders that keep it are exactly those that exchanges of neighbours can reach
/// (README, proof 1). Immutable.
class Precedence {
 public:
  Precedence(const Chain& chain, Sense sense);

  OpSet before(std::size_t op) const { return before_[op]; }
  OpSet after(std::size_t op) const { return after_[op]; }
  /// Ops outside `done` whose predecessors are all in it. `done` holds the predecessors of its members.
  OpSet eligible(OpSet done) const;
  /// Ops of `done` that may have been the last of them.
  OpSet maximal(OpSet done) const;

 private:
  OpSet all_;
  std::vector<OpSet> before_;
  std::vector<OpSet> after_;
};

/// Calls f(op) for every op of the set, lowest first.
template <typename F>
void for_each_op(OpSet ops, F&& f) {
  for (; ops != 0; ops &= ops - 1) f(static_cast<std::size_t>(__builtin_ctzll(ops)));
}

}  // namespace carya::autotune
