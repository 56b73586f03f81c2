#pragma once

#include <string>
#include <vector>

#include "transforms/pipeline/pipeline.h"

namespace carya::transforms {

/// The names of the source's fields that no op of the pipeline takes: in each sample they are as the source has them.
/// In the order of fields().
std::vector<std::string> unchanged_fields(const Pipeline& pipeline);

}  // namespace carya::transforms
