#pragma once

#include <array>
#include <memory>
#include <optional>
#include <vector>

#include "transforms/op/params.h"
#include "transforms/ops/geometry.h"

namespace carya::transforms {

/// Reads interpolation, antialias and extra_interpolation into a resize step without a size.
Step read_resize(Params& params);

/// Append `resize`, unless the image has that size already (every interpolation is then the identity).
void add_resize(StepList& steps, ImageSize in, const Step& resize);

/// Resizes to a given size, or until the shorter side has a given length. Source: torchvision v2 Resize and Pillow's
/// filters.
class Resize final : public GeometricOp {
 public:
  static Result<std::unique_ptr<Op>> parse(Params& params);
  /// If `size.width` is 0, `size.height` is the length of the shorter side, and `max_size` bounds the longer one.
  Resize(Json::Object canonical, ImageSize size, std::optional<std::int64_t> max_size, Step resize);
  Result<ImageSize> infer_size(ImageSize in) const override;
  Status resolve(SampleRng& rng, ImageSize in, StepList& steps) const override;

 private:
  ImageSize target(ImageSize in) const;

  ImageSize size_;
  std::optional<std::int64_t> max_size_;
  Step resize_;
};

/// Resizes until the shorter side has a length drawn from a list, or the longer one `max_size`. Source: torchvision v2
/// RandomShortestSize. Draws: the length.
class RandomShortestSize final : public GeometricOp {
 public:
  static Result<std::unique_ptr<Op>> parse(Params& params);
  RandomShortestSize(Json::Object canonical, std::vector<std::int64_t> min_size,
                     std::optional<std::int64_t> max_size, Step resize);
  Result<ImageSize> infer_size(ImageSize) const override { return ImageSize{}; }
  Status resolve(SampleRng& rng, ImageSize in, StepList& steps) const override;

 private:
  std::vector<std::int64_t> min_size_;
  std::optional<std::int64_t> max_size_;
  Step resize_;
};

/// Resizes to a random share of the size at which the image just fits into `target_size`. Source: torchvision v2
/// ScaleJitter, with height and width in their places: it divides the target's height by the image's width. Draws: the
/// share.
class ScaleJitter final : public GeometricOp {
 public:
  static Result<std::unique_ptr<Op>> parse(Params& params);
  ScaleJitter(Json::Object canonical, ImageSize target, std::array<double, 2> scale_range, Step resize);
  Result<ImageSize> infer_size(ImageSize) const override { return ImageSize{}; }
  Status resolve(SampleRng& rng, ImageSize in, StepList& steps) const override;

 private:
  ImageSize target_;
  std::array<double, 2> scale_range_;
  Step resize_;
};

}  // namespace carya::transforms
