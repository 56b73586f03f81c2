#pragma once

#include <cstddef>
#include <vector>

#include "autotune/order/cost.h"
#include "base/error.h"

namespace carya::autotune {

struct OrderOptions {
  Sense sense = Sense::kExact;
  bool fuse = true;  ///< false: every op is a stage of its own
  /// Sets of ops to look at before exactness is given up: 18 ops without any constraint. About 250 bytes
  /// each.
  std::size_t sets_max = std::size_t{1} << 18;
};

/// Two ops that a plan runs in another order than the pipeline declares.
struct Exchange {
  std::size_t declared_first = 0;
  std::size_t declared_second = 0;
  Commutes commutes = Commutes::kNever;
  bool operator==(const Exchange&) const = default;
};

struct BestOrder {
  Plan plan;
  PlanCost cost;
  PlanCost declared;  ///< of the declared order without fusion, for comparison
  /// Every pair that the plan exchanges. Under kRounding the differences of those that commute within one
  /// unit add up; how many there are bounds the sum.
  std::vector<Exchange> exchanges;
  bool proven = true;      ///< no legal plan is cheaper by the model
  double least_cpu_s = 0;  ///< what any legal plan costs at least; cost.cpu_s when proven
};

/// The cheapest legal order of a chain, with its fusion. Exact (README); ties keep the declared order. When
/// more than sets_max sets of ops would have to be looked at, the best plan of a narrower look, with `proven`
/// false. Pure. Errors: kInvalidArgument and kExhausted for a profile or machine that cannot be. Cost: at
/// most one step per set of ops that can be done at some moment and op that can come next; a millisecond for
/// 8 ops, bench/planning.cc has more.
Result<BestOrder> best_order(const Chain& chain, const Profile& profile, const Machine& machine,
                             const OrderOptions& options);

/// Whether `plan` runs every op once in an order that `sense` allows. Errors: kInvalidArgument with the two
/// ops that may not change places.
Status check_order(const Chain& chain, const Plan& plan, Sense sense);

/// The pairs of ops that the plan runs in another order than declared, by first, then second op.
std::vector<Exchange> exchanges(const Chain& chain, const Plan& plan);

}  // namespace carya::autotune
