#pragma once

#include <atomic>
#include <cstdint>
#include <span>

namespace carya::shm {

enum class FutexWait : std::uint8_t { kWoken, kTimeout, kInterrupted };

/// Sleep while `word` is `expected`, at most timeout_ms. The word may lie in a read-only mapping. The kernel finds it
/// by file and offset, so that another process or another mapping may wake the sleeper. kWoken includes a word that had
/// already changed, and wakes without cause: the caller looks again.
FutexWait futex_wait(const std::atomic<std::uint32_t>& word, std::uint32_t expected, int timeout_ms);

/// Wake all threads that sleep on any of the words, all at once: those of the others are moved to the first word, whose
/// threads one call wakes. Woken one by one, each of them would take the caller's core from it in turn, between two calls.
void futex_wake(std::span<const std::atomic<std::uint32_t>* const> words);

}  // namespace carya::shm
