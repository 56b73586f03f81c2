#include "transforms/ops/point.h"

#include <fmt/core.h>
#include <algorithm>
#include <cmath>

#include "transforms/kernels/store/half.h"

namespace carya::transforms {
namespace {

void move_channels(FieldState& field, Layout layout) {
  if (field.layout == layout || field.spec.shape.size() != 3) return;
  auto& shape = field.spec.shape;
  if (layout == Layout::kChw)
    shape = {shape[2], shape[0], shape[1]};
  else
    shape = {shape[1], shape[2], shape[0]};
  field.layout = layout;
}

std::int64_t channels_of(const FieldState& field) {
  if (field.spec.shape.empty()) return 1;
  if (field.spec.shape.size() == 3 && field.layout == Layout::kChw) return field.spec.shape.front();
  return field.spec.shape.back();
}

}  // namespace

PointOp::PointOp(std::string op_name, Json::Object canonical, std::optional<std::vector<std::string>> fields,
                 OpTraits traits)
    : Op(std::move(op_name), traits, std::move(canonical)), fields_(std::move(fields)) {}

Status PointOp::infer(std::vector<FieldState>& fields, std::vector<std::size_t>& indices) const {
  ASSIGN(indices, fields_or_main(name(), fields, fields_));
  for (const std::size_t i : indices) {
    if (fields[i].form == FieldState::Form::kEncoded)
      return refuse(fields[i], "decoded fields: put decode_image before");
    if (fields[i].form == FieldState::Form::kAudio || fields[i].form == FieldState::Form::kSpectrum)
      return refuse(fields[i], "images and arrays; audio has ops of its own");
    if (fields[i].form == FieldState::Form::kLabel) return refuse(fields[i], "images and arrays, no label");
    if (fields[i].form == FieldState::Form::kObjects)
      return refuse(fields[i], "images and arrays; boxes and what goes with them stay as they are");
    if (fields[i].form == FieldState::Form::kTensor && fields[i].spec.bytes() < 0)
      return refuse(fields[i], "images and arrays of one shape");
    TRY(infer_field(fields[i]));
    if (!traits().pixelwise) fields[i].values = true;
  }
  return {};
}

Status PointOp::check_floats(const FieldState& field, std::string_view parameter, std::size_t count) const {
  if (field.spec.dtype != DType::kFloat32) return refuse(field, "float32: put to_dtype(\"float32\") before");
  if (count == 1 || static_cast<std::int64_t>(count) == channels_of(field)) return {};
  return refuse(field, fmt::format("{} with one number or one for each of {} channels (given {})", parameter,
                                   channels_of(field), count));
}

Result<std::unique_ptr<Op>> Normalize::parse(Params& params) {
  constexpr std::string_view kWhat = "one number, or one per channel";
  auto mean = params.numbers("mean", 1, 4, -1e6, 1e6, kWhat);
  auto std = params.numbers("std", 1, 4, 1e-6, 1e6, kWhat);
  if (params.ok() && mean.size() != std.size() && mean.size() != 1 && std.size() != 1)
    params.reject("std", fmt::format("as many numbers as mean, {}, or one", mean.size()));
  const std::size_t layout = params.choice("layout", {"CHW", "HWC", "keep"});
  auto fields = params.strings_or_null("fields");
  TRY(params.finish());
  constexpr std::array<std::optional<Layout>, 3> kLayouts{Layout::kChw, Layout::kHwc, std::nullopt};
  return std::make_unique<Normalize>(params.take_canonical(), std::move(mean), std::move(std),
                                     kLayouts[layout], std::move(fields));
}

Normalize::Normalize(Json::Object canonical, std::vector<double> mean, std::vector<double> std,
                     std::optional<Layout> layout, std::optional<std::vector<std::string>> fields)
    : PointOp("normalize", std::move(canonical), std::move(fields)),
      mean_(std::move(mean)),
      std_(std::move(std)),
      layout_(layout) {}

Status Normalize::infer_field(FieldState& field) const {
  if (field.spec.dtype != DType::kUint8 && field.spec.dtype != DType::kFloat32)
    return refuse(field, "uint8 or float32");
  const std::size_t count = std::max(mean_.size(), std_.size());
  if (count > 1 && static_cast<std::int64_t>(count) != channels_of(field))
    return refuse(field, fmt::format("mean and std with one number or one for each of {} channels (given {})",
                                     channels_of(field), count));
  if (layout_ && field.spec.shape.size() != 3) return refuse(field, "three dimensions, or layout=\"keep\"");
  if (layout_) move_channels(field, *layout_);
  field.spec.dtype = DType::kFloat32;
  return {};
}

PointStep Normalize::step(const FieldState& in) const {
  PointStep step{.math = PointStep::Math::kAffine, .from = in.spec.dtype, .to = DType::kFloat32};
  const double unit = in.spec.dtype == DType::kUint8 ? 255.0 : 1.0;
  const std::size_t count = std::max(mean_.size(), std_.size());
  for (std::size_t c = 0; c < count; ++c) {
    const double mean = mean_[std::min(c, mean_.size() - 1)];
    const double std = std_[std::min(c, std_.size() - 1)];
    step.a.push_back(normal_factor(std, unit));
    step.b.push_back(normal_offset(mean, std));
  }
  step.layout_in = in.layout;
  step.layout_out = layout_.value_or(in.layout);
  return step;
}

Result<std::unique_ptr<Op>> ToDtype::parse(Params& params) {
  constexpr std::array kTypes{DType::kFloat32, DType::kUint8, DType::kInt64, DType::kFloat16,
                              DType::kBfloat16};
  const DType dtype = kTypes[params.choice("dtype", {"float32", "uint8", "int64", "float16", "bfloat16"})];
  const bool scale = params.boolean("scale", false);
  if (params.ok() && scale && (dtype == DType::kInt64 || is_half(dtype)))
    params.reject("scale", fmt::format("False when dtype is {}", dtype_name(dtype)));
  auto fields = params.strings_or_null("fields");
  TRY(params.finish());
  return std::make_unique<ToDtype>(params.take_canonical(), dtype, scale, std::move(fields));
}

ToDtype::ToDtype(Json::Object canonical, DType dtype, bool scale,
                 std::optional<std::vector<std::string>> fields)
    : PointOp("to_dtype", std::move(canonical), std::move(fields),
              OpTraits{.kind = OpKind::kPoint,
                       .pixelwise = dtype == DType::kFloat32,
                       .keeps_black = dtype == DType::kFloat32,
                       .takes_floats = dtype == DType::kFloat32 && scale,
                       .point = PointRule::kCast,
                       .assumed_cost = kStoreCost}),
      dtype_(dtype),
      scale_(scale) {}

Status ToDtype::infer_field(FieldState& field) const {
  const bool from_float = field.spec.dtype == DType::kFloat32;
  if (field.spec.dtype != DType::kUint8 && !from_float) return refuse(field, "uint8 or float32");
  if (is_half(dtype_) && !from_float)
    return refuse(field,
                  fmt::format("float32 (for dtype=\"{}\"): put to_dtype(\"float32\") or normalize before",
                              dtype_name(dtype_)));
  if (dtype_ == DType::kInt64 && from_float) return refuse(field, "uint8 (for dtype=\"int64\")");
  if (!from_float) field.unit = dtype_ == DType::kFloat32 && scale_;
  field.spec.dtype = dtype_;
  return {};
}

PointStep ToDtype::step(const FieldState& in) const {
  PointStep step{.from = in.spec.dtype, .to = dtype_, .layout_in = in.layout, .layout_out = in.layout};
  if (in.spec.dtype == dtype_) return step;
  if (in.spec.dtype == DType::kUint8 &&
      dtype_ == DType::kFloat32) {  // a cast is a normalize by 1 / 255, or by 1
    step.math = PointStep::Math::kAffine;
    step.a = {scale_ ? static_cast<float>(1.0 / 255.0) : 1.0F};
    step.b = {0.0F};
    return step;
  }
  step.math = PointStep::Math::kCast;
  step.scale = scale_;
  return step;
}

Result<std::unique_ptr<Op>> ToLayout::parse(Params& params) {
  const Layout layout = params.choice("layout", {"CHW", "HWC"}, true) == 0 ? Layout::kChw : Layout::kHwc;
  auto fields = params.strings_or_null("fields");
  TRY(params.finish());
  return std::make_unique<ToLayout>(params.take_canonical(), layout, std::move(fields));
}

ToLayout::ToLayout(Json::Object canonical, Layout layout, std::optional<std::vector<std::string>> fields)
    : PointOp("to_layout", std::move(canonical), std::move(fields),
              OpTraits{.kind = OpKind::kPoint, .point = PointRule::kLayout, .assumed_cost = kStoreCost}),
      layout_(layout) {}

Status ToLayout::infer_field(FieldState& field) const {
  if (field.spec.shape.size() != 3) return refuse(field, "three dimensions");
  move_channels(field, layout_);
  return {};
}

PointStep ToLayout::step(const FieldState& in) const {
  return {.from = in.spec.dtype, .to = in.spec.dtype, .layout_in = in.layout, .layout_out = layout_};
}

Result<std::unique_ptr<Op>> SubtractMean::parse(Params& params) {
  auto mean = params.numbers("mean", 1, 4, -1e6, 1e6, "one number, or one per channel");
  auto fields = params.strings_or_null("fields");
  TRY(params.finish());
  return std::make_unique<SubtractMean>(params.take_canonical(), std::move(mean), std::move(fields));
}

SubtractMean::SubtractMean(Json::Object canonical, std::vector<double> mean,
                           std::optional<std::vector<std::string>> fields)
    : PointOp("subtract_mean", std::move(canonical), std::move(fields)), mean_(std::move(mean)) {}

Status SubtractMean::infer_field(FieldState& field) const {
  return check_floats(field, "mean", mean_.size());
}

PointStep SubtractMean::step(const FieldState& in) const {
  PointStep step{.math = PointStep::Math::kAffine, .from = DType::kFloat32, .to = DType::kFloat32};
  for (const double mean : mean_) {
    step.a.push_back(1.0F);
    step.b.push_back(static_cast<float>(-mean));
  }
  step.layout_in = step.layout_out = in.layout;
  return step;
}

Result<std::unique_ptr<Op>> Scale::parse(Params& params) {
  auto factor = params.numbers("factor", 1, 4, -1e6, 1e6, "one number, or one per channel");
  auto fields = params.strings_or_null("fields");
  TRY(params.finish());
  return std::make_unique<Scale>(params.take_canonical(), std::move(factor), std::move(fields));
}

Scale::Scale(Json::Object canonical, std::vector<double> factor,
             std::optional<std::vector<std::string>> fields)
    : PointOp("scale", std::move(canonical), std::move(fields)), factor_(std::move(factor)) {}

Status Scale::infer_field(FieldState& field) const {
  return check_floats(field, "factor", factor_.size());
}

PointStep Scale::step(const FieldState& in) const {
  PointStep step{.math = PointStep::Math::kAffine, .from = DType::kFloat32, .to = DType::kFloat32};
  for (const double factor : factor_) {
    step.a.push_back(static_cast<float>(factor));
    step.b.push_back(-0.0F);  // adding it leaves every number as it is, -0 too
  }
  step.layout_in = step.layout_out = in.layout;
  return step;
}

}  // namespace carya::transforms
