#pragma once

#include <cstdint>

#include "base/clock.h"
#include "loader/stream/parallelism.h"

namespace carya::loader {

/// Nanoseconds that the calling thread has waited for a core so far while it could have run: for others that had the
/// core, or for the next period of a quota. 0 where the kernel does not tell. Opens and reads a file (some 5 us).
std::int64_t core_waits_ns();

/// The times that a thread spends on chunks, one after the other. Asking for CPU time is a system call, so a chunk's CPU
/// time begins where the last one's ended, and includes its scheduling. Threads: the one whose times these are.
class ThreadClock {
 public:
  void begin() { begin_ns_ = monotonic_ns(); }
  /// The chunk has ended, on which others spent `helped_ns` besides.
  ThreadTime end(std::int64_t helped_ns);

 private:
  std::int64_t waits_in(std::int64_t idle_ns, std::int64_t now_ns);

  std::int64_t begin_ns_ = 0, cpu_ns_ = thread_cpu_ns();
  std::int64_t waits_ns_ = core_waits_ns(), looked_ns_ = monotonic_ns();
};

}  // namespace carya::loader
