#pragma once

#include <cstddef>
#include <cstdint>

#include "base/error.h"

namespace carya::autotune {

/// What a stream's controller knew at its end, as a start for the next run of the same plan on the same machine. 0: not
/// known. A plain value.
struct EarlierRun {
  double demand = 0;                ///< samples/s
  double local_cpu_s = 0;           ///< thread-seconds of a sample that stayed on the host
  double link_in_bytes_per_s = 0;   ///< rate of the link to the host
  double link_out_bytes_per_s = 0;  ///< rate of the link from the host
  double source_bytes_per_s = 0;    ///< rate of the storage
  std::size_t ops_remote =
      0;                    ///< ops that workers ran, by the answer's cut, else by that of the measurements
  double host_cpu_s = 0;    ///< the host's time for a remote sample: receive, unpack, run the rest of the ops
  double worker_cpu_s = 0;  ///< a worker's time for a remote sample
  double worker_cores = 0;  ///< cores of one worker
  std::uint32_t workers = 0;  ///< the workers of the answer; 0: all is local
  bool serves = false;        ///< the workers could end the trainer's waiting

  bool operator==(const EarlierRun&) const = default;
};

/// Checks the numbers of an earlier run: each is 0 or between 1e-12 and 1e15, and no stream has more workers than
/// allowed.
/// Errors: kInvalidArgument, with the number.
Status check(const EarlierRun& earlier);

}  // namespace carya::autotune
