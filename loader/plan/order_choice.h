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
  double us_before = 0;   ///< CPU time of one sample in the present order, in µs
  double us_after = 0;    ///< CPU time of one sample in `order`, in µs
  bool measured = false;  ///< both times were measured; else both come from the cost model
  std::string reason;     ///< one line for a person
};

/// The orders that a stream has tried already.
struct TriedOrders {
  std::vector<std::vector<std::size_t>> begun;  ///< each order as often as the stream turned to it
};

/// A smaller saving is noise, or not worth a change.
inline constexpr double kWorthwhileSaving = 0.05;
/// An order's measured cost counts after so many timed samples.
inline constexpr std::uint64_t kTrustedSamples = 8;

/// The plan of an order. An op joins the stage before it if that is cheaper. Errors: those of cost().
Result<autotune::Plan> fused_plan(const autotune::StageModel& model, std::span<const std::size_t> order);

/// The order to go on with; empty: the present one.
///
/// An order that was measured to be cheaper comes first, if the spread of photos does not explain the difference. Else
/// it is the best order by the cost model with measured costs, unless the stream turned to it before or measurements
/// contradict. A stream does not oscillate: it returns to an order that it left only once, and only after that order
/// was measured to be cheaper. Exact orders only. Pure. Errors: those of the planner.
Result<std::optional<PlanChoice>> better_order(const transforms::Pipeline& pipeline,
                                               const PlanProfile& profile,
                                               std::span<const std::size_t> present,
                                               const TriedOrders& tried);

/// The order to begin with: the order that was measured last, or a better one; without a profile the cheapest by
/// assumed costs. It has each op once. Errors: those of the planner.
Result<std::vector<std::size_t>> first_order(const transforms::Pipeline& pipeline,
                                             const PlanProfile& profile);

/// Each op once, as the pipeline declares them.
std::vector<std::size_t> declared_order(const transforms::Pipeline& pipeline);

}  // namespace carya::loader
