#pragma once

#include <cstddef>
#include <cstdint>

#include "base/error.h"

namespace carya::autotune {

/// What a stream's controller knew in the end, for the next run of the same plan on the same machine: a
/// start, not a truth. 0: not known. A plain value.
struct EarlierRun {
  double demand = 0;                ///< samples/s
  double local_cpu_s = 0;           ///< thread-seconds of a sample that stayed on the host
  double link_in_bytes_per_s = 0;   ///< to the host
  double link_out_bytes_per_s = 0;  ///< from the host
  double source_bytes_per_s = 0;    ///< of the storage
  std::size_t ops_remote = 0;       ///< that workers ran: the cut of its answer, else of its measurements
  double host_cpu_s = 0;            ///< of a remote sample there: receiving, unpacking, the rest of the ops
  double worker_cpu_s = 0;          ///< of a remote sample there
  double worker_cores = 0;          ///< of one worker
  std::uint32_t workers = 0;        ///< its answer; 0: all local
  bool serves = false;              ///< its workers could end the trainer's waiting

  bool operator==(const EarlierRun&) const = default;
};

/// Errors: kInvalidArgument with the number: none that is 0 or between 1e-12 and 1e15, more workers than any
/// stream has.
Status check(const EarlierRun& earlier);

}  // namespace carya::autotune
