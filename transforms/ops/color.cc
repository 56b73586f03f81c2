#include "transforms/ops/color.h"

#include <algorithm>
#include <cmath>

#include "transforms/kernels/blur/blur.h"
#include "transforms/kernels/color/color_mix.h"
#include "transforms/kernels/color/color_tables.h"
#include "transforms/kernels/color/color_values.h"
#include "transforms/kernels/color/sharpen.h"
#include "transforms/kernels/floats/float_color.h"

namespace carya::transforms {
namespace {

/// Bytes of a picture that change before anybody is asked again whether it is wanted.
constexpr std::int64_t kAskedBytes = 256 << 10;

ImageView rows_of(const ImageView& in, std::int64_t first, std::int64_t count) {
  return crop_view(in, {first, 0, count, in.width});
}
MutableImageView rows_of(const MutableImageView& out, std::int64_t first, std::int64_t count) {
  return {out.row(first), count, out.width, out.channels, out.stride_bytes};
}
FloatView rows_of(const FloatView& in, std::int64_t first, std::int64_t count) {
  return {in.row(first), count, in.width, in.channels};
}
MutableFloatView rows_of(const MutableFloatView& out, std::int64_t first, std::int64_t count) {
  return {out.row(first), count, out.width, out.channels};
}

/// change(in, out) where pixels depend on themselves alone: some rows at a time, for as long as it is wanted.
template <typename View, typename MutableView, typename Change>
void change_rows(const View& in, const MutableView& out, Patience* patience, Change change) {
  const std::int64_t row_bytes = in.width * in.channels * static_cast<std::int64_t>(sizeof(*in.data));
  const std::int64_t rows =
      patience == nullptr ? in.height : std::max<std::int64_t>(1, kAskedBytes / row_bytes);
  for (std::int64_t y = 0; y < in.height; y += rows) {
    const std::int64_t count = std::min(rows, in.height - y);
    change(rows_of(in, y, count), rows_of(out, y, count));
    if (!goes_on(patience, count * row_bytes)) return;
  }
}

void fill_with_noise(SampleRng noise, const Region& region, const MutableImageView& out, Patience* patience) {
  constexpr std::int64_t kNoiseWork = 4;  // a random number takes longer than a copy
  std::uint32_t word = 0;
  int left = 0;
  for (std::int64_t y = region.top; y < region.top + region.height; ++y) {
    if (!goes_on(patience, kNoiseWork * region.width * out.channels)) return;
    std::uint8_t* to = out.row(y) + region.left * out.channels;
    for (std::int64_t i = 0; i < region.width * out.channels; ++i) {
      if (left == 0) {
        word = noise.next_u32();
        left = 4;
      }
      to[i] = static_cast<std::uint8_t>(word);
      word >>= 8;
      --left;
    }
  }
}

OpTraits traits_of(const ColorStep& step) {
  using Kind = ColorStep::Kind;
  OpTraits traits{.kind = OpKind::kColor};
  traits.pixelwise = is_pixelwise(step);
  traits.in_pixels = step.kind == Kind::kSharpness;
  traits.keeps_black = step.kind == Kind::kPosterize || step.kind == Kind::kGrayscale ||
                       (step.kind == Kind::kSolarize && step.amount > 0);
  traits.takes_floats = step.kind == Kind::kInvert || step.kind == Kind::kGrayscale;
  switch (step.kind) {
    case Kind::kInvert:
      traits.color = ColorRule::kInvert;
      traits.assumed_cost = color_cost(0.03);
      break;
    case Kind::kPosterize:
      traits.assumed_cost = color_cost(0.03);
      break;
    case Kind::kSolarize:
      traits.assumed_cost = color_cost(0.1);
      break;
    case Kind::kGrayscale:
      traits.color = ColorRule::kGray;
      traits.assumed_cost = color_cost(0.27);
      break;
    case Kind::kAutocontrast:
      traits.assumed_cost = color_cost(0.23);
      break;
    case Kind::kEqualize:
      traits.assumed_cost = color_cost(0.7);
      break;
    case Kind::kSharpness:
      traits.color = ColorRule::kMixed;
      traits.assumed_cost = color_cost(0.4);
      break;
    default:
      break;  // no op with one step of these kinds
  }
  return traits;
}

}  // namespace

std::int64_t channels_after(const ColorStep& step, std::int64_t channels) {
  return step.kind == ColorStep::Kind::kGrayscale ? step.amount : channels;
}

bool passes_flips(const ColorStep& step) {
  return step.kind != ColorStep::Kind::kErase;
}

bool is_pixelwise(const ColorStep& step) {
  switch (step.kind) {
    case ColorStep::Kind::kInvert:
    case ColorStep::Kind::kSolarize:
    case ColorStep::Kind::kPosterize:
    case ColorStep::Kind::kGrayscale:
    case ColorStep::Kind::kBrightness:
    case ColorStep::Kind::kSaturation:
    case ColorStep::Kind::kHue:
    case ColorStep::Kind::kBlend:
      return true;
    case ColorStep::Kind::kAutocontrast:
    case ColorStep::Kind::kEqualize:
    case ColorStep::Kind::kSharpness:
    case ColorStep::Kind::kContrast:
    case ColorStep::Kind::kErase:
    case ColorStep::Kind::kBlur:
      return false;
  }
  return false;
}

ColorStep settled(const ColorStep& step, const ImageView& in, Patience* patience) {
  if (step.kind != ColorStep::Kind::kContrast) return step;
  return {.kind = ColorStep::Kind::kBlend, .amount = mean_luma(in, patience), .factor = step.factor};
}

namespace {

// A step that is pixelwise.
void change_pixels(const ColorStep& step, const ImageView& in, const MutableImageView& out) {
  switch (step.kind) {
    case ColorStep::Kind::kInvert:
      return invert_values(in, out);
    case ColorStep::Kind::kSolarize:
      return solarize_values(in, step.amount, out);
    case ColorStep::Kind::kPosterize:
      return posterize_values(in, step.amount, out);
    case ColorStep::Kind::kGrayscale:
      return grayscale(in, out);
    case ColorStep::Kind::kBrightness:
      return blend_level(in, 0, step.factor, out);
    case ColorStep::Kind::kBlend:
      return blend_level(in, step.amount, step.factor, out);
    case ColorStep::Kind::kSaturation:
      return saturate(in, step.factor, out);
    case ColorStep::Kind::kHue:
      return shift_hue(in, step.amount, out);
    default:
      CHECK(false);
  }
}

// The same of floats, `level` for contrast.
void change_pixels(const ColorStep& step, float level, const FloatView& in, const MutableFloatView& out) {
  switch (step.kind) {
    case ColorStep::Kind::kInvert:
      return invert(in, out);
    case ColorStep::Kind::kGrayscale:
      return grayscale(in, out);
    case ColorStep::Kind::kBrightness:
    case ColorStep::Kind::kContrast:
      return blend_level(in, level, step.factor, out);
    case ColorStep::Kind::kSaturation:
      return saturate(in, step.factor, out);
    case ColorStep::Kind::kHue:
      return shift_hue(in, step.amount, out);
    default:
      CHECK(false);  // of an op without takes_floats
  }
}

}  // namespace

void apply_color_step(const ColorStep& step, const ImageView& in, const MutableImageView& out,
                      Patience* patience) {
  switch (step.kind) {
    case ColorStep::Kind::kAutocontrast:
      return autocontrast(in, out, patience);
    case ColorStep::Kind::kEqualize:
      return equalize(in, out, patience);
    case ColorStep::Kind::kSharpness:
      return sharpen(in, step.factor, out, patience);
    case ColorStep::Kind::kContrast:
      return apply_color_step(settled(step, in, patience), in, out, patience);
    case ColorStep::Kind::kErase:
      erase(in, step.region, step.fill, out, patience);
      if (step.noise) fill_with_noise(*step.noise, step.region, out, patience);
      return;
    case ColorStep::Kind::kBlur:
      return blur(in, gaussian_taps(step.kernel[0], static_cast<double>(step.factor)),
                  gaussian_taps(step.kernel[1], static_cast<double>(step.factor)), out, patience);
    default:
      return change_rows(in, out, patience, [&](const ImageView& from, const MutableImageView& to) {
        change_pixels(step, from, to);
      });
  }
}

void apply_color_step(const ColorStep& step, const FloatView& in, const MutableFloatView& out,
                      Patience* patience) {
  if (step.kind == ColorStep::Kind::kBlur)
    return blur(in, gaussian_taps(step.kernel[0], static_cast<double>(step.factor)),
                gaussian_taps(step.kernel[1], static_cast<double>(step.factor)), out, patience);
  const float level = step.kind == ColorStep::Kind::kContrast ? mean_luma(in, patience) : 0.0F;
  change_rows(in, out, patience, [&](const FloatView& from, const MutableFloatView& to) {
    change_pixels(step, level, from, to);
  });
}

ColorOp::ColorOp(std::string op_name, OpTraits traits, Json::Object canonical,
                 std::optional<std::vector<std::string>> fields)
    : Op(std::move(op_name), traits, std::move(canonical)), fields_(std::move(fields)) {}

Status ColorOp::check_channels(const FieldState& field) const {
  const std::int64_t channels = field.spec.shape[2];
  if (channels != 1 && channels != 3) return refuse(field, "1 or 3 channels");
  return {};
}

Status ColorOp::infer(std::vector<FieldState>& fields, std::vector<std::size_t>& indices) const {
  ASSIGN(indices, fields_or_main(name(), fields, fields_));
  for (const std::size_t i : indices) {
    FieldState& field = fields[i];
    if (field.form == FieldState::Form::kEncoded)
      return refuse(field, "decoded fields: put decode_image before");
    const bool image =
        field.form == FieldState::Form::kImage && field.layout == Layout::kHwc && !field.values;
    const bool floats = traits().takes_floats && field.spec.dtype == DType::kFloat32 && field.unit;
    if (!image || (field.spec.dtype != DType::kUint8 && !floats))
      return refuse(field,
                    std::string("uint8 HWC images: put it before normalize, to_dtype and to_layout") +
                        (traits().takes_floats ? "; to_dtype(\"float32\", scale=True) may come before" : ""));
    TRY(check_channels(field));
    field.spec.shape[2] = infer_channels(field.spec.shape[2]);
  }
  return {};
}

FixedColor::FixedColor(std::string op_name, ColorStep step, bool any_channels, Json::Object canonical,
                       std::optional<std::vector<std::string>> fields)
    : ColorOp(std::move(op_name), traits_of(step), std::move(canonical), std::move(fields)),
      step_(step),
      any_channels_(any_channels) {}

void FixedColor::draw(SampleRng&, ImageSize, std::int64_t, ColorSteps& steps) const {
  steps.add(step_);
}

Status FixedColor::check_channels(const FieldState& field) const {
  if (any_channels_) return {};
  return ColorOp::check_channels(field);
}

std::int64_t FixedColor::infer_channels(std::int64_t channels) const {
  return channels_after(step_, channels);
}

Result<std::unique_ptr<Op>> FixedColor::parse_invert(Params& params) {
  auto fields = params.strings_or_null("fields");
  TRY(params.finish());
  return std::make_unique<FixedColor>("invert", ColorStep{.kind = ColorStep::Kind::kInvert}, true,
                                      params.take_canonical(), std::move(fields));
}

Result<std::unique_ptr<Op>> FixedColor::parse_solarize(Params& params) {
  const double threshold = params.number("threshold", 0.0, 255.0, std::nullopt);
  auto fields = params.strings_or_null("fields");
  TRY(params.finish());
  // For an integer, x >= threshold is x >= ceil(threshold).
  const ColorStep step{.kind = ColorStep::Kind::kSolarize,
                       .amount = static_cast<std::int32_t>(std::ceil(threshold))};
  return std::make_unique<FixedColor>("solarize", step, true, params.take_canonical(), std::move(fields));
}

Result<std::unique_ptr<Op>> FixedColor::parse_posterize(Params& params) {
  const auto bits = static_cast<std::int32_t>(params.integer("bits", 0, 8));
  auto fields = params.strings_or_null("fields");
  TRY(params.finish());
  const ColorStep step{.kind = ColorStep::Kind::kPosterize, .amount = (0xFF00 >> bits) & 0xFF};
  return std::make_unique<FixedColor>("posterize", step, true, params.take_canonical(), std::move(fields));
}

Result<std::unique_ptr<Op>> FixedColor::parse_grayscale(Params& params) {
  const auto channels = static_cast<std::int32_t>(params.integer("num_output_channels", 1, 3, 1));
  if (channels == 2) params.reject("num_output_channels", "1 or 3");
  auto fields = params.strings_or_null("fields");
  TRY(params.finish());
  const ColorStep step{.kind = ColorStep::Kind::kGrayscale, .amount = channels};
  return std::make_unique<FixedColor>("grayscale", step, false, params.take_canonical(), std::move(fields));
}

Result<std::unique_ptr<Op>> FixedColor::parse_autocontrast(Params& params) {
  auto fields = params.strings_or_null("fields");
  TRY(params.finish());
  return std::make_unique<FixedColor>("autocontrast", ColorStep{.kind = ColorStep::Kind::kAutocontrast},
                                      false, params.take_canonical(), std::move(fields));
}

Result<std::unique_ptr<Op>> FixedColor::parse_equalize(Params& params) {
  auto fields = params.strings_or_null("fields");
  TRY(params.finish());
  return std::make_unique<FixedColor>("equalize", ColorStep{.kind = ColorStep::Kind::kEqualize}, true,
                                      params.take_canonical(), std::move(fields));
}

Result<std::unique_ptr<Op>> FixedColor::parse_adjust_sharpness(Params& params) {
  const double factor = params.number("sharpness_factor", 0.0, kFactorMax, std::nullopt);
  auto fields = params.strings_or_null("fields");
  TRY(params.finish());
  const ColorStep step{.kind = ColorStep::Kind::kSharpness, .factor = static_cast<float>(factor)};
  return std::make_unique<FixedColor>("adjust_sharpness", step, false, params.take_canonical(),
                                      std::move(fields));
}

}  // namespace carya::transforms
