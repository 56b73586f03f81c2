#include "autotune/order/lower_bound.h"

#include <algorithm>

namespace carya::autotune {
namespace {

/// The least that a part of the size can become: set to the smallest constant, then shrunk by every factor.
class LeastPart {
 public:
  explicit LeastPart(double value) : least_(value) {}
  void allow(const Change& change) {
    if (change.scale == 0)
      least_ = std::min(least_, change.add);
    else
      factor_ *= std::min(1.0, change.scale);
  }
  double value() const { return least_ * factor_; }

 private:
  double least_;
  double factor_ = 1;
};

}  // namespace

LowerBound::LowerBound(const Precedence& precedence, const StageModel& model) : model_(&model) {
  const Chain& chain = model.chain();
  const FusionEstimate& estimate = model.profile().estimate;
  if (estimate.boundary_ns > 0 || estimate.boundary_ns_per_byte > 0)
    for (std::size_t op = 0; op < chain.size(); ++op) follows_ |= model.fuses_with(op);
  std::vector<Size> least_in(chain.size());
  for (std::size_t op = 0; op < chain.size(); ++op) {
    Size in = model.profile().source;
    for_each_op(precedence.before(op), [&](std::size_t earlier) { in = chain.op(earlier).size(in); });
    least_in[op] = least(in, chain.all() & ~precedence.before(op) & ~precedence.after(op) & ~op_bit(op));
    floor_ns_.push_back(alone_ns(op, least_in[op]));
  }
  if (model.fuses()) {
    for (const FusedCost& fused : model.profile().fused) {
      const Size in = least_in[fused.ops.front()];
      Size out = in;
      for (const std::size_t op : fused.ops) out = chain.op(op).size(out);
      const double part_ns = fused.cost.ns(in, out) / static_cast<double>(fused.ops.size());
      for (const std::size_t op : fused.ops) {
        floor_ns_[op] = std::min(floor_ns_[op], part_ns);
        measured_ |= op_bit(op);
      }
    }
  }
  for (const double ns : floor_ns_) total_ns_ += ns;
}

Size LowerBound::least(Size size, OpSet ops) const {
  LeastPart pixels(size.pixels), channels(size.channels), element_bytes(size.element_bytes);
  for_each_op(ops, [&](std::size_t op) {
    const SizeRule& rule = model_->chain().op(op).size;
    pixels.allow(rule.pixels);
    channels.allow(rule.channels);
    element_bytes.allow(rule.element_bytes);
  });
  return {pixels.value(), channels.value(), element_bytes.value()};
}

double LowerBound::alone_ns(std::size_t op, const Size& in) const {
  const double ns = model_->first_ns(op, in, model_->chain().op(op).size(in));
  return (follows_ & op_bit(op)) != 0 ? ns * model_->profile().estimate.follower_share_min : ns;
}

double LowerBound::rest_ns(OpSet done, const Size& size) const {
  const OpSet rest = model_->chain().all() & ~done;
  const Size in = least(size, rest);
  double sum_ns = 0;
  for_each_op(rest, [&](std::size_t op) {
    const bool measured = (measured_ & op_bit(op)) != 0;
    sum_ns += measured ? floor_ns_[op] : std::max(floor_ns_[op], alone_ns(op, in));
  });
  return sum_ns;
}

}  // namespace carya::autotune
