#pragma once

#include <atomic>
#include <chrono>
#include <thread>

namespace carya {

/// How long a test waits for many hand-offs between threads, where a lost wake-up would be repaired by a
/// timeout and so would show in time alone.
///
/// Its unit is what this machine needs just now, beside whatever else it does: a thread sleeps a millisecond
/// again and again, and while 20 such sleeps end a hand-off must have ended too, in the mean over all of
/// them. Alone on a machine that is some 20 ms, where a hand-off takes well below one and what repairs a lost
/// one 100 to 250; on a busy one each sleep takes longer, as each hand-off does.
///
/// Threads: the test's.
class Pace {
 public:
  /// What waits for a hand-off looks again after so long, at the earliest.
  static constexpr int kLookMs = 200;

  explicit Pace(int handoffs)
      : thread_([this, sleeps = 20 * handoffs] {
          for (int i = 0; i < sleeps && !over_; ++i)
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
          over_ = true;
        }) {}
  ~Pace() {
    over_ = true;
    thread_.join();
  }
  Pace(const Pace&) = delete;
  Pace& operator=(const Pace&) = delete;

  bool over() const { return over_; }

 private:
  std::atomic<bool> over_{false};
  std::thread thread_;
};

}  // namespace carya
