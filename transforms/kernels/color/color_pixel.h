#pragma once

#include <algorithm>
#include <cstdint>

#include "transforms/kernels/codec/color_rows.h"
#include "transforms/kernels/color/blend.h"

namespace carya::transforms {

// The color loops, one pixel or value at a time. This is their definition, and the code for values that do not fill a
// vector.

inline void saturate_pixel(const std::uint8_t* in, float factor, std::uint8_t* out) {
  const int gray = luma(in[0], in[1], in[2]);
  for (int c = 0; c < 3; ++c) out[c] = blend(gray, in[c], factor);
}

/// The place of a pixel on the color circle: 0 is red, 2 range is green, 4 range is blue; it is below 6 range, and 0
/// for a gray.
inline int hue_of(int r, int g, int b, int high, int range) {
  if (r == high) return g >= b ? g - b : g - b + 6 * range;
  if (g == high) return 2 * range + b - r;
  return 4 * range + r - g;
}

inline void turn_pixel(const std::uint8_t* in, std::int32_t shift, std::uint8_t* out) {
  const int high = std::max({in[0], in[1], in[2]});
  const int low = std::min({in[0], in[1], in[2]});
  const int range = high - low;
  // In 1 / 65536 level from here on; a sextant of the circle is `range` levels long.
  const std::int32_t sextant = range << 16;
  std::int32_t hue = (hue_of(in[0], in[1], in[2], high, range) << 16) + shift * range;
  if (hue < 0) hue += 6 * sextant;
  if (hue >= 6 * sextant) hue -= 6 * sextant;
  int index = 0;
  while (index < 5 && hue >= (index + 1) * sextant) ++index;
  const std::int32_t rest = hue - index * sextant;
  const auto middle = static_cast<std::uint32_t>(index % 2 == 0 ? (low << 16) + rest : (high << 16) - rest);
  const std::uint32_t level = (middle + (middle * 257U >> 16)) >> 16;
  // The channels of the largest, the middle and the smallest value in each sextant.
  static constexpr std::uint8_t kPlaces[6][3] = {{0, 1, 2}, {1, 0, 2}, {1, 2, 0},
                                                 {2, 1, 0}, {2, 0, 1}, {0, 2, 1}};
  out[kPlaces[index][0]] = static_cast<std::uint8_t>(high);
  out[kPlaces[index][1]] = static_cast<std::uint8_t>(level);
  out[kPlaces[index][2]] = static_cast<std::uint8_t>(low);
}

/// Value `i` of a row, moved by `factor` away from the mean of the 3 x 3 values around it, where the middle one counts
/// five times.
inline std::uint8_t sharpen_value(const std::uint8_t* above, const std::uint8_t* row,
                                  const std::uint8_t* below, std::int64_t i, std::int64_t channels,
                                  float factor) {
  const std::int64_t left = i - channels;
  const std::int64_t right = i + channels;
  const int around =
      above[left] + above[i] + above[right] + row[left] + row[right] + below[left] + below[i] + below[right];
  const int smooth = (2 * (around + 5 * row[i]) + 13) / 26;  // rounded; 13 is odd, so there are no ties
  return blend(smooth, row[i], factor);
}

}  // namespace carya::transforms
