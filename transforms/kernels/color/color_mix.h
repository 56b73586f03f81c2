#pragma once

#include "transforms/kernels/image/image_view.h"
#include "transforms/simd/patience.h"

namespace carya::transforms {

// These functions mix the channels of a pixel with each other. Each pixel depends only on itself.
//
// Shape:   `in` has 1 or 3 channels (RGB); `out` has its height and width and does not overlap it.
// Exact:   integers, and blend(): the same bits on every machine.
// Threads: pure. Errors: none.

/// Luma, in each of the 1 or 3 channels of `out`; of a picture with one channel that channel.
/// Source: Pillow convert("L"): (19595 R + 38470 G + 7471 B + 32768) >> 16; within 1 level of torchvision's
/// floor(0.2989 R + 0.587 G + 0.114 B).
void grayscale(const ImageView& in, const MutableImageView& out);

/// The mean of the luma of all pixels, with halves rounded up; any level if `patience` ends it early. Source: Pillow
/// ImageEnhance.Contrast.
int mean_luma(const ImageView& in, Patience* patience = nullptr);

/// blend(luma, x, factor) for each value of a picture with 3 channels. Source: Pillow ImageEnhance.Color.
void saturate(const ImageView& in, float factor, const MutableImageView& out);

/// One turn of the color circle in the unit of shift_hue().
inline constexpr std::int32_t kHueTurn = 6 * 65536;

/// Turn the hue of a picture with 3 channels by `shift` (-kHueTurn / 2 to kHueTurn / 2). A pixel's largest and smallest
/// value stay and change channels. The middle one moves between them in proportion, in units of 1 / 65536 level, and
/// becomes floor(m + 257 m / 65536). Source: torchvision v2 adjust_hue on tensors, without its detour over saturation,
/// within 1 level.
void shift_hue(const ImageView& in, std::int32_t shift, const MutableImageView& out);

}  // namespace carya::transforms
