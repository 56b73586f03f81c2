#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "autotune/order/op_model.h"
#include "base/error.h"
#include "loader/plan/planner_input.h"

namespace carya::loader {

/// What a plan file (PLAN.md) asks for: these ops in this order, under this sense.
struct FrozenPlan {
  autotune::Sense sense = autotune::Sense::kExact;
  std::vector<std::size_t> order;  ///< as PlanOptions::order, always written out
};

/// What binds a plan file to its pipeline, as a JSON object: `carya_plan`, `pipeline`, `codecs`, `reorder`,
/// `ops`, `order`. Errors: those of check_frozen_order().
Result<std::string> freeze_plan(const transforms::Pipeline& pipeline, const FrozenPlan& plan);

/// The plan of a file's text, which is hostile until checked. Errors: kInvalidArgument that names the
/// difference: no plan, of another version, of other ops, parameters, op versions or codecs than the
/// pipeline's, an order that is not legal under its sense.
Result<FrozenPlan> read_plan(const transforms::Pipeline& pipeline, std::string_view text);

/// Whether an order, of a plan file, a state or another process, has each op of the pipeline once and `sense`
/// allows it. Errors: kInvalidArgument with the ops.
Status check_frozen_order(const transforms::Pipeline& pipeline, const std::vector<std::size_t>& order,
                          autotune::Sense sense);

}  // namespace carya::loader
