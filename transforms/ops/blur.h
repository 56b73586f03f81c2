#pragma once

#include <array>
#include <memory>

#include "transforms/ops/color.h"

namespace carya::transforms {

/// Each value becomes the weighted mean of the values around it. The weights are Gaussian, with one random standard
/// deviation for both directions. Source: torchvision v2 GaussianBlur, within 1 level.
///
/// Draws: the standard deviation, uniform.
class GaussianBlur final : public ColorOp {
 public:
  static Result<std::unique_ptr<Op>> parse(Params& params);
  /// `kernel` has the width and height of the kernel, both odd.
  GaussianBlur(Json::Object canonical, std::array<std::int32_t, 2> kernel, std::array<double, 2> sigma,
               std::optional<std::vector<std::string>> fields);
  void draw(SampleRng& rng, ImageSize size, std::int64_t channels, ColorSteps& steps) const override;

 private:
  Status check_channels(const FieldState&) const override { return {}; }

  std::array<std::int32_t, 2> kernel_;
  std::array<double, 2> sigma_;
};

}  // namespace carya::transforms
