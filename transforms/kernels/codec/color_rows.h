#pragma once

#include <cstdint>

#include "transforms/kernels/codec/image_codec.h"

namespace carya::transforms {

/// Convert one row of `width` pixels from a codec's channels (1 gray, 3 RGB, 4 inverted CMYK) to `mode`. `in` and `out`
/// do not overlap. Source: Pillow's Convert.c: L = (19595 R + 38470 G + 7471 B + 32768) >> 16; CMYK by the rounded
/// product of two bytes over 255.
void convert_row(const std::uint8_t* in, int in_channels, ColorMode mode, std::int64_t width,
                 std::uint8_t* out);

/// The luma of one pixel.
inline std::uint8_t luma(unsigned r, unsigned g, unsigned b) {
  return static_cast<std::uint8_t>((19595 * r + 38470 * g + 7471 * b + 32768) >> 16);
}

/// Write the luma of `width` RGB pixels that are `step` bytes apart.
void luma_row(const std::uint8_t* in, int step, std::int64_t width, std::uint8_t* out);

}  // namespace carya::transforms
