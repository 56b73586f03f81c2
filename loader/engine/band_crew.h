#pragma once

#include <cstdint>

#include "transforms/simd/band_runner.h"

namespace carya::loader {

/// Cores that nobody needs at the moment. Threads: thread-safe.
class SpareCores {
 public:
  virtual ~SpareCores() = default;
  /// One core for a thread that helps; false: all are in use.
  virtual bool take() = 0;
  /// Whether a core that was taken is still spare.
  virtual bool keep() = 0;
  /// A core that was taken is given back.
  virtual void give() = 0;
};

/// Runs the bands of large pictures on the thread that has the picture and, as long as there are spare cores, on threads
/// of oneTBB. Helpers come at any moment while bands are left, and leave between two bands when their core is needed.
///
/// Threads: owner only, one for each thread that computes.
class BandCrew final : public BandRunner {
 public:
  /// Smaller pictures are done before a thread has woken up.
  static constexpr std::int64_t kPixelsMin = 4'000'000;

  explicit BandCrew(SpareCores& cores) : cores_(cores) {}

  /// So many threads at the same time, at most; 1: no helpers.
  void set_threads(std::uint32_t threads);

  bool wants(std::int64_t pixels) const override;
  int lanes() const override { return lanes_; }
  bool run(BandWork& work, int parts) override;
  std::int64_t helped_ns() const override { return helped_ns_; }

 private:
  class Session;

  SpareCores& cores_;
  int lanes_ = 1;
  std::int64_t helped_ns_ = 0;
};

}  // namespace carya::loader
