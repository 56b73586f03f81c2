#pragma once

#include <array>
#include <memory>
#include <optional>

#include "transforms/ops/affine_matrix.h"
#include "transforms/ops/crops.h"

namespace carya::transforms {

/// The parameters that all ops below share.
struct WarpOptions {
  Interpolation interpolation = Interpolation::kNearest;
  Interpolation extra_interpolation = Interpolation::kNearest;  ///< for fields other than the main image
  std::optional<std::array<double, 2>> center;                  ///< x and y in pixels; none: the middle
  Fill fill;

  static WarpOptions read(Params& params);
  /// Nearest pixels, of extra images too, and black beside them are copies.
  Pixels pixels() const;
};

/// An op that moves the pixels of a picture; the size stays.
class WarpOp : public GeometricOp {
 public:
  Result<ImageSize> infer_size(ImageSize in) const final { return in; }

 protected:
  /// The kind of an op's motion.
  struct Motion {
    bool random = false;
    bool rescales = false;
    bool in_pixels = false;  ///< the motion is a length in pixels; a given center is one too
  };
  WarpOp(std::string op_name, Motion motion, Json::Object canonical, WarpOptions options);
  std::array<double, 2> center(ImageSize in) const;
  /// Append the step, unless every pixel stays in its place.
  void add_warp(const std::array<double, 6>& matrix, ImageSize in, StepList& steps) const;

 private:
  Status check_channels(bool extra, std::int64_t channels) const final {
    return options_.fill.check_channels(name(), extra, channels);
  }

  WarpOptions options_;
};

/// Rotates counter-clockwise. Source: torchvision v2 functional.rotate on PIL images.
class Rotate final : public WarpOp {
 public:
  static Result<std::unique_ptr<Op>> parse(Params& params);
  Rotate(Json::Object canonical, double angle, WarpOptions options);
  Status resolve(SampleRng& rng, ImageSize in, StepList& steps) const override;

 private:
  double angle_;
};

/// Rotates by a random angle. Source: torchvision v2 RandomRotation. Draws: the angle.
class RandomRotation final : public WarpOp {
 public:
  static Result<std::unique_ptr<Op>> parse(Params& params);
  RandomRotation(Json::Object canonical, std::array<double, 2> degrees, WarpOptions options);
  Status resolve(SampleRng& rng, ImageSize in, StepList& steps) const override;

 private:
  std::array<double, 2> degrees_;
};

/// Rotates clockwise, scales, shears and shifts. Source: torchvision v2 functional.affine on PIL images.
class AffineTransform final : public WarpOp {
 public:
  static Result<std::unique_ptr<Op>> parse(Params& params);
  /// The center of `move` is not used.
  AffineTransform(Json::Object canonical, const AffineMove& move, WarpOptions options);
  Status resolve(SampleRng& rng, ImageSize in, StepList& steps) const override;

 private:
  AffineMove move_;
};

/// AffineTransform with random parameters. Source: torchvision v2 RandomAffine.
///
/// Draws: angle, shift along x and y, scale, shear along x and y. There are always six draws, so that none depends on
/// which ranges are given.
class RandomAffine final : public WarpOp {
 public:
  struct Ranges {
    std::array<double, 2> degrees{};
    std::array<double, 2> translate{};  ///< the most, as fractions of width and height
    std::array<double, 2> scale{1.0, 1.0};
    std::array<double, 2> shear_x{};
    std::array<double, 2> shear_y{};
  };

  static Result<std::unique_ptr<Op>> parse(Params& params);
  RandomAffine(Json::Object canonical, const Ranges& ranges, WarpOptions options);
  Status resolve(SampleRng& rng, ImageSize in, StepList& steps) const override;

 private:
  Ranges ranges_;
};

}  // namespace carya::transforms
