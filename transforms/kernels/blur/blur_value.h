#pragma once

#include <algorithm>
#include <cstdint>

namespace carya::transforms {

// The blur, one value at a time. This is its definition, and the code for values that do not fill a vector.

/// a * b in 1/32768, with halves rounded up, as the rounding multiply of vectors (pmulhrsw) does.
inline int rounded_product(int a, int b) {
  return (a * b + (1 << 14)) >> 15;
}

/// Value `i` of the sums along the columns.
inline std::int16_t column_sum(const std::uint8_t* const* above, const std::uint8_t* const* below,
                               const std::int16_t* weights, int radius, std::int64_t i) {
  int sum = 0;
  for (int k = 0; k <= radius; ++k)
    sum += rounded_product((above[k][i] + below[k][i] - 256) * 128, weights[k]);
  return static_cast<std::int16_t>(sum);
}

/// The level of the value at `in`: the sum along the row, with its partners `step` apart.
inline std::uint8_t row_level(const std::int16_t* in, const std::int16_t* weights, int radius,
                              std::int64_t step) {
  int sum = 64;
  for (int k = 0; k <= radius; ++k) sum += rounded_product(in[-k * step] + in[k * step], weights[k]);
  return static_cast<std::uint8_t>(std::clamp(sum >> 7, -128, 127) + 128);
}

}  // namespace carya::transforms
