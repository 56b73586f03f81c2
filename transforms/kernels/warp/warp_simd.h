#pragma once

#include <cstdint>

#include "transforms/kernels/image/image_view.h"
#include "transforms/kernels/warp/warp_grid.h"

namespace carya::transforms {

// Inner loops of the warp for the SIMD target in use: columns [0, count) from `place` on, in steps of `grid`. All
// places lie so far inside the picture that no test is needed. Each loop writes exactly `count` pixels and gives the
// same bits on every target.

/// Take the pixel that each place is in. No place is in the picture's last column, except with 1 or 4 channels.
void nearest_row(const ImageView& in, const WarpGrid& grid, WarpGrid::Place place, std::int64_t count,
                 std::uint8_t* out);

/// blend_pixels() of the four pixels from each place on; places are half a pixel less than those of the grid. No place
/// is in the picture's last row or last column, nor, with 3 channels, in the column before the last.
void bilinear_row(const ImageView& in, const WarpGrid& grid, WarpGrid::Place place, std::int64_t count,
                  std::uint8_t* out);

}  // namespace carya::transforms
