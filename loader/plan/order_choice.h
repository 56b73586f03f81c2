#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "autotune/order/cost.h"
#include "base/error.h"
#include "loader/plan/plan_profile.h"

namespace carya::loader {

/// An order that should run instead of the present one, and why.
struct PlanChoice {
  std::vector<std::size_t> order;
  double us_before = 0;  ///< CPU time of one sample in the present order, by the same means as us_after
  double us_after = 0;
  bool measured = false;  ///< both were measured; else both are the cost model's
  std::string reason;     ///< a line for a person
};

/// What a stream has tried already.
struct TriedOrders {
  std::vector<std::vector<std::size_t>> begun;  ///< an order as often as the stream turned to it
};

/// Less is noise, or not worth a change.
inline constexpr double kWorthwhileSaving = 0.05;
/// Timed samples of an order after which it says something.
inline constexpr std::uint64_t kTrustedSamples = 8;

/// The plan of an order: ops join the stage before them where that makes it cheaper. Errors: those of cost().
Result<autotune::Plan> fused_plan(const autotune::StageModel& model, std::span<const std::size_t> order);

/// The order to go on with, or nothing: one that was measured to be cheaper, by more than the spread of
/// photos explains; else the one that the cost model calls best with the costs that were measured, if the
/// stream has not turned to it yet and measurements do not contradict. No oscillation: an order that was left
/// is taken again only when it was measured to be cheaper, and once. Exact orders only. Pure. Errors: those
/// of the planner.
Result<std::optional<PlanChoice>> better_order(const transforms::Pipeline& pipeline,
                                               const PlanProfile& profile,
                                               std::span<const std::size_t> present,
                                               const TriedOrders& tried);

/// The order to begin with: without a profile the cheapest by assumed costs; with one the order measured
/// last, or a better one. Always each op once. Errors: those of the planner.
Result<std::vector<std::size_t>> first_order(const transforms::Pipeline& pipeline,
                                             const PlanProfile& profile);

/// Each op once, as the pipeline declares them.
std::vector<std::size_t> declared_order(const transforms::Pipeline& pipeline);

}  // namespace carya::loader
