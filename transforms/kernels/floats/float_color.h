#pragma once

#include "transforms/kernels/blur/blur_taps.h"
#include "transforms/kernels/floats/float_image.h"

namespace carya::transforms {

// Changes of the values of float32 pictures, 0 to 1, as the ones of uint8 pictures say, without rounding to
// levels. `out` has the height and width of `in` and does not overlap it; its channels too, but for
// grayscale().
//
// Exact:   float32 and double operations in a fixed order: the same bits from every compiler and machine.
// Threads: pure. Errors: none. Cost: plain loops, several times those of uint8.

/// 1 - x.
void invert(const FloatView& in, const MutableFloatView& out);

/// As grayscale(): 0.299 R + 0.587 G + 0.114 B.
void grayscale(const FloatView& in, const MutableFloatView& out);

/// The mean of the luma of all pixels.
float mean_luma(const FloatView& in);

/// level + factor (x - level), within 0..1.
void blend_level(const FloatView& in, float level, float factor, const MutableFloatView& out);

/// luma + factor (x - luma), within 0..1, of a picture with 3 channels.
void saturate(const FloatView& in, float factor, const MutableFloatView& out);

/// As shift_hue(), `shift` in its unit.
void shift_hue(const FloatView& in, std::int32_t shift, const MutableFloatView& out);

/// As blur(): along the columns and then along the rows, mirrored beyond the border.
void blur(const FloatView& in, const BlurTaps& along_rows, const BlurTaps& along_columns,
          const MutableFloatView& out);

}  // namespace carya::transforms
