#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "autotune/order/order.h"

namespace carya::autotune {

struct AlternativesOptions {
  OrderOptions order;
  double margin = 0.2;         ///< how much more CPU time a plan may take to be named
  std::size_t plans_max = 16;  ///< the cheapest ones are kept
};

/// Why an op costs more in one plan than in the best.
struct Reason {
  std::size_t op = 0;
  double extra_cpu_s = 0;  ///< per sample
  std::string text;        ///< "gaussian_blur takes 310 us more: it reads 588 KiB instead of 147 KiB"
};

/// A plan that lost: the cheapest one that differs from the best in one given respect.
struct Alternative {
  Plan plan;
  PlanCost cost;
  double loss = 0;  ///< extra CPU time as a share of the best plan's
  std::string
      turned;  ///< the respect: "random_resized_crop before grayscale", "normalize not fused with to_dtype"
  std::vector<Reason>
      reasons;       ///< ops that cost more, most first; those under a twentieth of the difference left out
  std::string text;  ///< all of it in a line
};

/// What one exchange of the best plan saves: the difference to the cheapest plan without it.
struct ExchangeSaving {
  Exchange exchange;
  double saved_cpu_s = 0;  ///< per sample
  bool at_least = false;   ///< no plan without it is within the margin; saved_cpu_s is the margin
};

/// What running an op in the stage of the op before it saves, in the same sense.
struct FusionSaving {
  std::size_t leader = 0;
  std::size_t op = 0;
  double saved_cpu_s = 0;
  bool at_least = false;
};

struct Alternatives {
  Plan best;
  PlanCost cost;
  bool proven = true;  ///< false: more sets than sets_max; what is here was found, cheaper ones may exist
  std::vector<Alternative> plans;  ///< cheapest first
  std::vector<ExchangeSaving> exchanges;
  std::vector<FusionSaving> fusions;
};

/// The plans within the margin and why they lost, and what each move of the best one saves: for `explain`. A
/// plan is named for each pair of ops that it runs the other way round and for each op that it does not fuse,
/// so that the list shows what matters and not a thousand orders that differ in nothing that does. Pure.
/// Errors: as best_order(); kInvalidArgument for a margin that is negative or not finite. Cost: about four
/// times best_order(), more with a wide margin.
Result<Alternatives> alternatives(const Chain& chain, const Profile& profile, const Machine& machine,
                                  const AlternativesOptions& options);

/// Which ops make `other` dearer than `best`, and why.
std::vector<Reason> reasons(const Chain& chain, const PlanCost& best, const PlanCost& other);

}  // namespace carya::autotune
