#pragma once

#include <memory>

#include "transforms/ops/crops.h"

namespace carya::transforms {

/// Mirrors with probability p. Source: torchvision v2 RandomHorizontalFlip, RandomVerticalFlip.
class RandomFlip final : public GeometricOp {
 public:
  static Result<std::unique_ptr<Op>> parse_horizontal(Params& params);
  static Result<std::unique_ptr<Op>> parse_vertical(Params& params);
  RandomFlip(Json::Object canonical, double p, bool horizontal);
  Result<ImageSize> infer_size(ImageSize in) const override { return in; }
  Status resolve(SampleRng& rng, ImageSize in, StepList& steps) const override;

 private:
  double p_;
  bool horizontal_;
};

/// Adds pixels on every side. Source: torchvision v2 Pad.
class Pad final : public GeometricOp {
 public:
  static Result<std::unique_ptr<Op>> parse(Params& params);
  Pad(Json::Object canonical, Padding padding);
  Result<ImageSize> infer_size(ImageSize in) const override;
  Status resolve(SampleRng& rng, ImageSize in, StepList& steps) const override;

 private:
  Status check_channels(std::int64_t channels) const override {
    return padding_.fill.check_channels(name(), channels);
  }

  Padding padding_;
};

}  // namespace carya::transforms
