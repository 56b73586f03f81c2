#include "transforms/kernels/resize/resize_simd.h"

#include <algorithm>

#include "transforms/simd/config.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "transforms/kernels/resize/resize_simd.cc"
#include <hwy/foreach_target.h>

#include <hwy/highway.h>

#include "transforms/kernels/resize/resize_simd-inl.h"

#if HWY_ONCE

namespace carya::transforms {
namespace {

HWY_EXPORT(GroupShapeOf);
HWY_EXPORT(CombineRows);
HWY_EXPORT(CombineRowsWide);
HWY_EXPORT(FilterRow);
HWY_EXPORT(FlipSign);
HWY_EXPORT(LookUpColumns);

std::uint8_t wide_result(std::int64_t sum, int bias, std::uint8_t out_xor) {
  const std::int64_t half = std::int64_t{1} << (ResizeTaps::kWideBits - 1);
  const std::int64_t value = ((sum + half) >> ResizeTaps::kWideBits) + bias;
  return static_cast<std::uint8_t>(std::clamp<std::int64_t>(value, 0, 255)) ^
         static_cast<std::uint8_t>(0x80 ^ out_xor);
}

}  // namespace

GroupShape resize_group_shape() {
  return HWY_DYNAMIC_DISPATCH(GroupShapeOf)();
}

void combine_rows(const std::uint8_t* const* rows, const std::int16_t* weights, int taps, std::int64_t bytes,
                  std::uint8_t in_xor, std::uint8_t out_xor, std::uint8_t* out) {
  HWY_DYNAMIC_DISPATCH(CombineRows)(rows, weights, taps, bytes, in_xor, out_xor, out);
}

void combine_rows_wide(const std::uint8_t* const* rows, const std::int32_t* weights, int taps,
                       std::int64_t bytes, std::uint8_t out_xor, std::uint8_t* out) {
  HWY_DYNAMIC_DISPATCH(CombineRowsWide)(rows, weights, taps, bytes, out_xor, out);
}

void filter_row(const std::uint8_t* in, const ResizeTaps& taps, const ResizeGroups& groups,
                std::uint8_t out_xor, std::uint8_t* out) {
  HWY_DYNAMIC_DISPATCH(FilterRow)(in, taps, groups, out_xor, out);
}

void look_up_columns(const std::uint8_t* in, const std::int32_t* firsts, const std::uint8_t* lookups,
                     int blocks, std::int64_t width, std::uint8_t* out) {
  HWY_DYNAMIC_DISPATCH(LookUpColumns)(in, firsts, lookups, blocks, width, out);
}

void filter_row_wide(const std::uint8_t* in, const ResizeTaps& taps, int channels, std::uint8_t out_xor,
                     std::uint8_t* out) {
  for (std::int64_t i = 0; i < taps.out_size(); ++i) {
    const std::int32_t* weights = taps.wide_weights(i);
    const std::uint8_t* from = in + taps.start(i) * channels;
    for (int c = 0; c < channels; ++c) {
      std::int64_t sum = 0;
      for (int k = 0; k < taps.count(i); ++k) {
        sum += std::int64_t{weights[k]} * static_cast<std::int8_t>(from[k * channels + c]);
      }
      out[i * channels + c] = wide_result(sum, 128, out_xor);
    }
  }
}

void flip_sign(const std::uint8_t* in, std::int64_t bytes, std::uint8_t* out) {
  HWY_DYNAMIC_DISPATCH(FlipSign)(in, bytes, out);
}

}  // namespace carya::transforms

#endif  // HWY_ONCE
