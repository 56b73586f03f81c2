#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/clock.h"
#include "transforms/plan/scratch.h"
#include "transforms/simd/band_runner.h"

namespace carya::transforms {

inline constexpr std::uint64_t kProfileEvery = 32;
/// The cost of timing a sample, which is a few system calls. A sample is timed only if that costs at most a hundredth
/// of the samples since the last timed one.
inline constexpr std::int64_t kTimingNs = 2'000;

/// Adds the time since the last call to a stage. It does nothing for a sample that is not timed.
class StageTimer {
 public:
  /// `bands` has helpers whose time counts too; null: none.
  StageTimer(StageCounters& counters, bool timed, const BandRunner* bands)
      : counters_(counters), bands_(bands), timed_(timed) {
    if (timed_) begin_ns_ = last_ns_ = now_ns();
  }
  ~StageTimer() {
    if (!timed_) return;
    const std::int64_t took_ns = std::max<std::int64_t>(1, last_ns_ - begin_ns_);
    counters_.untimed =
        std::max<std::uint64_t>(kProfileEvery, static_cast<std::uint64_t>(100 * kTimingNs / took_ns));
  }
  StageTimer(const StageTimer&) = delete;
  StageTimer& operator=(const StageTimer&) = delete;
  bool timed() const { return timed_; }
  void add(std::size_t stage, std::int64_t bytes_in, std::int64_t bytes_out, std::int64_t until_ns = 0) {
    if (!timed_) return;
    if (until_ns == 0) until_ns = now_ns();
    StageCounters::Stage& total = counters_.stages[stage];
    total.cpu_ns += static_cast<std::uint64_t>(until_ns - last_ns_);
    total.bytes_in += static_cast<std::uint64_t>(bytes_in);
    total.bytes_out += static_cast<std::uint64_t>(bytes_out);
    last_ns_ = until_ns;
  }
  void add_picture(const ImageSize& size) {
    ++counters_.pictures;
    counters_.height += static_cast<std::uint64_t>(size.height);
    counters_.width += static_cast<std::uint64_t>(size.width);
  }

 private:
  std::int64_t now_ns() const { return thread_cpu_ns() + (bands_ ? bands_->helped_ns() : 0); }

  StageCounters& counters_;
  const BandRunner* bands_;
  bool timed_;
  std::int64_t begin_ns_ = 0, last_ns_ = 0;
};

}  // namespace carya::transforms
