#include "transforms/audio/signal/spectrum_simd.h"

#include "transforms/simd/config.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "transforms/audio/signal/spectrum_simd.cc"
#include <hwy/foreach_target.h>

#include <hwy/highway.h>

#include "transforms/audio/signal/spectrum_simd-inl.h"

#if HWY_ONCE

namespace carya::transforms {
namespace {

HWY_EXPORT(SpectrumFrames);

}  // namespace

void spectrum_frames(const SpectrumPlan& plan, const float* samples, std::size_t frames, float* work,
                     float* out, std::size_t frame_step, std::size_t value_step) {
  HWY_DYNAMIC_DISPATCH(SpectrumFrames)(plan, samples, frames, work, out, frame_step, value_step);
}

}  // namespace carya::transforms

#endif  // HWY_ONCE
