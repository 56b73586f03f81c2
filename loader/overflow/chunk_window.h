#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

namespace carya::loader {

/// How many chunks a worker wants at a time, so that its cores never lack one: by Little's law its cores
/// times what a chunk needs from here to there and back when nothing is in its way, over what a core needs
/// for it; and one more per core, which waits there.
class ChunkWindow {
 public:
  /// A chunk was gone for `away_ns`, `compute_ns` of which some core of the worker had it.
  void note(std::int64_t away_ns, std::int64_t compute_ns) {
    const double away = std::max<double>(static_cast<double>(away_ns), 1);
    const double compute = std::clamp(static_cast<double>(compute_ns), 1.0, away);
    compute_ns_ = compute_ns_ == 0 ? compute : compute_ns_ + (compute - compute_ns_) / kMean;
    // The quickest of late; a path that has become longer is believed little by little.
    away_ns_ = away_ns_ == 0 ? away : std::min(away, away_ns_ + (away - away_ns_) / kForget);
  }

  /// At least two per core, at most kChunksMax per core.
  std::size_t chunks(double cores) const {
    const double busy = compute_ns_ == 0 ? 1 : std::clamp(away_ns_ / compute_ns_, 1.0, kChunksMax - 1);
    return static_cast<std::size_t>(std::ceil(std::max(cores, 1.0) * (busy + 1)));
  }

 private:
  static constexpr double kMean = 8, kForget = 64, kChunksMax = 64;

  double compute_ns_ = 0;  ///< a mean of the last ones; 0: nothing is known
  double away_ns_ = 0;
};

}  // namespace carya::loader
