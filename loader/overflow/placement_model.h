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
  double host = 1;    ///< that the stream may use
  double worker = 1;  ///< of one worker
};

/// What the one cost function says of a pipeline whose ops run in this order, with workers that get the
/// records from the host: a sample that stays, and every place where the plan can be cut. Errors: those of
/// the planner.
Result<autotune::PlacementFacts> placement_facts(const std::shared_ptr<const transforms::Pipeline>& pipeline,
                                                 const PlanProfile& profile,
                                                 std::span<const std::size_t> order,
                                                 const PlacementCores& cores);

}  // namespace carya::loader
