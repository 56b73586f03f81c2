#pragma once

#include "transforms/kernels/blur/blur_taps.h"
#include "transforms/kernels/image/image_view.h"

namespace carya::transforms {

/// Weighted means of the values around, along the columns and then along the rows; beyond the border the
/// picture is mirrored, the edge once (as PaddingMode::kReflect).
///
/// Shape:   `out` has the height, width and channels of `in` and does not overlap it; none is empty.
/// Exact:   integers: sums of pairs in 1/128 level by 15-bit weights, each product rounded to 1/128 level
///          (the rounding multiply of vectors, pmulhrsw); the same bits on every machine and SIMD target, and
///          mirrored for a mirrored picture. A picture of one value stays as it is.
/// Threads: pure. Errors: none. Cost: no heap allocation; 12 KiB of stack.
void blur(const ImageView& in, const BlurTaps& along_rows, const BlurTaps& along_columns,
          const MutableImageView& out);

}  // namespace carya::transforms
