#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/error.h"
#include "base/philox.h"
#include "transforms/kernels/image/pad.h"
#include "transforms/kernels/resize/resize.h"
#include "transforms/kernels/warp/warp.h"
#include "transforms/op/op.h"
#include "transforms/ops/objects/objects.h"

namespace carya::transforms {

/// Height and width of an image in pixels. In shape inference, -1 means that they are not known before the bytes are
/// read.
struct ImageSize {
  std::int64_t height = -1;
  std::int64_t width = -1;
  bool operator==(const ImageSize&) const = default;
};

/// The cost of a movement that is only noted (OpTraits::waits).
inline constexpr AssumedCost kNoteCost{.fixed_ns = 50, .per_byte_in_ns = 0.001};
inline constexpr AssumedCost kResizeCost{.fixed_ns = 2'000, .per_byte_in_ns = 0.05, .per_byte_out_ns = 0.15};

class ColorOp;

/// One movement of pixels after all random draws. Geometric ops consist of the first four kinds. The last kind stands
/// for a color op among them, which draws when a picture arrives.
struct Step {
  enum class Kind : std::uint8_t {
    /// Take the window at (top, left). Outside of the image it has the pixels that `padding_mode` and `fill` define.
    kWindow,
    kResize,  ///< resize the whole image to (height, width)
    kFlip,    ///< mirror
    kWarp,    ///< take pixels from the places that `matrix` gives, and `fill` outside
    kColor,   ///< change values in their places
  };
  Kind kind = Kind::kWindow;
  std::int64_t height = 0;  ///< of the result
  std::int64_t width = 0;
  std::int64_t top = 0;
  std::int64_t left = 0;
  PaddingMode padding_mode = PaddingMode::kConstant;
  std::array<std::uint8_t, 4> fill{};        ///< per channel
  std::array<std::uint8_t, 4> extra_fill{};  ///< for fields other than the main image
  Interpolation interpolation = Interpolation::kBilinear;
  Interpolation extra_interpolation = Interpolation::kBilinear;  ///< for fields other than the main image
  bool antialias = true;
  bool flip_horizontal = false;
  bool flip_vertical = false;
  std::array<double, 6> matrix{};            ///< kWarp: as WarpSpec
  const ColorOp* color = nullptr;            ///< kColor
  DrawKey key{};                             ///< kColor: the key of its random numbers
  std::uint64_t fields = ~std::uint64_t{0};  ///< a bit for each field that takes the step
  std::uint8_t ends_stage = 0;  ///< the number, from 1, of the profile's stage that ends with it; 0: none

  const std::array<std::uint8_t, 4>& fill_of(bool extra) const { return extra ? extra_fill : fill; }
  Interpolation interpolation_of(bool extra) const { return extra ? extra_interpolation : interpolation; }
};

/// The steps of one sample. Its room is fixed, so that resolving allocates nothing.
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

/// An op that moves pixels. It changes all images of the sample by the same random numbers.
class GeometricOp : public Op {
 public:
  using Op::Op;

  /// Takes all images. Each must be uint8 (height, width, 1, 3 or 4), or such an image cast to float32, and have the
  /// size of the others.
  Status infer(std::vector<FieldState>& fields, std::vector<std::size_t>& indices) const final;

  /// The size of the result for an image of size `in`. Unknown dimensions stay unknown unless the op sets them. Errors:
  /// kInvalidArgument if no image of this size can be taken.
  virtual Result<ImageSize> infer_size(ImageSize in) const = 0;

  /// Draw this sample's random numbers for images of size `in`, and append the steps (none if nothing moves). Errors:
  /// kCorrupt if an image of this size cannot be taken. Cost: no allocation unless it fails.
  virtual Status resolve(SampleRng& rng, ImageSize in, StepList& steps) const = 0;
  /// The same for a sample with objects, before its steps move them. What an op draws may depend on them, and it may
  /// leave some out; others leave this as it is.
  virtual Status resolve_with(SampleRng& rng, ImageSize in, Objects& objects, StepList& steps) const;

 protected:
  /// Check what the op needs beside images.
  virtual Status check_fields(const std::vector<FieldState>&) const { return {}; }
  /// Check the channels against parameters with one value per channel (fill). `extra`: of another image than the main one.
  virtual Status check_channels(bool /*extra*/, std::int64_t) const { return {}; }
};

/// Move objects as `steps` move the pixels of their picture.
void follow(Objects& objects, std::span<const Step> steps);

/// "640x480", which is width x height as photographers write it; "?" stands for an unknown side.
std::string size_text(ImageSize size);

}  // namespace carya::transforms
