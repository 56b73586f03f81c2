#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "autotune/sharing/cores_needed.h"
#include "loader/data/dataset.h"
#include "loader/plan/plan_profile.h"
#include "loader/stream/parallelism.h"
#include "loader/stream/read_ahead.h"

namespace carya::loader {

/// What a stream has done so far, at one moment.
struct StreamSnapshot {
  ComputeStats compute;
  ReadStats reads;
  autotune::StreamTotals totals;  ///< totals at taken_at_ns; whole steps lie between two values of that
  std::int64_t taken_at_ns = 0;
  double samples_left = 0;         ///< samples left to this rank; 0: the stream has no end
  std::vector<std::size_t> order;  ///< the order in which the ops run now
  PlanProfile profile;             ///< what was measured of the stream
};

/// A stream, as the placement loop sees and directs it.
/// Threads: thread-safe.
class StreamControl {
 public:
  virtual StreamSnapshot observe() const = 0;
  /// Compute the stream with `threads` threads here (none: as many as before) and `remote_threads` elsewhere from now
  /// on. May throw std::bad_alloc.
  virtual void set_parallelism(std::optional<std::uint32_t> threads, std::uint32_t remote_threads) = 0;
  virtual const Dataset& dataset() const = 0;

 protected:
  ~StreamControl() = default;
};

}  // namespace carya::loader
