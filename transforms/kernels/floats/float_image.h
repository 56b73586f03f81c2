#pragma once

#include <array>
#include <cstdint>

#include "transforms/kernels/image/image_view.h"
#include "transforms/kernels/image/pad.h"
#include "transforms/kernels/resize/resize.h"
#include "transforms/simd/patience.h"

namespace carya::transforms {

/// A float32 picture (height, width, channels) without gaps between its rows.
struct FloatView {
  const float* data = nullptr;
  std::int64_t height = 0;
  std::int64_t width = 0;
  std::int64_t channels = 0;  ///< 1, 3 or 4

  const float* row(std::int64_t y) const { return data + y * width * channels; }
};

/// A float32 picture that may be written.
struct MutableFloatView {
  float* data = nullptr;
  std::int64_t height = 0;
  std::int64_t width = 0;
  std::int64_t channels = 0;

  // NOLINTNEXTLINE(google-explicit-constructor): what may be written may be read.
  operator FloatView() const { return {data, height, width, channels}; }
  float* row(std::int64_t y) const { return data + y * width * channels; }
};

using FloatFill = std::array<float, 4>;  ///< per channel

// Movements of float32 pictures. They do what the functions of the same names do for uint8 pictures, without rounding
// or clamping of values. `out` has the channels of `in` and does not overlap it; no picture is empty.
//
// Exact:   float32 and double operations in a fixed order: the same bits from every compiler and machine.
// Threads: pure. Errors: none. Cost: plain loops, several times slower than for uint8, and memory for tables.

/// Like crop_padded() for uint8.
void crop_padded(const FloatView& in, const Region& window, PaddingMode mode, const FloatFill& fill,
                 const MutableFloatView& out);

/// Mirror the picture in its place.
void flip(const MutableFloatView& image, bool horizontal, bool vertical);

/// Like Resizer, to the size of `out`: along the columns and then along the rows, with the weights of resize_window(),
/// each rounded to float32. `patience` may end it early.
void resize(const FloatView& in, Interpolation interpolation, bool antialias, const MutableFloatView& out,
            Patience* patience = nullptr);

/// Like warp() for uint8, of the whole picture; it weighs the pixels around in float32. `patience` may end it early.
void warp(const FloatView& in, const std::array<double, 6>& matrix, Interpolation interpolation,
          const FloatFill& fill, const MutableFloatView& out, Patience* patience = nullptr);

}  // namespace carya::transforms
