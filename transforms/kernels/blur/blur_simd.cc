#include "transforms/kernels/blur/blur_simd.h"

#include "transforms/kernels/blur/blur_value.h"
#include "transforms/simd/config.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "transforms/kernels/blur/blur_simd.cc"
#include <hwy/foreach_target.h>

#include <hwy/highway.h>

#include "transforms/kernels/blur/blur_simd-inl.h"

#if HWY_ONCE

namespace carya::transforms {
namespace {

HWY_EXPORT(BlurColumns);
HWY_EXPORT(BlurRow);

}  // namespace

void blur_columns(const std::uint8_t* const* above, const std::uint8_t* const* below,
                  const std::int16_t* weights, int radius, std::int64_t count, std::int16_t* out) {
  HWY_DYNAMIC_DISPATCH(BlurColumns)(above, below, weights, radius, count, out);
}

void blur_row(const std::int16_t* in, const std::int16_t* weights, int radius, std::int64_t channels,
              std::int64_t count, std::uint8_t* out) {
  HWY_DYNAMIC_DISPATCH(BlurRow)(in, weights, radius, channels, count, out);
}

}  // namespace carya::transforms

#endif  // HWY_ONCE
