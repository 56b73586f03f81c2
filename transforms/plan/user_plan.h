#pragma once

#include <memory>

#include "base/error.h"
#include "transforms/pipeline/pipeline.h"
#include "transforms/plan/plan.h"

namespace carya::transforms {

/// Whether a plan with these options runs an operation of a user's own.
bool has_user_ops(const Pipeline& pipeline, const PlanOptions& options);

/// Compile a plan with such operations: the ops between them become parts, as if each part ran on another machine, and
/// the operations run between the parts on whole fields. Errors: those of Plan::compile().
Result<std::shared_ptr<const Plan>> compile_around_user_ops(std::shared_ptr<const Pipeline> pipeline,
                                                            const PlanOptions& options);

}  // namespace carya::transforms
