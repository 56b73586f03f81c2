#pragma once

#include "loader/read/read_op.h"

namespace carya::loader {

/// Reads in the order in which they were added. A read is on at most one list and points to it, so that adding and
/// removing a read needs no memory and cannot fail. Threads: as its owner.
class ReadList {
 public:
  bool empty() const { return first_ == nullptr; }
  ReadOp* first() const { return first_; }

  void push_back(ReadOp& op) {
    op.list = this;
    op.before = last_;
    op.after = nullptr;
    (last_ != nullptr ? last_->after : first_) = &op;
    last_ = &op;
  }
  void remove(ReadOp& op) {
    (op.before != nullptr ? op.before->after : first_) = op.after;
    (op.after != nullptr ? op.after->before : last_) = op.before;
    op.list = nullptr;
    op.before = op.after = nullptr;
  }

 private:
  ReadOp* first_ = nullptr;
  ReadOp* last_ = nullptr;
};

}  // namespace carya::loader
