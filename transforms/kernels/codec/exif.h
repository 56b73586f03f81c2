#pragma once

#include <cstddef>
#include <span>

#include "transforms/kernels/image/image_view.h"

namespace carya::transforms {

/// The orientation (1..8) in a TIFF block ("II*\0..." or "MM\0*..."), which Exif contains: tag 0x0112 of the first
/// directory. Returns 1 if there is none or if an offset is out of bounds. Reads only within `tiff`, and at most 65,535
/// entries.
int tiff_orientation(std::span<const std::byte> tiff);

/// Whether an APP1 payload is Exif: it starts with "Exif\0\0".
bool is_exif(std::span<const std::byte> app1);

/// The orientation of an APP1 payload ("Exif\0\0" and the TIFF block); 1 if it is not Exif.
int exif_orientation(std::span<const std::byte> app1);

/// Whether this orientation swaps height and width (5..8).
constexpr bool orientation_swaps(int orientation) {
  return orientation >= 5 && orientation <= 8;
}

/// Write the pixels of `in` as viewers show them (Pillow's ImageOps.exif_transpose). `out` has the turned size and does
/// not overlap `in`.
void apply_orientation(const ImageView& in, int orientation, const MutableImageView& out);

/// The region of the stored picture that shows as `region` of the turned one. Height and width are those of the stored
/// one.
Region orientation_source(const Region& region, int orientation, std::int64_t stored_height,
                          std::int64_t stored_width);

}  // namespace carya::transforms
