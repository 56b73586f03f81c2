#pragma once

#include <string>
#include <vector>

#include "base/error.h"

namespace carya::transforms {

// Declared in transforms/plan.h as well, where the loader sees them; defined in kernels/simd.cc.

/// Names of the SIMD targets compiled in and supported here, best first: "AVX3_DL", "AVX3", "AVX2", "SSE4",
/// "EMU128" (or "SCALAR").
std::vector<std::string> simd_targets();

/// Force one target for the whole process (tests, benches); "" goes back to the best. Not thread-safe.
/// Errors: kInvalidArgument: unknown, or not supported here.
Status force_simd_target(const std::string& name);

}  // namespace carya::transforms
