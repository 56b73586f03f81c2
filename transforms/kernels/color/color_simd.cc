#include "transforms/kernels/color/color_simd.h"

#include "transforms/kernels/color/color_pixel.h"
#include "transforms/simd/config.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "transforms/kernels/color/color_simd.cc"
#include <hwy/foreach_target.h>

#include <hwy/highway.h>

#include "transforms/kernels/color/color_simd-inl.h"

#if HWY_ONCE

namespace carya::transforms {
namespace {

HWY_EXPORT(GrayRow);
HWY_EXPORT(SaturateRow);
HWY_EXPORT(HueRow);
HWY_EXPORT(BlendRow);
HWY_EXPORT(SharpenRow);

}  // namespace

void gray_row(const std::uint8_t* in, std::int64_t width, std::uint8_t* out) {
  HWY_DYNAMIC_DISPATCH(GrayRow)(in, width, out);
}

void saturate_row(const std::uint8_t* in, std::int64_t width, float factor, std::uint8_t* out) {
  HWY_DYNAMIC_DISPATCH(SaturateRow)(in, width, factor, out);
}

void hue_row(const std::uint8_t* in, std::int64_t width, std::int32_t shift, std::uint8_t* out) {
  HWY_DYNAMIC_DISPATCH(HueRow)(in, width, shift, out);
}

void blend_row(const std::uint8_t* in, std::int64_t count, int level, float factor, std::uint8_t* out) {
  HWY_DYNAMIC_DISPATCH(BlendRow)(in, count, level, factor, out);
}

void sharpen_row(const std::uint8_t* above, const std::uint8_t* row, const std::uint8_t* below,
                 std::int64_t begin, std::int64_t end, int channels, float factor, std::uint8_t* out) {
  HWY_DYNAMIC_DISPATCH(SharpenRow)(above, row, below, begin, end, channels, factor, out);
}

}  // namespace carya::transforms

#endif  // HWY_ONCE
