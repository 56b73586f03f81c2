#pragma once

#include <array>
#include <memory>
#include <vector>

#include "transforms/ops/color.h"

namespace carya::transforms {

/// Fills a rectangle of random area, aspect ratio and place, with probability p. Source: torchvision v2 RandomErasing
/// (ten tries, then nothing); exp and log are det_exp and det_log. Random values are uniform in 0..255, as in the paper
/// (Zhong et al., 2017, arXiv:1708.04896). The reference draws them from a normal distribution, which fits only
/// normalized floats.
///
/// Draws: p; area and aspect of each try; top and left; then the values, four from each draw, lowest byte first.
class RandomErasing final : public ColorOp {
 public:
  struct Options {
    double p;
    std::array<double, 2> scale;      ///< range of the area, as a fraction of the image's
    std::array<double, 2> log_ratio;  ///< range of log(height / width)
    std::vector<std::uint8_t> value;  ///< one value, or one per channel; empty: random values
  };

  static Result<std::unique_ptr<Op>> parse(Params& params);
  RandomErasing(Json::Object canonical, Options options, std::optional<std::vector<std::string>> fields);
  void draw(SampleRng& rng, ImageSize size, std::int64_t channels, ColorSteps& steps) const override;

 private:
  Status check_channels(const FieldState& field) const override;

  Options options_;
};

}  // namespace carya::transforms
