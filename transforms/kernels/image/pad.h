#pragma once

#include <array>
#include <cstdint>

#include "transforms/kernels/image/image_view.h"

namespace carya::transforms {

enum class PaddingMode : std::uint8_t { kConstant, kEdge, kReflect, kSymmetric };

/// Where coordinate `at` of a picture mirrored at its borders, the edge once, is taken from in [0, size).
std::int64_t reflected(std::int64_t at, std::int64_t size);
/// Where coordinate `at` of a picture padded by `mode` is taken from in [0, size), or -1 for the fill.
std::int64_t padded_index(std::int64_t at, std::int64_t size, PaddingMode mode);

/// The pixels of `window` of `in`, where the window may reach past the picture (or lie beside it): what is
/// outside is filled. Crop, pad and crop with padding are all this: pad(left, top, ...) is the window {-top,
/// -left, ...}.
///
/// Shape:   out is (window.height, window.width, in.channels) and does not overlap `in`; in is not empty.
/// Fill:    kConstant: fill[c]. kEdge: the nearest pixel. kReflect: mirrored, the edge once (d c b | a b c d
/// | c b a);
///          kSymmetric: the edge twice. Mirrors repeat when the window reaches further than the picture is
///          large.
void crop_padded(const ImageView& in, const Region& window, PaddingMode mode,
                 const std::array<std::uint8_t, 4>& fill, const MutableImageView& out);

/// The same row by row: rows [0, window.height) to `sink`. `row_buffer` has window.width * in.channels bytes.
void crop_padded_rows(const ImageView& in, const Region& window, PaddingMode mode,
                      const std::array<std::uint8_t, 4>& fill, std::uint8_t* row_buffer, const RowSink& sink);

}  // namespace carya::transforms
