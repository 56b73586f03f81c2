#pragma once

#include "transforms/kernels/image/image_view.h"
#include "transforms/simd/patience.h"

namespace carya::transforms {

/// Move values away from the smoothed picture by `factor` (0: smoothed, 1: unchanged, 2: sharper). Smoothed is the mean
/// of the 3 x 3 values around, where the middle one counts five times, rounded. The outermost pixels stay, and so do
/// pictures of less than 3 rows or columns.
///
/// Shape:   `out` has the height, width and channels of `in` and does not overlap it.
/// Exact:   integers, then blend(): the same bits on every machine, and mirrored for a mirrored picture.
/// Threads: pure. Errors: none; `patience` may end it early.
/// Source:  Pillow ImageEnhance.Sharpness; within 1 level of torchvision v2 adjust_sharpness on tensors,
///          which blends in another order.
void sharpen(const ImageView& in, float factor, const MutableImageView& out, Patience* patience = nullptr);

}  // namespace carya::transforms
