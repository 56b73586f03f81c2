#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>

namespace carya {

// A lost wake-up does no harm that a result shows where a timeout repairs it: it costs tens of milliseconds
// to seconds each time. Tests see it by the time that many hand-offs take, as a multiple of what a hand-off
// takes on this machine just now: no time of theirs is absolute.

/// What it takes here until one thread that sleeps is woken by another and has answered it: the median,
/// measured once per process, beside whatever else the machine does.
inline std::chrono::nanoseconds handoff() {
  static const std::chrono::nanoseconds measured = [] {
    std::mutex mutex;
    std::condition_variable changed;
    int turn = 0;  // even: the caller's
    std::array<std::int64_t, 101> took;
    std::thread other([&] {
      std::unique_lock lock(mutex);
      for (std::size_t i = 0; i < took.size(); ++i) {
        changed.wait(lock, [&] { return turn % 2 == 1; });
        ++turn;
        changed.notify_one();
      }
    });
    std::unique_lock lock(mutex);
    for (std::int64_t& one : took) {
      const auto start = std::chrono::steady_clock::now();
      ++turn;
      changed.notify_one();
      changed.wait(lock, [&] { return turn % 2 == 0; });
      one = (std::chrono::steady_clock::now() - start).count();
    }
    lock.unlock();
    other.join();
    std::ranges::nth_element(took, took.begin() + took.size() / 2);
    return std::chrono::nanoseconds(took[took.size() / 2]);
  }();
  return measured;
}

/// How long `handoffs` of a test's own may take in all: 500 times what they would with nothing else to do,
/// some 10 ms each, so that a busy machine does not matter; what repairs a lost wake-up (50 ms at the least)
/// is many times that.
inline std::chrono::milliseconds patience(int handoffs) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(500 * handoffs * handoff()) +
         std::chrono::milliseconds(1);
}

/// Ends when the patience for so many hand-offs is over.
class Patience {
 public:
  explicit Patience(int handoffs) : end_(std::chrono::steady_clock::now() + patience(handoffs)) {}
  bool over() const { return std::chrono::steady_clock::now() > end_; }
  int left_ms() const {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(end_ - std::chrono::steady_clock::now());
    return std::max(1, static_cast<int>(left.count()));
  }

 private:
  std::chrono::steady_clock::time_point end_;
};

}  // namespace carya
