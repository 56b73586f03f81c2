#pragma once

#include <array>
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
  Status check_channels(bool extra, std::int64_t channels) const override {
    return padding_.fill.check_channels(name(), extra, channels);
  }

  Padding padding_;
};

/// Puts the image at a random place on a larger canvas of one color, with probability p. Source: torchvision v2
/// RandomZoomOut. Draws: whether, the factor of both sides, the place along x and y.
class RandomZoomOut final : public GeometricOp {
 public:
  static Result<std::unique_ptr<Op>> parse(Params& params);
  RandomZoomOut(Json::Object canonical, Fill fill, std::array<double, 2> side_range, double p);
  Result<ImageSize> infer_size(ImageSize) const override { return ImageSize{}; }
  Status resolve(SampleRng& rng, ImageSize in, StepList& steps) const override;

 private:
  Status check_channels(bool extra, std::int64_t channels) const override {
    return fill_.check_channels(name(), extra, channels);
  }

  Fill fill_;
  std::array<double, 2> side_range_;
  double p_;
};

}  // namespace carya::transforms
