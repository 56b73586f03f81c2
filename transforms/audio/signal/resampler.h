#pragma once

#include <cstdint>
#include <vector>

#include "base/error.h"

namespace carya::transforms {

/// The frames that `frames` at `from_rate` become at `to_rate`: frames * to / from, rounded, halves up.
std::int64_t resampled_frames(std::int64_t frames, std::int64_t from_rate, std::int64_t to_rate);

/// Changes the sampling rate of one channel by soxr at its quality "HQ", whose bits it has (its portable float engine,
/// which every machine of one architecture uses). Keeps soxr's filters of the last few pairs of rates.
/// Threads: owner only.
class Resampler {
 public:
  Resampler() = default;
  ~Resampler();
  Resampler(Resampler&& other) noexcept : kept_(std::move(other.kept_)) { other.kept_.clear(); }
  Resampler& operator=(Resampler&&) = delete;
  Resampler(const Resampler&) = delete;

  /// Shape:  out has resampled_frames(frames, from_rate, to_rate) values.
  /// Errors: kUnsupported (libsoxr is not on this machine), kExhausted.
  Status run(const float* in, std::int64_t frames, std::int64_t from_rate, std::int64_t to_rate, float* out);

 private:
  struct Kept {
    std::int64_t from_rate;
    std::int64_t to_rate;
    void* soxr;
  };
  std::vector<Kept> kept_;
};

}  // namespace carya::transforms
