#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

namespace carya::loader {

/// How many chunks a worker should have at a time, so that none of its cores waits for one.
///
/// By Little's law that is the number of cores times the round trip of a chunk that meets no queue, divided by the
/// compute time of a chunk, and one more chunk per core that waits at the worker. The observed time away is no
/// input: with more chunks at a time each waits longer at the worker, and would ask for still more.
/// Threads: owner only.
class ChunkWindow {
 public:
  /// Record a chunk that a core of the worker computed in `compute_ns`, and whose result arrived in `arriving_ns`
  /// from its first byte to its last.
  void note(std::int64_t compute_ns, std::int64_t arriving_ns) {
    mean(compute_ns_, std::max<double>(static_cast<double>(compute_ns), 1));
    mean(arriving_ns_, std::max<double>(static_cast<double>(arriving_ns), 1));
  }
  /// Record a ping's round trip of `ns` (0: unknown). The minimum is kept.
  void note_round_trip(std::int64_t ns) {
    if (ns > 0 && (round_trip_ns_ == 0 || ns < round_trip_ns_)) round_trip_ns_ = ns;
  }

  /// At least two per core, at most kChunksMax per core.
  std::size_t chunks(double cores) const {
    // A request is assumed to take as long as its result.
    const double away_ns = static_cast<double>(round_trip_ns_) + 2 * arriving_ns_;
    const double away = compute_ns_ == 0 ? 0 : std::min(away_ns / compute_ns_, kChunksMax - 2);
    return static_cast<std::size_t>(std::ceil(std::max(cores, 1.0) * (2 + away)));
  }

  /// The predicted time, in ns, until a chunk that is sent now returns while the worker has `others` chunks. It is
  /// the sum of its parts times the observed ratio of note_away(). 0: not known.
  double next_home_ns(std::size_t others, double cores) const {
    const auto chunks = static_cast<double>(others + 1);
    const double turns = std::max(1.0, chunks / std::max(cores, 1.0));
    return slower_ * (turns * compute_ns_ + static_cast<double>(round_trip_ns_) + chunks * 2 * arriving_ns_);
  }
  /// Record that a chunk returned, or was withdrawn, after `ns` when next_home_ns() had predicted `said_ns`.
  void note_away(double ns, double said_ns) {
    if (said_ns > 0) slower_ += (std::clamp(slower_ * ns / said_ns, 0.25, 64.0) - slower_) / kMean;
  }

 private:
  static constexpr double kMean = 8, kChunksMax = 64;

  static void mean(double& of, double value) { of = of == 0 ? value : of + (value - of) / kMean; }

  double slower_ = 1;       ///< observed time away divided by the predicted one, moving mean
  double compute_ns_ = 0;   ///< moving mean; 0: no chunk has returned yet
  double arriving_ns_ = 0;  ///< moving mean
  std::int64_t round_trip_ns_ = 0;
};

}  // namespace carya::loader
