#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

#include "transforms/simd/band_runner.h"

namespace carya {

/// Runs bands of any picture for tests: on threads of its own, or on the caller's thread in the worst order (all parts
/// prepared first, then the last one run first).
class BandThreads final : public BandRunner {
 public:
  /// `lanes` 0: the worst order. Pictures of fewer pixels than `from` are not asked for.
  explicit BandThreads(int lanes, std::int64_t from = 0) : threads_(lanes), from_(from) {}

  bool wants(std::int64_t pixels) const override { return pixels >= from_; }
  int lanes() const override { return threads_ == 0 ? 3 : threads_; }
  std::int64_t helped_ns() const override { return 0; }
  bool run(BandWork& work, int parts) override {
    const int rest = work.has_rest() && ++works_ % 3 != 0 ? works_ % (parts + 1) : parts;
    return threads_ == 0 ? run_backwards(work, parts, rest) : run_together(work, parts, rest);
  }
  /// Calls of run() so far for work that has a rest.
  int works() const { return works_; }

 private:
  // Parts from `rest` on are done in one go.
  static bool run_backwards(BandWork& work, int parts, int rest) {
    bool good = true;
    for (int i = 0; good && i < rest; ++i) good = work.prepare(i);
    if (good && rest < parts) good = work.run_rest(rest, 1);
    for (int i = rest - 1; good && i >= 0; --i) good = work.run(i, i % 3);
    return good;
  }

  bool run_together(BandWork& work, int parts, int rest) const {
    std::mutex mutex;  // one prepares, in order
    int next = 0;
    std::atomic<bool> good{true};
    const auto lane = [&](int number) {
      while (good) {
        int part = 0;
        {
          const std::lock_guard lock(mutex);
          if (next == parts || !good) return;
          part = next;
          next = part == rest ? parts : part + 1;
          if (part < rest && !work.prepare(part)) good = false;
        }
        if (good && !(part == rest ? work.run_rest(part, number) : work.run(part, number))) good = false;
      }
    };
    std::vector<std::thread> others;
    for (int i = 1; i < threads_; ++i) others.emplace_back(lane, i);
    lane(0);
    for (std::thread& other : others) other.join();
    return good;
  }

  const int threads_;
  const std::int64_t from_;
  int works_ = 0;
};

}  // namespace carya
