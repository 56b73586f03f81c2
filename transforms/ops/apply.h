#pragma once

#include <memory>
#include <span>
#include <vector>

#include "base/philox.h"
#include "transforms/op/op.h"
#include "transforms/op/params.h"

namespace carya::transforms {

/// Ops that are done all or not at all, with probability p. Source: torchvision v2 RandomApply.
///
/// Takes geometric and color ops that together leave every field its shape, so that what comes after it, and
/// whether a record is broken, does not depend on the draw. Each inner op has the key of an op of its own:
/// with p = 1 the bits are those of the ops without this one.
class RandomApply final : public Op {
 public:
  static Result<std::unique_ptr<Op>> parse(Params& params);
  RandomApply(Json::Object canonical, std::vector<std::unique_ptr<Op>> inner, double p);

  Status infer(std::vector<FieldState>& fields, std::vector<std::size_t>& indices) const override;
  std::span<const std::unique_ptr<Op>> inner() const override { return inner_; }
  /// Whether the inner ops are done for the sample whose numbers these are. Draws: p.
  bool applies(SampleRng& rng) const { return rng.next_double() < p_; }

 private:
  Status infer_inner(std::vector<FieldState>& fields, std::vector<std::size_t>& indices) const;
  Status check_shapes(const std::vector<FieldState>& fields) const;

  std::vector<std::unique_ptr<Op>> inner_;
  double p_;
};

}  // namespace carya::transforms
