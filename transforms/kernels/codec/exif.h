#pragma once

#include <cstddef>
#include <span>

#include "transforms/kernels/image/image_view.h"

namespace carya::transforms {

/// Orientation 1..8 of a TIFF block ("II*\0..." or "MM\0*..."), as Exif wraps it: tag 0x0112 of the first
/// directory. 1 when there is none or anything is out of bounds. Reads within `tiff`; at most 65,535 entries.
int tiff_orientation(std::span<const std::byte> tiff);

/// Whether an APP1 payload is Exif: it starts with "Exif\0\0".
bool is_exif(std::span<const std::byte> app1);

/// Orientation of an APP1 payload ("Exif\0\0" and the TIFF block); 1 when it is not Exif.
int exif_orientation(std::span<const std::byte> app1);

/// Whether this orientation swaps height and width (5..8).
constexpr bool orientation_swaps(int orientation) {
  return orientation >= 5 && orientation <= 8;
}

/// The pixels of `in` as they are to be looked at (Pillow's ImageOps.exif_transpose). `out` has the turned
/// size and does not overlap.
void apply_orientation(const ImageView& in, int orientation, const MutableImageView& out);

/// Where `region` of the turned picture lies in the stored one (of stored height and width).
Region orientation_source(const Region& region, int orientation, std::int64_t stored_height,
                          std::int64_t stored_width);

}  // namespace carya::transforms
