#pragma once

#include <cstddef>
#include <span>

#include "transforms/plan/plan.h"

namespace carya::loader {

/// Whether bytes from a file can be a sample that `behind` takes (transforms/plan/packing.h): every tensor, and every
/// picture by the size that stands before it, lies within them, and nothing is left. Plan::unpack() asks nothing.
bool is_packed_sample(const transforms::Plan& behind, std::span<const std::byte> bytes);

}  // namespace carya::loader
