#pragma once

#include <cstddef>
#include <limits>
#include <span>
#include <vector>

#include "autotune/order/chain.h"
#include "autotune/order/profile.h"
#include "autotune/order/stage_model.h"
#include "base/error.h"

namespace carya::autotune {

/// Ops that run as one pass, in this order.
struct Stage {
  std::vector<std::size_t> ops;
  bool operator==(const Stage&) const = default;
};

/// The physical form of a chain: every op once, in stages.
struct Plan {
  std::vector<Stage> stages;
  bool operator==(const Plan&) const = default;
  std::vector<std::size_t> order() const;
};

/// The plan in which every op is a stage of its own.
Plan plan_of(std::span<const std::size_t> order);
/// The plan of the declared order in which every op is a stage of its own.
Plan declared_plan(const Chain& chain);

/// The machine on which a plan runs.
struct Machine {
  double cores = 1;             ///< cores that the ops may use
  double speed = 1;             ///< CPU seconds of the profile's machine per CPU second of this one
  double read_bytes_per_s = 0;  ///< the rate of the storage; 0: no limit is known
};

/// One op inside a plan.
struct OpCost {
  std::size_t op = 0;
  Size in;
  Size out;
  double cpu_s = 0;    ///< per sample; the op's part of a stage that was measured as a whole
  bool fused = false;  ///< the op runs in the pass of the op before it
};

struct StageCost {
  double cpu_s = 0;  ///< per sample
  double rate = 0;   ///< samples per second if all cores run only this stage; infinite without cost
  std::vector<OpCost> ops;
};

/// A rate that something of which a sample needs so much can keep up; infinite where it needs none.
inline double per_second(double available, double of_a_sample) {
  return of_a_sample > 0 ? available / of_a_sample : std::numeric_limits<double>::infinity();
}

/// A place between two stages, at which a sample lies in memory.
struct Cut {
  std::size_t stages_before = 0;  ///< 0: the record as it is read
  double bytes = 0;               ///< bytes of one sample
  double cpu_s_before = 0;        ///< CPU time of the stages before the cut, per sample
  bool repeatable = true;         ///< no random op has run, so that a cache here may serve every epoch
};

struct PlanCost {
  double cpu_s = 0;  ///< per sample
  double rate = 0;   ///< samples per second of all cores, or of the storage if that is less
  std::vector<StageCost> stages;
  std::vector<Cut> cuts;  ///< one before each stage and one after the last
};

/// The one cost function: CPU seconds per sample, sizes at every cut, and rates of a plan. It uses the fitted costs and
/// the sizes that the plan's own order gives. Pure. It does not check that the order is legal (order.h, check_order()).
/// Errors: kInvalidArgument (a plan that does not run every op once, or fuses ops that do not fuse; impossible numbers
/// in the profile or machine).
Result<PlanCost> cost(const Chain& chain, const Plan& plan, const Profile& profile, const Machine& machine);
/// The cost by a model that was made before, for callers with many plans.
Result<PlanCost> cost(const StageModel& model, const Plan& plan, const Machine& machine);

/// Checks the numbers of a machine. Errors: kInvalidArgument, with the number.
Status check(const Machine& machine);

}  // namespace carya::autotune
