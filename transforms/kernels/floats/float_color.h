#pragma once

#include "transforms/kernels/blur/blur_taps.h"
#include "transforms/kernels/floats/float_image.h"

namespace carya::transforms {

// Changes of the values of float32 pictures in 0..1. They do what the functions of the same names do for uint8
// pictures, without rounding to levels. `out` has the height and width of `in` and does not overlap it. It has the
// channels of `in` too, except for grayscale().
//
// Exact:   float32 and double operations in a fixed order: the same bits from every compiler and machine.
// Threads: pure. Errors: none. Cost: plain loops, several times slower than for uint8.

/// 1 - x.
void invert(const FloatView& in, const MutableFloatView& out);

/// Like grayscale() for uint8: 0.299 R + 0.587 G + 0.114 B.
void grayscale(const FloatView& in, const MutableFloatView& out);

/// The mean of the luma of all pixels; if `patience` ends it early, any.
float mean_luma(const FloatView& in, Patience* patience = nullptr);

/// level + factor (x - level), limited to 0..1.
void blend_level(const FloatView& in, float level, float factor, const MutableFloatView& out);

/// luma + factor (x - luma), limited to 0..1. `in` has 3 channels.
void saturate(const FloatView& in, float factor, const MutableFloatView& out);

/// Like shift_hue() for uint8, with `shift` in its unit.
void shift_hue(const FloatView& in, std::int32_t shift, const MutableFloatView& out);

/// Like blur() for uint8: along the columns and then along the rows, mirrored beyond the border. `patience` may end it
/// early.
void blur(const FloatView& in, const BlurTaps& along_rows, const BlurTaps& along_columns,
          const MutableFloatView& out, Patience* patience = nullptr);

}  // namespace carya::transforms
