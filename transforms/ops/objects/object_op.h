#pragma once

#include "transforms/op/op.h"
#include "transforms/ops/objects/objects.h"

namespace carya::transforms {

/// An op on the objects of a sample. A plan runs it between the movements of pixels, at its place among them.
class ObjectOp : public Op {
 public:
  using Op::Op;

  /// Change which objects there are.
  virtual void apply(Objects& objects) const = 0;
};

}  // namespace carya::transforms
