#include "transforms/kernels/warp/warp_simd.h"

#include <cstring>

#include "transforms/kernels/warp/warp_pixel.h"
#include "transforms/simd/config.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "transforms/kernels/warp/warp_simd.cc"
#include <hwy/foreach_target.h>

#include <hwy/highway.h>

#include "transforms/kernels/warp/warp_simd-inl.h"

#if HWY_ONCE

namespace carya::transforms {
namespace {

HWY_EXPORT(NearestRow);
HWY_EXPORT(BilinearRow);

}  // namespace

void nearest_row(const ImageView& in, const WarpGrid& grid, WarpGrid::Place place, std::int64_t count,
                 std::uint8_t* out) {
  HWY_DYNAMIC_DISPATCH(NearestRow)(in, grid, place, count, out);
}

void bilinear_row(const ImageView& in, const WarpGrid& grid, WarpGrid::Place place, std::int64_t count,
                  std::uint8_t* out) {
  HWY_DYNAMIC_DISPATCH(BilinearRow)(in, grid, place, count, out);
}

}  // namespace carya::transforms

#endif  // HWY_ONCE
