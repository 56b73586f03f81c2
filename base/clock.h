#pragma once

#include <ctime>

#include <cstdint>

namespace carya {

inline constexpr std::int64_t kNsPerMs = 1'000'000;

/// Nanoseconds since boot (CLOCK_MONOTONIC). Threads: thread-safe.
inline std::int64_t monotonic_ns() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1'000'000'000LL + now.tv_nsec;
}

/// Unix time in seconds. Threads: thread-safe.
inline std::int64_t unix_s() {
  return static_cast<std::int64_t>(time(nullptr));
}

/// CPU time of the calling thread so far, in ns. It costs a system call (~200 ns), so callers sample.
inline std::int64_t thread_cpu_ns() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return now.tv_sec * 1'000'000'000LL + now.tv_nsec;
}

}  // namespace carya
