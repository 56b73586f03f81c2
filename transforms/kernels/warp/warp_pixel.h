#pragma once

#include <cstdint>

#include "transforms/kernels/warp/warp_grid.h"

namespace carya::transforms {

// The bilinear warp, one pixel at a time. This is its definition, and the code for pixels that do not fill a vector or
// lie at the border.

inline constexpr int kRowBits = 15;     ///< bits of the weight of the lower row
inline constexpr int kColumnBits = 14;  ///< bits of the weight of the right column
inline constexpr int kLevelBits = 7;    ///< bits of fraction that rows keep

/// The fraction of a place, with `bits` bits; the rest is cut off.
inline std::int32_t fraction(std::int64_t place, int bits) {
  return static_cast<std::int32_t>((place >> (WarpGrid::kBits - bits)) & ((std::int64_t{1} << bits) - 1));
}

/// Go from `upper` to `lower` by `weight`, in 1/128 level, as the rounding multiply of vectors (pmulhrsw) does.
inline std::int32_t blend_rows(std::int32_t upper, std::int32_t lower, std::int32_t weight) {
  const std::int32_t difference = (lower - upper) * (1 << kLevelBits);
  return upper * (1 << kLevelBits) + ((difference * weight + (1 << (kRowBits - 1))) >> kRowBits);
}

/// Blend one pixel from four: columns `left` and `right` of the rows `upper` and `lower`. `place` has the weights.
inline void blend_pixels(const std::uint8_t* upper, const std::uint8_t* lower, std::int64_t left,
                         std::int64_t right, WarpGrid::Place place, std::int64_t channels,
                         std::uint8_t* out) {
  const std::int32_t down = fraction(place.y, kRowBits);
  const std::int32_t across = fraction(place.x, kColumnBits);
  for (std::int64_t c = 0; c < channels; ++c) {
    const std::int32_t from = blend_rows(upper[left * channels + c], lower[left * channels + c], down);
    const std::int32_t to = blend_rows(upper[right * channels + c], lower[right * channels + c], down);
    const std::int32_t sum = from * ((1 << kColumnBits) - across) + to * across;
    out[c] = static_cast<std::uint8_t>(sum >> (kColumnBits + kLevelBits));
  }
}

}  // namespace carya::transforms
