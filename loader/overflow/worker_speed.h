#pragma once

#include <algorithm>
#include <cstdint>

namespace carya::loader {

/// How fast a worker is, by the chunks that it computed of late, beside the fastest that its crew has.
class WorkerSpeed {
 public:
  /// One of its `cores` had a chunk of so many rows for `thread_ns`.
  void note(double thread_ns, std::uint64_t rows, double cores) {
    ns_ += std::max(thread_ns, 1.0) / std::max(cores, 1.0) - ns_ / kChunks;
    rows_ += static_cast<double>(rows) - rows_ / kChunks;
    ++chunks_;
  }
  /// Rows are others from now on. What it was beside the fastest it is taken to be again.
  void forget() { ns_ = rows_ = 0, chunks_ = 0; }

  /// Of the fastest one's rows in the same time, 0 .. 1; what is within noise of it counts as 1, and so does
  /// what is not known.
  double beside() const { return beside_ > 0 ? beside_ : 1; }
  bool known() const { return chunks_ >= kKnown; }

  /// Compares those of a range of WorkerSpeed& that computed something.
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
  static constexpr double kChunks = 32;  ///< the last ones count
  static constexpr std::uint64_t kKnown = 8;
  static constexpr double kSame = 0.75;

  double ns_ = 0, rows_ = 0;  ///< of the whole worker
  std::uint64_t chunks_ = 0;
  double beside_ = 0;  ///< 0: not known
};

}  // namespace carya::loader
