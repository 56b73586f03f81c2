#include "shm/fork_watch.h"

#include <pthread.h>

#include <atomic>

#include "base/error.h"
#include "shm/slot_ring.h"

namespace carya::shm {
namespace {

// Relaxed everywhere: it changes only in a child, where only one thread exists.
std::atomic<std::uint32_t> g_epoch{0};

void count_fork() {
  g_epoch.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace

std::uint32_t fork_epoch() {
  return g_epoch.load(std::memory_order_relaxed);
}

void watch_forks() {
  static const bool watching = [] {
    CHECK(pthread_atfork(nullptr, nullptr, count_fork) == 0);
    return true;
  }();
  static_cast<void>(watching);
}

bool in_forked_child() {
  return fork_epoch() != 0;
}

}  // namespace carya::shm
