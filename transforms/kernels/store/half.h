#pragma once

#include <cstddef>
#include <cstdint>

#include "base/dtype.h"

namespace carya::transforms {

/// float32 to `to`, float16 or bfloat16: to the nearest value and of two equally near ones to the even one; beyond its
/// range to infinity. A NaN stays one, a small value is not taken for 0.
///
/// Shape:   `count` values each, of any alignment; they do not overlap.
/// Exact:   numpy's astype(float16) and ml_dtypes' astype(bfloat16), bit by bit: integer arithmetic and, of float16,
///          one float32 sum.
/// Threads: pure. Errors: none.
void to_halves(DType to, const std::byte* in, std::int64_t count, std::byte* out);

/// Whether to_halves() makes it.
constexpr bool is_half(DType dtype) {
  return dtype == DType::kFloat16 || dtype == DType::kBfloat16;
}

}  // namespace carya::transforms
