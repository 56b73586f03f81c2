#pragma once

#include <cstddef>
#include <vector>

#include "autotune/order/cost.h"
#include "base/error.h"

namespace carya::autotune {

/// What it takes to bring a sample from a worker into the host's memory. CPU seconds per byte on the wire,
/// TLS included, unless another byte is said.
struct Transfer {
  double receive_s_per_byte = 0;  ///< on the host
  double reply_s_per_byte = 0;    ///< on the worker
  /// The workers do not see the source: the host sends them the records.
  bool sends_records = false;
  double request_s_per_byte = 0;  ///< on the host, per byte of a record that it sends
  /// Bytes that compression leaves, as a share; 1 (or 0): there is no compression to choose.
  double compressed_share = 1;
  double compress_s_per_byte = 0;    ///< on the worker, per byte before
  double decompress_s_per_byte = 0;  ///< on the host, per byte before
};

/// A part of a pipeline that workers can take over: its first ops. What one remote sample then costs.
struct RemoteCut {
  std::size_t ops_remote = 0;  ///< the first so many ops of the plan's order
  bool compressed = false;
  double host_cpu_s = 0;    ///< sending, receiving, unpacking, and the ops that stay
  double worker_cpu_s = 0;  ///< above 0
  double bytes_in = 0;      ///< over the link, to the host
  double bytes_out = 0;     ///< over the link, to the worker
};

struct RemoteCuts {
  double local_cpu_s = 0;  ///< a sample that stays on the host
  double source_bytes = 0;
  std::vector<RemoteCut>
      cuts;  ///< after one op, after two, ... after all; each also compressed, if it can be
};

/// Every place after which the rest of a plan can run on the host, with what the cost function says of both
/// sides. A cut inside of a stage breaks its fusion, and is charged so. A place that costs a worker nothing
/// is left out. Pure. Errors: kInvalidArgument: those of cost(), for either machine; transfer costs that are
/// negative or not finite.
Result<RemoteCuts> remote_cuts(const StageModel& model, const Plan& plan, const Machine& host,
                               const Machine& worker, const Transfer& transfer);

}  // namespace carya::autotune
