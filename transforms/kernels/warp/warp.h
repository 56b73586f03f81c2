#pragma once

#include <array>
#include <cstdint>

#include "transforms/kernels/image/image_view.h"
#include "transforms/kernels/resize/resize.h"

namespace carya::transforms {

/// A picture turned, moved, stretched and sheared in its place.
struct WarpSpec {
  /// Where each pixel comes from, as WarpGrid takes it.
  std::array<double, 6> matrix{1, 0, 0, 0, 1, 0};
  Interpolation interpolation = Interpolation::kNearest;  ///< kNearest or kBilinear
  std::array<std::uint8_t, 4> fill{};  ///< per channel, where a pixel comes from outside the picture
};

/// A picture of height x width, of which `pixels` from (top, left) on are there.
struct WarpSource {
  ImageView pixels;
  std::int64_t top = 0;
  std::int64_t left = 0;
  std::int64_t height = 0;
  std::int64_t width = 0;
};

/// What of a picture of height x width warp() must be given for this window; never empty.
Region warp_reads(const WarpSpec& spec, const Region& window, std::int64_t height, std::int64_t width);

/// The pixels of `in` at the places of `spec`, of which `window`, inside the picture, is made.
///
/// Shape:   `out` has the height and width of `window` and the channels (1, 3 or 4) of `in`, and does not
///          overlap it. All channels are treated alike, an alpha channel too.
/// Filter:  kNearest takes the pixel that the place is in: the ones that Pillow takes. kBilinear weighs the
///          four pixels around, the outermost ones repeated up to the border, and cuts the fraction off, as
///          Pillow does: the rows in 1/128 level by 15-bit weights, rounded, then the columns by 14-bit
///          weights.
/// Exact:   integers (WarpGrid), or doubles that are added up one by one: the same bits on every machine and
///          SIMD target.
/// Threads: pure. Errors: none.
/// Source:  Pillow's Geometry.c (ImagingScaleAffine, affine_fixed, bilinear_filter8); bilinear is within 1
///          level of it, but for places within 2^-32 pixel of the border, which may be inside here and
///          outside there.
void warp(const WarpSource& in, const WarpSpec& spec, const Region& window, const MutableImageView& out);

}  // namespace carya::transforms
