#include "shm/futex.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <ctime>

namespace carya::shm {

static_assert(sizeof(std::atomic<std::uint32_t>) == 4 && std::atomic<std::uint32_t>::is_always_lock_free);

// No FUTEX_PRIVATE_FLAG: the key must be (file, offset), since waiter and waker use different mappings.
FutexWait futex_wait(const std::atomic<std::uint32_t>& word, std::uint32_t expected, int timeout_ms) {
  const timespec timeout{timeout_ms / 1000, (timeout_ms % 1000) * 1'000'000L};
  if (syscall(SYS_futex, &word, FUTEX_WAIT, expected, &timeout, nullptr, 0) == 0) return FutexWait::kWoken;
  if (errno == ETIMEDOUT) return FutexWait::kTimeout;
  return errno == EINTR ? FutexWait::kInterrupted : FutexWait::kWoken;
}

void futex_wake(std::span<const std::atomic<std::uint32_t>* const> words) {
  if (words.empty()) return;
  // The kernel takes the number of threads to move in the place of the timeout.
  const auto all = reinterpret_cast<timespec*>(static_cast<std::uintptr_t>(INT_MAX));
  for (const auto* word : words.subspan(1)) syscall(SYS_futex, word, FUTEX_REQUEUE, 0, all, words[0], 0);
  syscall(SYS_futex, words[0], FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace carya::shm
