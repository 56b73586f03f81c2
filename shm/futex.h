#pragma once

#include <atomic>
#include <cstdint>

namespace carya::shm {

enum class FutexWait : std::uint8_t { kWoken, kTimeout, kInterrupted };

/// Sleep while `word` is `expected`, at most timeout_ms. The word may lie in a read-only mapping. The kernel finds it
/// by file and offset, so that another process or another mapping may wake the sleeper. kWoken includes a word that had
/// already changed, and wakes without cause: the caller looks again.
FutexWait futex_wait(const std::atomic<std::uint32_t>& word, std::uint32_t expected, int timeout_ms);

/// Wake all threads that sleep on the word.
void futex_wake(const std::atomic<std::uint32_t>& word);

}  // namespace carya::shm
