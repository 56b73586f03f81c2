#pragma once

#include <vector>

#include "autotune/order/precedence.h"
#include "autotune/order/stage_model.h"

namespace carya::autotune {

/// What the ops that are still to run cost at least, whatever order and fusion is chosen for them; the search
/// drops what cannot win by it (README, proof 4). Keeps a reference to the model. Immutable.
class LowerBound {
 public:
  LowerBound(const Precedence& precedence, const StageModel& model);

  /// The least that any legal plan pays for the op.
  double op_ns(std::size_t op) const { return floor_ns_[op]; }
  double total_ns() const { return total_ns_; }
  /// The least that the ops outside `done` cost when `size` is what `done` leaves. At least the sum of their
  /// op_ns(). Cost: linear in the number of ops.
  double rest_ns(OpSet done, const Size& size) const;

 private:
  Size least(Size size, OpSet ops) const;
  double alone_ns(std::size_t op, const Size& in) const;

  const StageModel* model_;
  OpSet measured_ = 0;  // ops that are part of a measured stage
  OpSet follows_ = 0;   // ops that can be charged as followers, and save by it
  std::vector<double> floor_ns_;
  double total_ns_ = 0;
};

}  // namespace carya::autotune
