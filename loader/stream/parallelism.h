#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "autotune/sharing/cores_needed.h"
#include "loader/stream/chunk_compute.h"

namespace carya::loader {

/// The time of a thread for one chunk: in all, with waits for a core, and CPU time.
struct ThreadTime {
  std::int64_t ns = 0, cpu_ns = 0;
  std::int64_t blocked_ns = 0;            ///< of `ns`, what was neither CPU time nor a wait for a core
  std::int64_t begin_ns = 0, end_ns = 0;  ///< monotonic
};

/// What this machine computed: whole samples, and the rest of samples that other machines began. The times are those of
/// threads, with waits for a core.
struct ComputeStats {
  std::uint64_t local_samples = 0, rest_samples = 0;
  std::int64_t local_ns = 0, rest_ns = 0;
  std::int64_t cpu_ns = 0;  ///< CPU time of both
};

/// How many chunks of a stream are computed at the same time, and the memory of the threads that compute them.
///
/// A stream uses as many of its threads as its reader's rate needs, by measured costs. It uses all of them while other
/// machines compute too, and never more than its share beside other streams.
///
/// Threads: owner only.
class Parallelism {
 public:
  /// `has_workers`: whether other machines may compute too.
  Parallelism(std::uint32_t threads, bool has_workers);

  /// Compute at most `threads` chunks at the same time. May throw std::bad_alloc.
  void set_threads(std::uint32_t threads);
  /// Limit the stream to `threads` chunks at the same time, since other streams need cores too.
  void set_share(std::uint32_t threads) { share_ = threads; }
  /// Other machines compute with this many threads.
  void set_remote_threads(std::uint32_t threads) { remote_threads_ = threads; }
  /// The stream continues at another place: the time until its next batch is not measured.
  void interrupt() { cores_.interrupt(); }

  std::uint32_t threads() const { return threads_; }
  /// The threads of this machine and of others.
  std::uint32_t all_threads() const { return threads_ + remote_threads_; }
  /// The number of chunks that may be computed at the same time now.
  std::uint32_t cores() const { return std::min(share_, has_workers_ ? threads_ : cores_.cores()); }
  /// The inputs of the stream's claim on cores, if this machine computes everything.
  autotune::PlacementInputs facts() const { return cores_.facts(); }

  /// Take the memory of a thread for one chunk. There is one for each of threads().
  ComputeScratch take_scratch();
  void give_scratch(ComputeScratch scratch);

  /// A thread computed `rows` rows. `is_rest`: other machines had begun them.
  void note_made(std::uint64_t rows, const ThreadTime& took, bool is_rest);
  /// A step of `samples` samples got a slot that the reader gave back, of a step of as many. The reader has waited
  /// `waited_ns` since the stream began.
  void note_taken(std::uint64_t samples, std::uint64_t waited_ns);

  /// The totals at taken_at_ns(), when the reader last gave back a batch. Between two such moments lie whole steps.
  const autotune::StreamTotals& totals() const { return totals_; }
  std::int64_t taken_at_ns() const { return taken_at_ns_; }
  /// The thread time of a sample on this machine, in ns; 0 if nothing was measured.
  double local_sample_ns() const {
    return stats_.local_samples == 0
               ? 0
               : static_cast<double>(stats_.local_ns) / static_cast<double>(stats_.local_samples);
  }
  const ComputeStats& stats() const { return stats_; }

 private:
  const bool has_workers_;
  std::uint32_t threads_;
  std::uint32_t share_ = UINT32_MAX;  // the most threads that other streams leave to it
  std::uint32_t remote_threads_ = 0;
  autotune::CoresNeeded cores_;
  autotune::StreamTotals totals_;  // waited_s is that of taken_at_ns_
  std::int64_t taken_at_ns_ = 0;
  ComputeStats stats_;

  // Together with those taken they are at least threads_, so that no thread lacks memory.
  std::vector<ComputeScratch> scratches_;
  std::uint32_t scratches_out_ = 0;
};

}  // namespace carya::loader
