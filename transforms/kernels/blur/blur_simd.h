#pragma once

#include <cstdint>

namespace carya::transforms {

// Inner loops of the blur for the SIMD target in use; the same bits on every target. Values between the two passes are
// levels minus 128, in units of 1/128.

/// out[i] = sum over k of weights[k] * (above[k][i] + below[k][i]), for k in [0, radius] and i in [0, count). Reads and
/// writes exactly these.
void blur_columns(const std::uint8_t* const* above, const std::uint8_t* const* below,
                  const std::int16_t* weights, int radius, std::int64_t count, std::int16_t* out);

/// out[i] = sum over k of weights[k] * (in[i - k * channels] + in[i + k * channels]), as a level. Reads and writes
/// exactly these.
void blur_row(const std::int16_t* in, const std::int16_t* weights, int radius, std::int64_t channels,
              std::int64_t count, std::uint8_t* out);

}  // namespace carya::transforms
