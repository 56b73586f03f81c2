#pragma once

#include <cstdint>

namespace carya {

/// Work in parts that may run at the same time, such as bands of a large picture.
class BandWork {
 public:
  virtual ~BandWork() = default;
  /// Called for parts 0, 1, ... one after the other, each before its run() begins; earlier parts may be running
  /// meanwhile. Returns false to give the work up.
  virtual bool prepare(int part) = 0;
  /// Called once for each part, in any order. `lane` is below BandRunner::lanes() and selects the scratch memory: no
  /// two parts have the same lane at the same time. Returns false to give the work up.
  virtual bool run(int part, int lane) = 0;
  /// Whether preparing costs so much that the last parts are better done in one call of run_rest(). Without it
  /// run_rest() is not called.
  virtual bool has_rest() const { return false; }
  /// Run all parts from `first` on. None of them was prepared; all parts before them were, and may be running. Called
  /// at most once. Returns false to give the work up.
  virtual bool run_rest(int /*first*/, int /*lane*/) { return false; }
};

/// Runs BandWork on the calling thread, and on idle cores beside it. The number of parts that run at the same time
/// changes no bit.
///
/// Threads: owner only. All that begins later, and the caller, see what prepare() or run() of a part wrote.
class BandRunner {
 public:
  static constexpr int kLanesMax = 16;

  virtual ~BandRunner() = default;
  /// Whether bands pay for a picture of `pixels`, and the work may have more than one core.
  virtual bool wants(std::int64_t pixels) const = 0;
  /// The most parts that run at the same time: 1 to kLanesMax.
  virtual int lanes() const = 0;
  /// Run the parts. Returns when no part runs any more: true if all have run and none gave up. Throws std::bad_alloc if
  /// a part threw it; a part throws nothing else.
  virtual bool run(BandWork& work, int parts) = 0;
  /// CPU time of other threads in all calls of run() so far, in ns. The calling thread's clock does not count it.
  virtual std::int64_t helped_ns() const = 0;
};

}  // namespace carya
