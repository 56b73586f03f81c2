#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "autotune/placement/placement.h"
#include "base/error.h"
#include "loader/plan/plan_profile.h"
#include "transforms/pipeline/pipeline.h"

namespace carya::loader {

/// Cores of the two sides.
struct PlacementCores {
  double host = 1;    ///< cores of this machine that the stream may use
  double worker = 1;  ///< cores of one worker
};

/// The inputs of the placement decision, by the planner's cost function, for a pipeline whose ops run in this order and
/// workers that get records from the host. They are the cost of a sample that stays, and of each place where the plan
/// can be cut. Errors: those of the planner.
Result<autotune::PlacementInputs> placement_facts(const std::shared_ptr<const transforms::Pipeline>& pipeline,
                                                  const PlanProfile& profile,
                                                  std::span<const std::size_t> order,
                                                  const PlacementCores& cores);

}  // namespace carya::loader
