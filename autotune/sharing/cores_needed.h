#pragma once

#include <cstdint>

#include "autotune/controller/controller.h"

namespace carya::autotune {

/// What a stream has done since it began, as its maker sees it. Totals.
struct StreamTotals {
  double taken_samples = 0;  ///< whose memory its trainer has given back
  double waited_s = 0;       ///< that the trainer has slept for batches
  double made_samples = 0;   ///< by the threads here
  double thread_s = 0;       ///< time of the threads for those, waiting for a core included
};

/// How many of the cores that a stream may use its trainer's rate needs: the controller's answer where
/// nothing can go elsewhere. All of them until the trainer and a sample's cost are known, and where the
/// trainer waits for more than they make. Pure: the same totals at the same times give the same answers.
/// Threads: owner only.
class CoresNeeded {
 public:
  /// `cores`: that the stream may use, at least 1.
  explicit CoresNeeded(std::uint32_t cores);

  /// To be called when the trainer has given a batch back, so that an interval holds whole steps; looks only
  /// when kIntervalS or more have passed since the last look. True: cores() is another number now. `now_s`
  /// never goes back.
  bool observe(const StreamTotals& totals, double now_s);
  /// Whole ones, 1 up to those that the stream may use.
  std::uint32_t cores() const { return cores_; }

  /// What its answer rests on: the model until something was measured.
  PlacementFacts facts() const { return controller_.facts(); }

  /// The stream may use so many from now on, at least 1; it does until the next look.
  void set_cores(std::uint32_t cores);
  /// The stream goes on elsewhere, or did not go on for a while: what lies between is no measurement.
  void interrupt() { begun_ = false; }

  /// Seconds of an interval at least: two of them tell a trainer that is three times as fast from noise.
  static constexpr double kIntervalS = 0.5;

 private:
  Controller controller_;
  std::uint32_t cores_;
  bool begun_ = false;  // an interval is open
  double begun_s_ = 0;
  StreamTotals before_;  // at its beginning
};

}  // namespace carya::autotune
