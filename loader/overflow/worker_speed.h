#pragma once

#include <algorithm>
#include <cstdint>

namespace carya::loader {

/// How fast a worker computes rows, compared with the fastest worker of the same stream. The last kChunks chunks
/// count, older ones less and less. Threads: owner only.
class WorkerSpeed {
 public:
  /// Record a chunk of `rows` rows that one of the worker's `cores` computed in `thread_ns`.
  void note(double thread_ns, std::uint64_t rows, double cores) {
    ns_ += std::max(thread_ns, 1.0) / std::max(cores, 1.0) - ns_ / kChunks;
    rows_ += static_cast<double>(rows) - rows_ / kChunks;
    ++chunks_;
  }
  /// Drop the samples, because the plan changed, but keep the relative speed as the estimate.
  void forget() { ns_ = rows_ = 0, chunks_ = 0; }

  /// The worker's rows per second divided by the fastest worker's, 0 to 1. A worker within noise of the fastest
  /// counts as 1, and so does one that is not known.
  double beside() const { return beside_ > 0 ? beside_ : 1; }
  bool known() const { return chunks_ >= kKnown; }

  /// Compare the workers of a range of WorkerSpeed& with each other. Those without a sample are left out.
  template <typename Speeds>
  static void compare(Speeds&& speeds) {
    double fastest = 0, before = 0;
    for (const WorkerSpeed& one : speeds) {
      if (!(one.ns_ > 0)) continue;
      fastest = std::max(fastest, one.rows_ / one.ns_);
      before = std::max(before, one.beside());
    }
    for (WorkerSpeed& one : speeds) {
      if (!(one.ns_ > 0)) continue;
      const double share = one.rows_ / one.ns_ / fastest;
      one.beside_ = before * (share >= kSame ? 1 : share);
    }
  }

 private:
  static constexpr double kChunks = 32;  ///< length of the moving mean, in chunks
  static constexpr std::uint64_t kKnown = 8;
  static constexpr double kSame = 0.75;

  double ns_ = 0, rows_ = 0;  ///< moving sums of the whole worker, all cores together
  std::uint64_t chunks_ = 0;
  double beside_ = 0;  ///< beside(); 0: not known
};

}  // namespace carya::loader
