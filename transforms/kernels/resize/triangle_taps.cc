#include "transforms/kernels/resize/triangle_taps.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "transforms/kernels/resize/resize_taps.h"
#include "transforms/simd/config.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "transforms/kernels/resize/triangle_taps.cc"
#include <hwy/foreach_target.h>

#include <hwy/highway.h>

namespace carya::transforms {
int triangle_taps_plain(const TriangleFilter& filter, std::int64_t taps, const TriangleTaps& out);
}  // namespace carya::transforms

#include "transforms/kernels/resize/triangle_taps-inl.h"

#if HWY_ONCE

namespace carya::transforms {
namespace {

HWY_EXPORT(TriangleTapsOf);

}  // namespace

// What the vector code does, one output at a time. Every window has as many taps, those outside of the
// triangle or the picture weigh nothing.
int triangle_taps_plain(const TriangleFilter& filter, std::int64_t taps, const TriangleTaps& out) {
  constexpr double kOne = 1 << ResizeTaps::kNarrowBits;
  double weights[ResizeTaps::kNarrowTaps];
  int most = 0;
  for (std::int64_t i = 0; i < filter.out_size; ++i) {
    const double center = (static_cast<double>(i) + 0.5) * filter.scale;
    const auto first = std::max<std::int64_t>(0, static_cast<std::int64_t>(center - filter.support + 0.5));
    const double from = static_cast<double>(first) - center + 0.5;
    double sum = 0.0;
    for (std::int64_t k = 0; k < taps; ++k) {
      const double w = std::max(0.0, 1.0 - std::fabs((from + static_cast<double>(k)) * filter.inverse));
      weights[k] = first + k < filter.in_size ? w : 0.0;
      sum += weights[k];
    }
    const double unit = kOne / sum;
    std::int16_t* to = out.weights + i * ResizeTaps::kNarrowTaps;
    std::memset(to, 0, ResizeTaps::kNarrowTaps * sizeof(*to));
    std::int32_t rest = 1 << ResizeTaps::kNarrowBits;
    std::int64_t heaviest = 0;
    std::int64_t end = 1;
    for (std::int64_t k = 0; k < taps; ++k) {
      const auto q = static_cast<std::int32_t>(weights[k] * unit + 0.5);
      to[k] = static_cast<std::int16_t>(q);
      rest -= q;
      heaviest = weights[k] > weights[heaviest] ? k : heaviest;
      end = q != 0 ? k + 1 : end;
    }
    to[heaviest] = static_cast<std::int16_t>(to[heaviest] + rest);
    out.start[i] = static_cast<std::int32_t>(first);
    out.count[i] = static_cast<std::int32_t>(std::max(end, heaviest + 1));
    most = std::max(most, static_cast<int>(out.count[i]));
  }
  return most;
}

int triangle_taps(const TriangleFilter& filter, const TriangleTaps& out) {
  const auto taps =
      std::min<std::int64_t>(static_cast<std::int64_t>(2.0 * filter.support) + 1, ResizeTaps::kNarrowTaps);
  return HWY_DYNAMIC_DISPATCH(TriangleTapsOf)(filter, taps, out);
}

}  // namespace carya::transforms

#endif  // HWY_ONCE
