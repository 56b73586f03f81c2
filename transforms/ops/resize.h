#pragma once

#include <memory>
#include <optional>

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

}  // namespace carya::transforms
