#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace carya::jpeg {

/// Names of the SIMD targets that are compiled in and run here, best first; the last one is what runs
/// everywhere.
std::vector<std::string> simd_targets();

/// The one in use.
std::string simd_target();

/// Use this target for the whole process (tests, benches); "" goes back to the best. False when it is not one
/// of simd_targets(). Threads: not thread-safe. The choice is Highway's own, so it governs all of a program's
/// kernels.
bool force_simd_target(std::string_view name);

}  // namespace carya::jpeg
