#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "autotune/cache/cache_choice.h"
#include "base/error.h"
#include "loader/plan/plan_profile.h"
#include "transforms/pipeline/pipeline.h"

namespace carya::loader {

/// Whether an op, with those inside of it, gives the same of the same sample in every epoch.
bool is_repeatable(const transforms::Op& op);

/// Where samples may be kept when the ops run in this order: behind so many ops, ascending. Everything is decoded there,
/// no random op has run, and the plan can be taken apart.
std::vector<std::size_t> cache_places(const std::shared_ptr<const transforms::Pipeline>& pipeline,
                                      std::span<const std::size_t> order);

/// Whether packed coefficients can be kept before all ops, when they run in this order and the plan is fused.
bool can_keep_coefficients(const std::shared_ptr<const transforms::Pipeline>& pipeline,
                           std::span<const std::size_t> order);

/// What the planner's cost function says of a sample for which nothing is kept, and of each of those places: costs and
/// bytes. `places` are those of cache_places(), and 0 for coefficients. The caller sets records, capacity and epochs. Errors: those of the
/// planner.
Result<autotune::CacheInputs> cache_facts(const transforms::Pipeline& pipeline, const PlanProfile& profile,
                                          std::span<const std::size_t> order,
                                          std::span<const std::size_t> places);

}  // namespace carya::loader
