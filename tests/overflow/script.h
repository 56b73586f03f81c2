#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <utility>

namespace carya::loader {

/// What becomes of the chunks that an executor's workers get, whatever the executor is: its workers ask next() before
/// they compute one. Threads: thread-safe.
class Script {
 public:
  enum class Fate {
    kComputed,
    kFails,  ///< the worker writes something into the rows, then says that it failed
    kLate,   ///< computed, after others that were taken later
    kHeld,   ///< computed, after release()
    kWrong,  ///< the worker writes other bits than the host and says that it is done
    kDies,   ///< the worker ends without an answer; only ScriptedWorker can
  };
  /// The fate of the n-th chunk, from 0 on.
  using Choice = std::function<Fate(std::uint64_t number)>;

  explicit Script(Choice choice = [](std::uint64_t) { return Fate::kComputed; })
      : choice_(std::move(choice)) {}

  /// What is to become of the next chunk. A worker waits in here as long as its chunk is late or held.
  Fate next() {
    std::unique_lock lock(mutex_);
    const Fate fate = choice_(given_++);
    if (fate == Fate::kLate) changed_.wait_for(lock, kLate, [&] { return released_; });
    if (fate == Fate::kHeld) {
      ++held_;
      changed_.notify_all();
      changed_.wait(lock, [&] { return released_; });
      --held_;
    }
    return fate == Fate::kLate || fate == Fate::kHeld ? Fate::kComputed : fate;
  }
  /// Hold nothing from now on.
  void release() {
    const std::lock_guard lock(mutex_);
    released_ = true;
    changed_.notify_all();
  }
  std::uint64_t given() const {
    const std::lock_guard lock(mutex_);
    return given_;
  }
  std::uint64_t held() const {
    const std::lock_guard lock(mutex_);
    return held_;
  }

 private:
  static constexpr std::chrono::milliseconds kLate{20};

  const Choice choice_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t given_ = 0, held_ = 0;
  bool released_ = false;
};

}  // namespace carya::loader
