#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "autotune/order/alternatives.h"
#include "autotune/order/chain.h"
#include "autotune/order/order.h"
#include "autotune/order/profile.h"
#include "base/error.h"
#include "transforms/pipeline/pipeline.h"

namespace carya::loader {

/// The measurements from which the cost of an op was computed.
struct CostSource {
  double samples = 0;  ///< how many samples were timed
  bool alone = false;  ///< at least one of them timed the op by itself, not with others of its stage
  std::int64_t measured_at_s = 0;  ///< Unix time of the last one
};

/// The costs and sizes that the optimizer uses: measured (loader/plan/plan_profile.h), or assumed until then.
struct PipelineInfo {
  double record_bytes = 110'000;  ///< mean of an encoded image
  std::int64_t height = 375;      ///< mean of a decoded image
  std::int64_t width = 500;
  std::map<std::string, autotune::FittedCost>
      costs;           ///< keyed by label (op_labels()) or name; others are assumed_cost() times machine
  double machine = 1;  ///< CPU time here per CPU time where the assumed costs were measured
  std::map<std::string, CostSource> sources{};  ///< keyed as `costs`
  std::uint64_t pictures = 0;                   ///< how many pictures gave the sizes; 0: they are assumed

  /// The op's measured cost, found by its label or else by its name; null when it was not measured.
  const autotune::FittedCost* cost_of(const std::string& label, const std::string& name) const;
};

/// The CPU time that an op is assumed to take alone (OpTraits::assumed_cost), where it was not measured. Source:
/// bench_colors, bench_limit and bench_jpeg on a Sapphire Rapids core with AVX-512, November 2026. Only the proportions
/// matter for an order.
autotune::FittedCost assumed_cost(const transforms::Op& op);

/// A pipeline's ops as the planner sees them: the sizes of the main image (or else of the first field), which ops
/// commute, and which are cheaper together. A decode makes only the pixels that the windows behind it leave; warps and
/// colors of single pixels make only those that the crop behind them reads.
struct PlannerInput {
  autotune::ChainSpec chain;
  autotune::Profile profile;
};
PlannerInput planner_input(const transforms::Pipeline& pipeline, const PipelineInfo& facts);

/// Limits the search so that a job's start waits about ten milliseconds at most for its order.
inline constexpr autotune::OrderOptions kExactOrder{.sense = autotune::Sense::kExact, .sets_max = 1 << 14};

/// The cheapest order that gives the same bits, as PlanOptions::order; empty when that is the declared one.
/// Errors: those of the planner; the caller keeps the declared order.
Result<std::vector<std::size_t>> cheapest_exact_order(const transforms::Pipeline& pipeline,
                                                      const PipelineInfo& facts);

/// The input of fixed_order(). Pairs whose exchange would change bits and save less than 1 % of the cost do not commute
/// in it: a mirrored crop is another picture, and a flip costs nothing wherever it stands.
PlannerInput worthwhile_input(const transforms::Pipeline& pipeline, autotune::Sense sense);

/// The order of a stream whose bits may differ from those of the declared order. It is chosen before the first batch,
/// kept in the stream's state and never changed (docs/decisions/005-inexact-orders.md). It depends on the pipeline and
/// on assumed costs alone, so that every rank and every run chooses the same. Empty for a sense that keeps the bits,
/// when the cheapest order keeps them too, and when the planner cannot order the pipeline.
std::vector<std::size_t> fixed_order(const transforms::Pipeline& pipeline, autotune::Sense sense);

}  // namespace carya::loader
