#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/error.h"
#include "base/philox.h"
#include "transforms/kernels/image/pad.h"
#include "transforms/kernels/resize/resize.h"
#include "transforms/kernels/warp/warp.h"
#include "transforms/op/op.h"

namespace carya::transforms {

/// Height and width of an image in pixels; -1 while only the bytes know (shape inference alone).
struct ImageSize {
  std::int64_t height = -1;
  std::int64_t width = -1;
  bool operator==(const ImageSize&) const = default;
};

class ColorOp;

/// One movement of pixels, with every random number already drawn: all geometric ops come down to the first
/// four. Or the place of a color op among them, which draws when a picture comes by.
struct Step {
  enum class Kind : std::uint8_t {
    kWindow,  ///< take the window at (top, left); where it lies outside the image, `padding_mode` and `fill`
              ///< say what is there
    kResize,  ///< stretch the whole image to (height, width)
    kFlip,    ///< mirror
    kWarp,    ///< take pixels from the places that `matrix` says, `fill` outside
    kColor,   ///< change values where they are
  };
  Kind kind = Kind::kWindow;
  std::int64_t height = 0;  ///< of the result
  std::int64_t width = 0;
  std::int64_t top = 0;
  std::int64_t left = 0;
  PaddingMode padding_mode = PaddingMode::kConstant;
  std::array<std::uint8_t, 4> fill{};  ///< per channel
  Interpolation interpolation = Interpolation::kBilinear;
  Interpolation extra_interpolation = Interpolation::kBilinear;  ///< for fields other than the main image
  bool antialias = true;
  bool flip_horizontal = false;
  bool flip_vertical = false;
  std::array<double, 6> matrix{};            ///< kWarp: as WarpSpec
  const ColorOp* color = nullptr;            ///< kColor
  Philox4x32::Key key{};                     ///< kColor: of its random numbers
  std::uint64_t fields = ~std::uint64_t{0};  ///< a bit for each field that takes the step
  std::uint8_t ends_stage = 0;  ///< number of the profile's stage that ends with it, from 1; 0: none
};

/// The steps of one sample; fixed room, so that resolving allocates nothing.
struct StepList {
  std::array<Step, 2 * kOpsMax> steps;
  std::size_t count = 0;

  Step& add(Step::Kind kind, ImageSize result) {
    CHECK(count < steps.size());
    Step& step = steps[count++];
    step = Step{.kind = kind, .height = result.height, .width = result.width};
    return step;
  }
};

/// An op that moves pixels: it takes every image of the sample, all with one set of random numbers.
class GeometricOp : public Op {
 public:
  using Op::Op;

  /// Takes all images; each must be uint8 (height, width, 1, 3 or 4), or that cast to float32, and of the
  /// size of the others.
  Status infer(std::vector<FieldState>& fields, std::vector<std::size_t>& indices) const final;

  /// The size it makes of `in`; unknown dimensions stay unknown unless the op fixes them.
  /// Errors: kInvalidArgument when an image of this size can never be taken.
  virtual Result<ImageSize> infer_size(ImageSize in) const = 0;

  /// Draw this sample's random numbers and append the steps (none, if nothing moves).
  /// Errors: kCorrupt when an image of this size cannot be taken. Cost: no allocation unless it fails.
  virtual Status resolve(SampleRng& rng, ImageSize in, StepList& steps) const = 0;

 protected:
  /// Channels checked against parameters that are per channel (fill).
  virtual Status check_channels(std::int64_t) const { return {}; }
};

/// "640x480" as width x height, "?" for unknown: how photographers and error messages write it.
std::string size_text(ImageSize size);

}  // namespace carya::transforms
