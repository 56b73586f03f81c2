#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "autotune/order/op_model.h"
#include "base/error.h"
#include "loader/plan/planner_input.h"

namespace carya::loader {

/// What a plan file (PLAN.md) asks for: an order of the ops, and the sense under which it is legal.
struct FrozenPlan {
  autotune::Sense sense = autotune::Sense::kExact;
  std::vector<std::size_t> order;  ///< as PlanOptions::order, always written out
};

/// The part of a plan file that binds it to its pipeline, as a JSON object: `carya_plan`, `pipeline`, `codecs`,
/// `reorder`, `ops`, `order`. Errors: those of check_frozen_order().
Result<std::string> freeze_plan(const transforms::Pipeline& pipeline, const FrozenPlan& plan);

/// Read the plan of a file's text, which is hostile until checked. Errors: kInvalidArgument; the message names the
/// difference. The text may be no plan, have another version, other ops, parameters, op versions or codecs than the
/// pipeline, or an order that is not legal under its sense.
Result<FrozenPlan> read_plan(const transforms::Pipeline& pipeline, std::string_view text);

/// Checks that an order has each op of the pipeline once and that `sense` allows it. The order comes from a plan file,
/// a state or another process. Errors: kInvalidArgument, with the ops.
Status check_frozen_order(const transforms::Pipeline& pipeline, const std::vector<std::size_t>& order,
                          autotune::Sense sense);

}  // namespace carya::loader
