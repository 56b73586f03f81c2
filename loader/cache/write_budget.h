#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "base/mutex.h"

namespace carya::loader {

/// Bytes that all tiers of files of a process may write within a day, since a disk wears out by what is written. Counted
/// by hours: what was written counts for at least 24 of them and for less than 25. A process begins with none.
/// Threads: thread-safe.
class WriteBudget {
 public:
  static constexpr std::uint64_t kNoLimit = UINT64_MAX;
  static constexpr std::int64_t kHourNs = 3'600'000'000'000;

  explicit WriteBudget(std::uint64_t bytes_per_day) : limit_(bytes_per_day) {}

  /// Counts `bytes` as written, if the day's limit allows them. `now_ns`: of the monotonic clock.
  bool take(std::uint64_t bytes, std::int64_t now_ns) {
    const MutexLock lock(mutex_);
    go_on_to(now_ns);
    if (bytes > limit_ - std::min(limit_, sum())) return false;
    hours_[static_cast<std::size_t>(hour_) % kHours] += bytes;
    return true;
  }
  /// What was taken and not written.
  void give_back(std::uint64_t bytes) {
    const MutexLock lock(mutex_);
    std::uint64_t& now = hours_[static_cast<std::size_t>(hour_) % kHours];
    now -= std::min(now, bytes);
  }
  /// Bytes within the last day.
  std::uint64_t written(std::int64_t now_ns) {
    const MutexLock lock(mutex_);
    go_on_to(now_ns);
    return sum();
  }
  void set_limit(std::uint64_t bytes_per_day) {
    const MutexLock lock(mutex_);
    limit_ = bytes_per_day;
  }
  std::uint64_t limit() const {
    const MutexLock lock(mutex_);
    return limit_;
  }

 private:
  static constexpr std::int64_t kHours = 25;  // the one that runs, and 24 whole ones

  void go_on_to(std::int64_t now_ns) REQUIRES(mutex_) {
    const std::int64_t hour = now_ns / kHourNs;
    for (std::int64_t next = std::max(hour_ + 1, hour - kHours + 1); next <= hour; ++next)
      hours_[static_cast<std::size_t>(next) % kHours] = 0;
    hour_ = std::max(hour_, hour);
  }
  std::uint64_t sum() const REQUIRES(mutex_) {
    std::uint64_t bytes = 0;
    for (const std::uint64_t hour : hours_) bytes += hour;
    return bytes;
  }

  mutable Mutex mutex_;
  std::uint64_t limit_ GUARDED_BY(mutex_);
  std::int64_t hour_ GUARDED_BY(mutex_) = 0;                      // the last one that was looked at
  std::array<std::uint64_t, kHours> hours_ GUARDED_BY(mutex_){};  // bytes of each, in a circle
};

}  // namespace carya::loader
