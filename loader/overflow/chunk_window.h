#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

namespace carya::loader {

/// How many chunks a worker wants at a time, so that its cores never lack one: by Little's law its cores
/// times what a chunk needs from here to there and back when nothing is in its way, over what a core needs
/// for it; and one more per core, which waits there. How long chunks were gone says nothing: with more of
/// them at a time they wait longer there, and would ask for still more.
class ChunkWindow {
 public:
  /// A core of the worker had a chunk for `compute_ns`; its result took `arriving_ns` from the first byte to
  /// the last.
  void note(std::int64_t compute_ns, std::int64_t arriving_ns) {
    mean(compute_ns_, std::max<double>(static_cast<double>(compute_ns), 1));
    mean(arriving_ns_, std::max<double>(static_cast<double>(arriving_ns), 1));
  }
  /// An empty frame was there and back in so long; 0: not known. The quickest counts.
  void note_round_trip(std::int64_t ns) {
    if (ns > 0 && (round_trip_ns_ == 0 || ns < round_trip_ns_)) round_trip_ns_ = ns;
  }

  /// At least two per core, at most kChunksMax per core.
  std::size_t chunks(double cores) const {
    // What goes there is taken to need as long as what comes back.
    const double away_ns = static_cast<double>(round_trip_ns_) + 2 * arriving_ns_;
    const double away = compute_ns_ == 0 ? 0 : std::min(away_ns / compute_ns_, kChunksMax - 2);
    return static_cast<std::size_t>(std::ceil(std::max(cores, 1.0) * (2 + away)));
  }

  /// Until a chunk that it is given now is home, in ns, beside so many others: by its parts, corrected by how
  /// long chunks were away; 0: not known.
  double next_home_ns(std::size_t others, double cores) const {
    const auto chunks = static_cast<double>(others + 1);
    const double turns = std::max(1.0, chunks / std::max(cores, 1.0));
    return slower_ * (turns * compute_ns_ + static_cast<double>(round_trip_ns_) + chunks * 2 * arriving_ns_);
  }
  /// One was away, or was given up, after `ns`, where next_home_ns() had said so many.
  void note_away(double ns, double said_ns) {
    if (said_ns > 0) slower_ += (std::clamp(slower_ * ns / said_ns, 0.25, 64.0) - slower_) / kMean;
  }

 private:
  static constexpr double kMean = 8, kChunksMax = 64;

  static void mean(double& of, double value) { of = of == 0 ? value : of + (value - of) / kMean; }

  double slower_ = 1;      ///< than the sum of the parts
  double compute_ns_ = 0;  ///< means of the last ones; 0: nothing is known
  double arriving_ns_ = 0;
  std::int64_t round_trip_ns_ = 0;
};

}  // namespace carya::loader
