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

/// What is behind the cost of an op.
struct CostSource {
  double samples = 0;              ///< timed ones
  bool alone = false;              ///< some of them timed the op by itself, not only with others of its stage
  std::int64_t measured_at_s = 0;  ///< Unix time of the last one
};

/// What the optimizer goes by: measured (loader/plan/plan_profile.h), or assumed until something was.
struct PipelineFacts {
  double record_bytes = 110'000;  ///< of a mean encoded image
  std::int64_t height = 375;      ///< of a mean decoded image
  std::int64_t width = 500;
  std::map<std::string, autotune::FittedCost>
      costs;           ///< of ops by label (op_labels()) or name; others are assumed_cost() times machine
  double machine = 1;  ///< CPU time here per CPU time where the assumed costs were measured
  std::map<std::string, CostSource> sources{};  ///< of `costs`
  std::uint64_t pictures = 0;                   ///< behind the sizes; 0: they are assumed

  /// The op's measured cost, by its label or else by its name; null when nobody measured it.
  const autotune::FittedCost* cost_of(const std::string& label, const std::string& name) const;
};

/// CPU time of an op alone that nobody measured here. Source: bench_colors, bench_limit and bench_jpeg on a
/// Sapphire Rapids core with AVX-512, November 2026; orders only need the proportions.
autotune::FittedCost assumed_cost(const transforms::Op& op);

/// A pipeline's ops as the planner sees them: the sizes of the main image (else of the first field that the
/// ops take), what commutes, that a decode reads no more than the windows behind it leave, and that
/// warps and colors of single pixels make no more than the crop behind them reads.
struct PlannerInput {
  autotune::ChainSpec chain;
  autotune::Profile profile;
};
PlannerInput planner_input(const transforms::Pipeline& pipeline, const PipelineFacts& facts);

/// A job's start does not wait longer than some ten milliseconds for its order.
inline constexpr autotune::OrderOptions kExactOrder{.sense = autotune::Sense::kExact, .sets_max = 1 << 14};

/// The cheapest order that gives the same bits, as PlanOptions::order; empty when that is the declared one.
/// Errors: those of the planner; the caller keeps the declared order.
Result<std::vector<std::size_t>> cheapest_exact_order(const transforms::Pipeline& pipeline,
                                                      const PipelineFacts& facts);

/// What `fixed_order()` chooses from: pairs that would change bits for less than a hundredth of the cost do
/// not commute in it. A mirrored crop is another picture, and a flip is free wherever it stands.
PlannerInput worthwhile_input(const transforms::Pipeline& pipeline, autotune::Sense sense);

/// The order of a stream that may have other bits than the declared one: chosen before its first batch, kept
/// in its state and never changed (docs/decisions/005-inexact-orders.md). It is made of the pipeline and
/// assumed costs alone, so that every rank and every run chooses the same. Empty for a sense that
/// keeps the bits, when the cheapest order gives the declared ones, and where the planner cannot order the
/// pipeline.
std::vector<std::size_t> fixed_order(const transforms::Pipeline& pipeline, autotune::Sense sense);

}  // namespace carya::loader
