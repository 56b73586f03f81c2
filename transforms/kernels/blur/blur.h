#pragma once

#include "transforms/kernels/blur/blur_taps.h"
#include "transforms/kernels/image/image_view.h"
#include "transforms/simd/patience.h"

namespace carya::transforms {

/// Replace each value by the weighted mean of the values around it, along the columns and then along the rows. Beyond
/// the border the picture is mirrored, with the edge once (as PaddingMode::kReflect).
///
/// Shape:   `out` has the height, width and channels of `in` and does not overlap it; none is empty.
/// Exact:   integers: sums of pairs in 1/128 level by 15-bit weights, each product rounded to 1/128 level (the rounding
///          multiply of vectors, pmulhrsw); the same bits on every machine and SIMD target, and mirrored for a mirrored
///          picture. A picture of one value stays as it is.
/// Threads: pure. Errors: none. Cost: no heap allocation; 12 KiB of stack. `patience` may end it early.
void blur(const ImageView& in, const BlurTaps& along_rows, const BlurTaps& along_columns,
          const MutableImageView& out, Patience* patience = nullptr);

}  // namespace carya::transforms
