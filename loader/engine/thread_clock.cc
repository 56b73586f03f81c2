#include "loader/engine/thread_clock.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <utility>

#include "base/unique_fd.h"

namespace carya::loader {
namespace {

constexpr std::int64_t kLateNs = kNsPerMs;        // idle for longer, a chunk is worth asking why
constexpr std::int64_t kLookNs = 100 * kNsPerMs;  // what other chunks waited for is forgotten after this

}  // namespace

std::int64_t core_waits_ns() {
  const UniqueFd file(open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC));
  char text[64];
  const ssize_t size = file ? read(file.get(), text, sizeof text - 1) : -1;
  if (size <= 0) return 0;
  text[size] = '\0';
  std::int64_t ran_ns = 0, waits_ns = 0;
  return std::sscanf(text, "%" SCNd64 " %" SCNd64, &ran_ns, &waits_ns) == 2 ? waits_ns : 0;
}

/// How much of the time in which it did not run the thread could have run. Chunks that hardly stood still are not asked
/// for it, and their waits count as those of the next one that is: of at most kLookNs.
std::int64_t ThreadClock::waits_in(std::int64_t idle_ns, std::int64_t now_ns) {
  if (idle_ns < kLateNs && now_ns - looked_ns_ < kLookNs) return 0;
  looked_ns_ = now_ns;
  const std::int64_t waits_ns = core_waits_ns();
  return std::clamp<std::int64_t>(waits_ns - std::exchange(waits_ns_, waits_ns), 0,
                                  std::max<std::int64_t>(idle_ns, 0));
}

ThreadTime ThreadClock::end(std::int64_t helped_ns) {
  const std::int64_t now_cpu_ns = thread_cpu_ns(), cpu_ns = now_cpu_ns - std::exchange(cpu_ns_, now_cpu_ns);
  const std::int64_t end_ns = monotonic_ns(), ns = end_ns - begin_ns_;
  return {.ns = ns + helped_ns,
          .cpu_ns = cpu_ns + helped_ns,
          .blocked_ns = std::max<std::int64_t>(0, ns - cpu_ns - waits_in(ns - cpu_ns, end_ns)),
          .begin_ns = begin_ns_,
          .end_ns = end_ns};
}

}  // namespace carya::loader
