#pragma once

#include <cstdint>

namespace carya::transforms {

// Inner loops of the colors for the SIMD target in use. Each reads exactly its input and writes exactly its output,
// which do not overlap, and gives the same bits on every target.

/// The luma of RGB pixels.
void gray_row(const std::uint8_t* in, std::int64_t width, std::uint8_t* out);

/// blend(luma, x, factor) for RGB pixels.
void saturate_row(const std::uint8_t* in, std::int64_t width, float factor, std::uint8_t* out);

/// Turn the hue of RGB pixels by `shift`, in the unit of kHueTurn.
void hue_row(const std::uint8_t* in, std::int64_t width, std::int32_t shift, std::uint8_t* out);

/// blend(level, x, factor) for `count` values.
void blend_row(const std::uint8_t* in, std::int64_t count, int level, float factor, std::uint8_t* out);

/// blend(smoothed, x, factor) for the values [begin, end) of a row and its neighbours. `channels` values before `begin`
/// and after `end` are read too.
void sharpen_row(const std::uint8_t* above, const std::uint8_t* row, const std::uint8_t* below,
                 std::int64_t begin, std::int64_t end, int channels, float factor, std::uint8_t* out);

}  // namespace carya::transforms
