#pragma once

#include <memory>
#include <span>
#include <vector>

#include "transforms/op/op.h"
#include "transforms/op/params.h"

namespace carya::transforms {

/// Makes two pictures of one, each by its own run of the same ops. `image` becomes `view_0` (in its place) and `view_1`
/// (after the last field). Source: the augmentation of SimCLR (Chen et al., 2020, arXiv:2002.05709).
///
/// The ops of the first view have the keys of ops in the chain: without this op, `image` would have the same bits.
/// Those of the second view have the keys of the same ops written after them. The picture is the only image of the
/// sample, since another image could not follow both views. The ops fix its shape.
class TwoViews final : public Op {
 public:
  static Result<std::unique_ptr<Op>> parse(Params& params);
  TwoViews(Json::Object canonical, std::vector<std::unique_ptr<Op>> inner);

  /// `indices` gets the two views.
  Status infer(std::vector<FieldState>& fields, std::vector<std::size_t>& indices) const override;
  std::span<const std::unique_ptr<Op>> inner() const override { return inner_; }

 private:
  Result<std::size_t> find_picture(const std::vector<FieldState>& fields) const;

  std::vector<std::unique_ptr<Op>> inner_;
};

}  // namespace carya::transforms
