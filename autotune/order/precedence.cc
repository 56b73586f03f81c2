#include "autotune/order/precedence.h"

namespace carya::autotune {

Precedence::Precedence(const Chain& chain, Sense sense)
    : all_(chain.all()), before_(chain.size(), 0), after_(chain.size(), 0) {
  for (std::size_t op = 0; op < chain.size(); ++op)
    for (std::size_t earlier = 0; earlier < op; ++earlier)
      if (!chain.may_exchange(earlier, op, sense)) before_[op] |= before_[earlier] | op_bit(earlier);
  for (std::size_t op = 0; op < chain.size(); ++op)
    for_each_op(before_[op], [&](std::size_t earlier) { after_[earlier] |= op_bit(op); });
}

OpSet Precedence::eligible(OpSet done) const {
  OpSet found = 0;
  for_each_op(all_ & ~done, [&](std::size_t op) {
    if ((before_[op] & ~done) == 0) found |= op_bit(op);
  });
  return found;
}

OpSet Precedence::maximal(OpSet done) const {
  OpSet found = 0;
  for_each_op(done, [&](std::size_t op) {
    if ((after_[op] & done) == 0) found |= op_bit(op);
  });
  return found;
}

}  // namespace carya::autotune
