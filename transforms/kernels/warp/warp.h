#pragma once

#include <array>
#include <cstdint>

#include "transforms/kernels/image/image_view.h"
#include "transforms/kernels/resize/resize.h"
#include "transforms/simd/patience.h"

namespace carya::transforms {

/// How a picture is rotated, moved, scaled and sheared; its size stays.
struct WarpSpec {
  /// The origin of each pixel, as in WarpGrid.
  std::array<double, 6> matrix{1, 0, 0, 0, 1, 0};
  Interpolation interpolation = Interpolation::kNearest;  ///< kNearest or kBilinear
  std::array<std::uint8_t, 4> fill{};  ///< per channel, for pixels whose origin is outside the picture
};

/// A picture of height x width. `pixels` has its part from (top, left) on.
struct WarpSource {
  ImageView pixels;
  std::int64_t top = 0;
  std::int64_t left = 0;
  std::int64_t height = 0;
  std::int64_t width = 0;
};

/// The region of a picture of height x width that warp() needs for this window; never empty.
Region warp_reads(const WarpSpec& spec, const Region& window, std::int64_t height, std::int64_t width);

/// Write `window` of the warped picture; the window lies inside of it.
///
/// Shape:   `out` has the height and width of `window` and the channels (1, 3 or 4) of `in`, and does not overlap it.
///          All channels are treated alike, an alpha channel too.
/// Filter:  kNearest takes the pixel that the place is in, as Pillow does. kBilinear weighs the four pixels around,
///          with the outermost ones repeated up to the border, and cuts the fraction off, as Pillow does: the rows in
///          1/128 level by 15-bit weights, rounded, then the columns by 14-bit weights.
/// Exact:   integers (WarpGrid), or doubles that are added up one by one: the same bits on every machine and SIMD
///          target.
/// Threads: pure. Errors: none. `patience` may end it early.
/// Source:  Pillow's Geometry.c (ImagingScaleAffine, affine_fixed, bilinear_filter8). Bilinear is within 1 level of it,
///          except for places within 2^-32 pixel of the border, which may be inside here and outside there.
void warp(const WarpSource& in, const WarpSpec& spec, const Region& window, const MutableImageView& out,
          Patience* patience = nullptr);

}  // namespace carya::transforms
