#pragma once

#include <cstddef>

#include "transforms/audio/signal/spectrum_plan.h"

namespace carya::transforms {

/// Compute `frames` frames, the first at `samples`, each `hop` samples behind the one before.
///
/// Shape:  value w of frame f is out[f * frame_step + w * value_step]; one of the steps is 1.
/// Memory: plan.samples_read(frames) samples are readable; `work` has plan.work_values() floats, 64-byte aligned.
/// Bits:   the same on every SIMD target: a lane is a frame, and no sum crosses lanes.
void spectrum_frames(const SpectrumPlan& plan, const float* samples, std::size_t frames, float* work,
                     float* out, std::size_t frame_step, std::size_t value_step);

}  // namespace carya::transforms
