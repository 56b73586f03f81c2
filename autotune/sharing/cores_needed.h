#pragma once

#include <cstdint>

#include "autotune/controller/controller.h"

namespace carya::autotune {

/// What a stream has done since it began, as its maker sees it.
struct StreamTotals {
  double taken_samples = 0;  ///< samples whose memory the trainer has given back
  double waited_s = 0;       ///< seconds that the trainer has slept for batches
  double made_samples = 0;   ///< samples that the threads here made
  double thread_s = 0;       ///< time of the threads for those samples, with their waits for a core
};

/// How many of its cores a stream needs for its trainer's rate: the controller's answer for a stream without workers.
/// It is all cores until the trainer's rate and the cost of a sample are known, and while the trainer waits for more
/// than they make. Pure: the same totals at the same times give the same answers. Threads: owner only.
class CoresNeeded {
 public:
  /// The stream may use `cores` cores, at least 1.
  explicit CoresNeeded(std::uint32_t cores);

  /// Record the totals. Call it when the trainer has given a batch back, so that an interval has whole steps. It looks
  /// only if kIntervalS have passed since the last look. Returns whether cores() changed. `now_s` never goes back.
  bool observe(const StreamTotals& totals, double now_s);
  /// The number of whole cores that the stream needs, from 1 up to those that it may use.
  std::uint32_t cores() const { return cores_; }

  /// The inputs of the answer; the model's until something was measured.
  PlacementInputs facts() const { return controller_.facts(); }

  /// The stream may use `cores` cores from now on, at least 1. It uses all of them until the next look.
  void set_cores(std::uint32_t cores);
  /// Drop the interval under way, since the stream was paused or goes on at another place.
  void interrupt() { begun_ = false; }

  /// The least length of an interval. Two intervals tell a trainer that is three times as fast from noise.
  static constexpr double kIntervalS = 0.5;

 private:
  Controller controller_;
  std::uint32_t cores_;
  bool begun_ = false;  // an interval is open
  double begun_s_ = 0;
  StreamTotals before_;  // at its beginning
};

}  // namespace carya::autotune
