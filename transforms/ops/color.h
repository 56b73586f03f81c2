#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "transforms/kernels/floats/float_image.h"
#include "transforms/op/params.h"
#include "transforms/ops/geometry.h"

namespace carya::transforms {

/// One change of a picture's values after all random draws. All color ops consist of these.
struct ColorStep {
  enum class Kind : std::uint8_t {
    kInvert,     ///< 255 - x
    kSolarize,   ///< 255 - x if x >= `amount`, else x
    kPosterize,  ///< the bits of x that are set in `amount`
    kGrayscale,  ///< luma, in `amount` channels
    kAutocontrast,
    kEqualize,
    kSharpness,  ///< by `factor`, as for the next three
    kBrightness,
    kContrast,
    kSaturation,
    kHue,    ///< by `amount` of kHueTurn
    kBlend,  ///< from the level `amount`, by `factor`: contrast, once the picture's mean is known
    kErase,  ///< fill `region` with `fill`, or with `noise`
    kBlur,   ///< Gaussian with standard deviation `factor` and size `kernel`
  };
  Kind kind = Kind::kInvert;
  std::int32_t amount = 0;
  float factor = 1.0F;
  Region region{};
  std::array<std::uint8_t, 4> fill{};    ///< per channel
  std::array<std::int32_t, 2> kernel{};  ///< width and height, odd
  /// The random values begin with its next draw: four from each draw, lowest byte first.
  std::optional<SampleRng> noise{};
};

/// The largest factor that an op may be given.
inline constexpr double kFactorMax = 1000.0;

/// The assumed cost of a color op, for each byte of its image.
constexpr AssumedCost color_cost(double per_byte_in_ns) {
  return {.fixed_ns = 500, .per_byte_in_ns = per_byte_in_ns};
}

/// The steps of one color op for one picture. The room is fixed, so that drawing allocates nothing.
struct ColorSteps {
  std::array<ColorStep, 4> steps{};
  std::size_t count = 0;

  ColorStep& add(ColorStep step) {
    CHECK(count < steps.size());
    return steps[count++] = step;
  }
};

/// The channels that a picture of `channels` has after the step.
std::int64_t channels_after(const ColorStep& step, std::int64_t channels);

/// Whether the step commutes with mirroring: a mirrored picture gives the same values, mirrored.
bool passes_flips(const ColorStep& step);

/// Whether each pixel of the result depends only on the same pixel of the picture.
bool is_pixelwise(const ColorStep& step);

/// A pixelwise form of the step, if a look at the whole picture gives one (contrast); else the step itself. If
/// `patience` ends that early, the factors are any.
ColorStep settled(const ColorStep& step, const ImageView& in, Patience* patience = nullptr);

/// Write the picture after the step.
/// Shape: `out` has the size of `in` and channels_after() channels, and does not overlap it. Errors: none; `patience`
/// may end it early.
void apply_color_step(const ColorStep& step, const ImageView& in, const MutableImageView& out,
                      Patience* patience = nullptr);
/// The same for a picture of values in 0..1. The step is that of an op that takes floats.
void apply_color_step(const ColorStep& step, const FloatView& in, const MutableFloatView& out,
                      Patience* patience = nullptr);

/// An op that changes the values of a picture in their places. It takes uint8 (height, width, channels) images, each by
/// itself; with traits().takes_floats also float32 ones in 0..1. Without `fields` it takes `image`. Several fields are
/// changed by the same random numbers.
class ColorOp : public Op {
 public:
  ColorOp(std::string op_name, OpTraits traits, Json::Object canonical,
          std::optional<std::vector<std::string>> fields);
  Status infer(std::vector<FieldState>& fields, std::vector<std::size_t>& indices) const final;

  /// Draw this sample's random numbers for a picture of this size, and append the steps (none if nothing changes).
  /// Cost: no allocation.
  virtual void draw(SampleRng& rng, ImageSize size, std::int64_t channels, ColorSteps& steps) const = 0;

 protected:
  /// Check that the op can take the field's channels: by default 1 or 3, as in the reference.
  virtual Status check_channels(const FieldState& field) const;
  /// The channels of the result.
  virtual std::int64_t infer_channels(std::int64_t channels) const { return channels; }

 private:
  std::optional<std::vector<std::string>> fields_;
};

/// A color op without random numbers: it always has the same one step.
class FixedColor final : public ColorOp {
 public:
  /// Source: torchvision v2 functional.invert; exact.
  static Result<std::unique_ptr<Op>> parse_invert(Params& params);
  /// Source: torchvision v2 functional.solarize; exact.
  static Result<std::unique_ptr<Op>> parse_solarize(Params& params);
  /// Source: torchvision v2 functional.posterize; exact.
  static Result<std::unique_ptr<Op>> parse_posterize(Params& params);
  /// Source: torchvision v2 Grayscale on PIL images; exact, and within 1 level of it on tensors.
  static Result<std::unique_ptr<Op>> parse_grayscale(Params& params);
  /// Source: torchvision v2 functional.autocontrast; within 1 level.
  static Result<std::unique_ptr<Op>> parse_autocontrast(Params& params);
  /// Source: torchvision v2 functional.equalize; exact.
  static Result<std::unique_ptr<Op>> parse_equalize(Params& params);
  /// Source: torchvision v2 functional.adjust_sharpness on PIL images; exact, and within 1 level of it on
  /// tensors.
  static Result<std::unique_ptr<Op>> parse_adjust_sharpness(Params& params);

  /// `any_channels`: whether the op also takes pictures with an alpha channel.
  FixedColor(std::string op_name, ColorStep step, bool any_channels, Json::Object canonical,
             std::optional<std::vector<std::string>> fields);
  void draw(SampleRng& rng, ImageSize size, std::int64_t channels, ColorSteps& steps) const override;

 private:
  Status check_channels(const FieldState& field) const override;
  std::int64_t infer_channels(std::int64_t channels) const override;

  ColorStep step_;
  bool any_channels_;
};

}  // namespace carya::transforms
