#pragma once

#include <cstddef>
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

/// Every op a stage of its own.
Plan plan_of(std::span<const std::size_t> order);
/// The declared order, every op a stage of its own.
Plan declared_plan(const Chain& chain);

/// Where a plan runs.
struct Machine {
  double cores = 1;             ///< that the ops may use
  double speed = 1;             ///< CPU seconds of the profile's machine per CPU second of this one
  double read_bytes_per_s = 0;  ///< of the storage; 0: no limit is known
};

/// One op inside a plan.
struct OpCost {
  std::size_t op = 0;
  Size in;
  Size out;
  double cpu_s = 0;    ///< per sample; its part of the stage, where that was measured as a whole
  bool fused = false;  ///< runs in the pass of the op before it
};

struct StageCost {
  double cpu_s = 0;  ///< per sample
  double rate = 0;   ///< samples per second if all cores did nothing else; infinite for a stage without cost
  std::vector<OpCost> ops;
};

/// A place between two stages, where a sample lies in memory.
struct Cut {
  std::size_t stages_before = 0;  ///< 0: the record as it is read
  double bytes = 0;               ///< of one sample
  double cpu_s_before = 0;        ///< per sample, spent up to here
  bool repeatable = true;         ///< no random op has run: a cache here may serve every epoch
};

struct PlanCost {
  double cpu_s = 0;  ///< per sample
  double rate = 0;   ///< samples per second: of all cores, or of the storage if that is less
  std::vector<StageCost> stages;
  std::vector<Cut> cuts;  ///< one before each stage and one after the last
};

/// The one cost function. Pure: CPU seconds per sample, sizes at every cut and rates of a plan, from the
/// fitted costs and the sizes that the plan's own order gives. Errors: kInvalidArgument: a plan that does not
/// run every op once or fuses ops that do not fuse; a profile or machine with numbers that cannot be. Whether
/// the order is legal is another question (order.h, check_order).
Result<PlanCost> cost(const Chain& chain, const Plan& plan, const Profile& profile, const Machine& machine);
/// The same with a model that was made before, as a search does for many plans.
Result<PlanCost> cost(const StageModel& model, const Plan& plan, const Machine& machine);

/// Errors: kInvalidArgument with the number.
Status check(const Machine& machine);

}  // namespace carya::autotune
