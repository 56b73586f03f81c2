#pragma once

#include "transforms/kernels/image/image_view.h"
#include "transforms/simd/patience.h"

namespace carya::transforms {

// Functions that replace values by a table for each channel. The table follows from the picture's values.
//
// Shape:   `out` has the height, width and channels of `in` and does not overlap it; neither is empty.
// Exact:   integers alone, so the same bits on every machine.
// Threads: pure. Errors: none; `patience` may end it early.

/// Each channel stretched to 0..255: floor(255 (x - low) / (high - low)), with the channel's lowest and
/// highest value; a channel of one value stays. Source: Pillow ImageOps.autocontrast and torchvision v2
/// autocontrast, which round twice on the way and so are one level off at times.
void autocontrast(const ImageView& in, const MutableImageView& out, Patience* patience = nullptr);

/// Each channel's histogram made flat: with step = floor(values below the highest one / 255), x becomes
/// min(255, floor((values below x + floor(step / 2)) / step)); a channel with step 0 stays.
/// Source: Pillow ImageOps.equalize, torchvision v2 equalize.
void equalize(const ImageView& in, const MutableImageView& out, Patience* patience = nullptr);

}  // namespace carya::transforms
