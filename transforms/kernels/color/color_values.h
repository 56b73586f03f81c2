#pragma once

#include <array>

#include "transforms/kernels/image/image_view.h"
#include "transforms/simd/patience.h"

namespace carya::transforms {

// Functions that change each value of a picture by itself.
//
// Shape:   `out` has the height, width and channels of `in` and does not overlap it.
// Exact:   integers, and blend(): the same bits on every machine.
// Threads: pure. Errors: none.
// Cost:    as fast as memory.

/// 255 - x. Source: Pillow ImageOps.invert, torchvision v2 invert.
void invert_values(const ImageView& in, const MutableImageView& out);

/// 255 - x where x >= threshold, else x. Source: Pillow ImageOps.solarize, torchvision v2 solarize.
void solarize_values(const ImageView& in, int threshold, const MutableImageView& out);

/// The bits of x that are set in `mask`. Source: Pillow ImageOps.posterize, torchvision v2 posterize.
void posterize_values(const ImageView& in, int mask, const MutableImageView& out);

/// The picture with `region`, which must be inside, filled with `fill` per channel. `patience` may end it early.
/// Source: torchvision v2 erase.
void erase(const ImageView& in, const Region& region, const std::array<std::uint8_t, 4>& fill,
           const MutableImageView& out, Patience* patience = nullptr);

/// blend(level, x, factor) for every value: brightness with level 0, contrast with the picture's mean luma.
/// Source: Pillow ImageEnhance.Brightness, Contrast.
void blend_level(const ImageView& in, int level, float factor, const MutableImageView& out);

}  // namespace carya::transforms
