#pragma once

#include <cstddef>
#include <vector>

#include "autotune/order/op_model.h"

namespace carya::autotune {

/// CPU time of ops that were run as one stage, in this order, fitted to measurements: "in" is the size before
/// the first of them, "out" the size after the last.
struct FusedCost {
  std::vector<std::size_t> ops;  ///< indices of the declared order, at least 2
  FittedCost cost;
};

/// What a fused stage saves as long as nobody has measured it. The defaults promise nothing.
struct FusionEstimate {
  double boundary_ns = 0;           ///< per boundary between two ops that is no boundary of stages
  double boundary_ns_per_byte = 0;  ///< per byte that is not written to memory and read back there
  double follower_share_min =
      0.5;  ///< of its cost alone that a fused op is always charged; above 0, at most 1
};

/// What was measured of a pipeline beside the costs of its single ops (autotune/order/op_model.h).
struct Profile {
  Size source;  ///< a mean record as it is read
  std::vector<FusedCost> fused;
  FusionEstimate estimate;
};

}  // namespace carya::autotune
