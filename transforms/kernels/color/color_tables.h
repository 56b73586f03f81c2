#pragma once

#include "transforms/kernels/image/image_view.h"

namespace carya::transforms {

// New values by old ones, a table for each channel, made from what the picture holds.
//
// Shape:   `out` has the height, width and channels of `in` and does not overlap it; neither is empty.
// Exact:   integers alone, so the same bits on every machine.
// Threads: pure. Errors: none.

/// Each channel stretched to 0..255: floor(255 (x - low) / (high - low)), with the channel's lowest and
/// highest value; a channel of one value stays. Source: Pillow ImageOps.autocontrast and torchvision v2
/// autocontrast, which round twice on the way and so are one level off at times.
void autocontrast(const ImageView& in, const MutableImageView& out);

/// Each channel's histogram made flat: with step = floor(values below the highest one / 255), x becomes
/// min(255, floor((values below x + floor(step / 2)) / step)); a channel with step 0 stays.
/// Source: Pillow ImageOps.equalize, torchvision v2 equalize.
void equalize(const ImageView& in, const MutableImageView& out);

}  // namespace carya::transforms
