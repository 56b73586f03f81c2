#pragma once

#include <string>
#include <vector>

#include "base/error.h"

namespace carya {

/// One SIMD target that the kernels are compiled for.
struct SimdTarget {
  std::string name;                ///< Highway's: "AVX3_DL", "AVX3", "AVX2", "SSE4", "EMU128" or "SCALAR"
  std::vector<std::string> needs;  ///< instruction sets, by the names of the compilers' -m options
  std::vector<std::string>
      missing;  ///< those of `needs` that this machine lacks; empty: the target runs here
};

/// Every target that is compiled in, best first. The last one needs nothing beyond the compiler's baseline.
std::vector<SimdTarget> compiled_simd_targets();

/// Names of the targets that run on this machine, best first.
std::vector<std::string> simd_targets();

/// Name of the target that the kernels use now.
std::string simd_target();

/// Makes all kernels of this process use one target, for tests and benches; "" goes back to the choice of the
/// start: CARYA_SIMD, or else the best target.
///
/// Errors:  kInvalidArgument: the target is not compiled in, or this machine lacks an instruction set for it.
/// Threads: not thread-safe; no kernel may run meanwhile.
Status force_simd_target(const std::string& name);

/// Whether the environment variable CARYA_SIMD, if it is set, names a target that runs here. The kernels
/// ignore a value that does not, so every program calls this at its start and ends with the error.
///
/// Errors: kInvalidArgument, with the targets that run here.
Status check_simd_environment();

}  // namespace carya
