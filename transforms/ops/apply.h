#pragma once

#include <memory>
#include <span>
#include <vector>

#include "base/philox.h"
#include "transforms/op/op.h"
#include "transforms/op/params.h"

namespace carya::transforms {

/// Runs all inner ops with probability p, or none. Source: torchvision v2 RandomApply.
///
/// It takes geometric and color ops that together keep the shape of every field. So neither later ops nor the verdict
/// on a record depend on the draw. Each inner op has the key that it would have outside: with p = 1 the bits are those
/// of the inner ops alone.
class RandomApply final : public Op {
 public:
  static Result<std::unique_ptr<Op>> parse(Params& params);
  RandomApply(Json::Object canonical, std::vector<std::unique_ptr<Op>> inner, double p);

  Status infer(std::vector<FieldState>& fields, std::vector<std::size_t>& indices) const override;
  std::span<const std::unique_ptr<Op>> inner() const override { return inner_; }
  /// Whether the inner ops run for the sample of `rng`. Draws: p.
  bool applies(SampleRng& rng) const { return rng.next_double() < p_; }

 private:
  Status infer_inner(std::vector<FieldState>& fields, std::vector<std::size_t>& indices) const;
  Status check_shapes(const std::vector<FieldState>& fields) const;

  std::vector<std::unique_ptr<Op>> inner_;
  double p_;
};

}  // namespace carya::transforms
