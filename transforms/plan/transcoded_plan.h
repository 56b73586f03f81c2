#pragma once

#include <memory>

#include "base/error.h"
#include "transforms/pipeline/pipeline.h"
#include "transforms/plan/plan.h"

namespace carya::transforms {

/// Whether the part of the plan begins with the op transcode.
bool begins_with_transcode(const Pipeline& pipeline, const PlanOptions& options);
/// The plan of such a part: encoded fields are made anew, then everything else runs on them as on files. Errors: those of
/// Plan::compile().
Result<std::shared_ptr<const Plan>> compile_behind_transcode(std::shared_ptr<const Pipeline> pipeline,
                                                             PlanOptions options);

}  // namespace carya::transforms
