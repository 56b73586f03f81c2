#pragma once

#include <cstddef>
#include <vector>

#include "autotune/order/cost.h"
#include "base/error.h"

namespace carya::autotune {

struct OrderOptions {
  Sense sense = Sense::kExact;
  bool fuse = true;  ///< false: every op is a stage of its own
  /// The number of sets of ops after which the search is exact no more. It suffices for 18 ops without a constraint. A
  /// set takes about 250 bytes.
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
  PlanCost declared;  ///< the cost of the declared order without fusion, for comparison
  /// All pairs that the plan exchanges. Under kRounding the differences of pairs that commute within one unit add up,
  /// so that their number bounds the sum.
  std::vector<Exchange> exchanges;
  bool proven = true;      ///< no legal plan is cheaper by the model
  double least_cpu_s = 0;  ///< a lower bound of every legal plan's cost; cost.cpu_s if proven
};

/// The cheapest legal order of a chain, with its fusion. It is exact (README); ties keep the declared order. If the
/// search needs more than sets_max sets of ops, it narrows, and `proven` is false. Pure. Errors: kInvalidArgument and
/// kExhausted for an impossible profile or machine. Cost: at most one step per reachable set of ops and op that can
/// come next; a millisecond for 8 ops. bench/planning.cc has more.
Result<BestOrder> best_order(const Chain& chain, const Profile& profile, const Machine& machine,
                             const OrderOptions& options);

/// Checks that `plan` runs every op once, in an order that `sense` allows. Errors: kInvalidArgument, with the two ops
/// that may not change places.
Status check_order(const Chain& chain, const Plan& plan, Sense sense);

/// The pairs of ops that the plan runs in another order than declared, sorted by first, then second op.
std::vector<Exchange> exchanges(const Chain& chain, const Plan& plan);

}  // namespace carya::autotune
