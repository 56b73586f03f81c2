#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "autotune/cache/cache_choice.h"
#include "base/error.h"
#include "loader/data/store_sources.h"
#include "loader/plan/plan_profile.h"
#include "transforms/pipeline/pipeline.h"

namespace carya::loader {

/// Whether an op, with those inside of it, gives the same of the same sample in every epoch.
bool is_repeatable(const transforms::Op& op);

/// Which epochs have the same results of the first `ops` in this order, where one of them is random and before
/// reuse_augmentation(), as the pipeline says it; null: all epochs have.
const EpochGroups* place_groups(const transforms::Pipeline& pipeline, std::span<const std::size_t> order,
                                std::size_t ops);

/// Whether what an op makes can be kept, by its index: it gives the same in every epoch, or in those that
/// reuse_augmentation() says.
bool can_keep_behind(const transforms::Pipeline& pipeline, std::size_t op);

/// Where samples may be kept when the ops run in this order: behind so many ops, ascending. Everything is decoded there,
/// no op has run that differs in each epoch, and the plan can be taken apart.
std::vector<std::size_t> cache_places(const std::shared_ptr<const transforms::Pipeline>& pipeline,
                                      std::span<const std::size_t> order);

/// Whether packed coefficients can be kept before all ops, when they run in this order and the plan is fused.
bool can_keep_coefficients(const std::shared_ptr<const transforms::Pipeline>& pipeline,
                           std::span<const std::size_t> order);

/// What it costs to read a record from its stores, as CPU seconds of a sample; see autotune::CacheInputs.
struct ReadCost {
  double cpu_s = 0;    ///< of the store thread
  double money_s = 0;  ///< CPU seconds that cost as much as the requests and bytes
  double wait_s = 0;   ///< CPU seconds that the threads have meanwhile, at the store's best rate
};
/// By what was asked of the stores so far; before that a record is a request, which takes as long as in most regions.
/// `core_price`: $ of a CPU second; `threads`: that compute.
ReadCost read_cost(std::span<const StoreFigures> stores, double core_price, double threads);

/// What the planner's cost function says of a sample for which nothing is kept, and of each of those places: costs and
/// bytes. `places` are behind the ops of cache_places(), or before all. `record_bytes`: mean of the records that are kept
/// as they were read. The caller sets what reading costs, records, capacity and epochs. Errors: those of the planner.
Result<autotune::CacheInputs> cache_facts(const transforms::Pipeline& pipeline, const PlanProfile& profile,
                                          std::span<const std::size_t> order,
                                          std::span<const autotune::CachePoint> places, double record_bytes);

/// Put what was measured of places that ran in the place of what the model says: bytes, fill_s and hit_s, where above 0. To
/// fill other places is taken to be as much dearer than the model says as it was there.
void take_measured(autotune::CacheInputs& facts,
                   const std::map<autotune::CachePoint, autotune::CachePlace>& measured);

}  // namespace carya::loader
