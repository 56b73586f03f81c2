#include "transforms/kernels/store/store_simd.h"

#include <cstring>

#include "transforms/simd/config.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "transforms/kernels/store/store_simd.cc"
#include <hwy/foreach_target.h>

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include "transforms/kernels/store/store_simd-inl.h"

#if HWY_ONCE

namespace carya::transforms {
namespace {

HWY_EXPORT(StorePlanes);
HWY_EXPORT(StoreValues);
HWY_EXPORT(SplitPlanes);
HWY_EXPORT(ReversePixels);
HWY_EXPORT(StreamLines);

}  // namespace

void store_values(const std::uint8_t* in, std::int64_t count, int channels, const Affine& affine, bool stream,
                  float* out) {
  HWY_DYNAMIC_DISPATCH(StoreValues)(in, count, channels, affine, stream, out);
}

void store_planes(const std::uint8_t* in, std::int64_t width, const Affine& affine, bool flip, bool stream,
                  float* const out[3]) {
  HWY_DYNAMIC_DISPATCH(StorePlanes)(in, width, affine, flip, stream, out);
}

void split_planes(const std::uint8_t* in, std::int64_t width, bool flip, std::uint8_t* const out[3]) {
  HWY_DYNAMIC_DISPATCH(SplitPlanes)(in, width, flip, out);
}

void reverse_pixels(const std::uint8_t* in, std::int64_t width, int channels, std::uint8_t* out) {
  HWY_DYNAMIC_DISPATCH(ReversePixels)(in, width, channels, out);
}

void stream_lines(const std::uint8_t* in, std::int64_t lines, std::uint8_t* out) {
  HWY_DYNAMIC_DISPATCH(StreamLines)(in, lines, out);
}

void stream_fence() {
  hwy::FlushStream();
}

}  // namespace carya::transforms

#endif  // HWY_ONCE
