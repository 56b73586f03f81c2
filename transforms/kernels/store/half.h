#pragma once

#include <cstddef>
#include <cstdint>

namespace carya::transforms {

/// float32 to float16, to the nearest value and of two equally near ones to the even one; beyond its range to infinity.
/// A NaN stays one.
///
/// Shape:   `count` values each, of any alignment; they do not overlap.
/// Exact:   numpy's astype(float16), bit by bit: integer arithmetic and one float32 sum.
/// Threads: pure. Errors: none.
void to_halves(const std::byte* in, std::int64_t count, std::byte* out);

}  // namespace carya::transforms
