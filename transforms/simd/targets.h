#pragma once

#include <string>
#include <vector>

#include "base/error.h"

namespace carya {

/// One SIMD target that the kernels are compiled for.
struct SimdTarget {
  std::string name;  ///< Highway's name: "AVX3_DL", "AVX3", "AVX2", "SSE4", "EMU128" or "SCALAR"
  std::vector<std::string> needs;  ///< instruction sets, named as in the compilers' -m options
  /// Those of `needs` that this machine lacks; empty: the target runs here.
  std::vector<std::string> missing;
};

/// All targets that are compiled in, best first. The last one needs nothing beyond the compiler's baseline.
std::vector<SimdTarget> compiled_simd_targets();

/// The names of the targets that run on this machine, best first.
std::vector<std::string> simd_targets();

/// The name of the target that the kernels use now.
std::string simd_target();

/// Make all kernels of this process use one target, for tests and benches. "" goes back to the initial choice:
/// CARYA_SIMD, or else the best target.
///
/// Errors:  kInvalidArgument (the target is not compiled in, or this machine lacks an instruction set for it).
/// Threads: not thread-safe; no kernel may run meanwhile.
Status force_simd_target(const std::string& name);

/// Check that the environment variable CARYA_SIMD, if it is set, names a target that runs here. The kernels ignore a
/// wrong value, so every program calls this at its start and ends with the error.
///
/// Errors: kInvalidArgument, with the targets that run here.
Status check_simd_environment();

}  // namespace carya
