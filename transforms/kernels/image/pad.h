#pragma once

#include <array>
#include <cstdint>

#include "transforms/kernels/image/image_view.h"

namespace carya::transforms {

enum class PaddingMode : std::uint8_t { kConstant, kEdge, kReflect, kSymmetric };

/// The coordinate in [0, size) that coordinate `at` shows when a picture is mirrored at its borders, with the edge
/// once.
std::int64_t reflected(std::int64_t at, std::int64_t size);
/// The coordinate in [0, size) that coordinate `at` of a picture padded by `mode` shows; -1: the fill.
std::int64_t padded_index(std::int64_t at, std::int64_t size, PaddingMode mode);

/// The pixels of `window` of `in`. The window may reach past the picture or lie beside it; pixels outside are filled.
/// Crop, pad, and crop with padding are all this: pad(left, top, ...) is the window {-top, -left, ...}.
///
/// Shape:   out is (window.height, window.width, in.channels) and does not overlap `in`; in is not empty.
/// Fill:    kConstant: fill[c]. kEdge: the nearest pixel. kReflect: mirrored, the edge once (d c b | a b c d | c b a).
///          kSymmetric: mirrored, the edge twice. Mirrors repeat if the window reaches further than the picture's size.
void crop_padded(const ImageView& in, const Region& window, PaddingMode mode,
                 const std::array<std::uint8_t, 4>& fill, const MutableImageView& out);

}  // namespace carya::transforms
