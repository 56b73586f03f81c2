#include "transforms/ops/resize.h"

#include <fmt/core.h>
#include <algorithm>
#include <cmath>

#include "transforms/ops/crops.h"

namespace carya::transforms {

Step read_resize(Params& params) {
  Step step{.kind = Step::Kind::kResize};
  const std::initializer_list<std::string_view> kNames{"bilinear", "nearest", "bicubic", "lanczos"};
  constexpr std::array kValues{Interpolation::kBilinear, Interpolation::kNearest, Interpolation::kBicubic,
                               Interpolation::kLanczos};
  step.interpolation = kValues[params.choice("interpolation", kNames)];
  step.antialias = params.boolean("antialias", true);
  const auto extra = params.choice_or_null("extra_interpolation", kNames);
  step.extra_interpolation = extra ? kValues[*extra] : step.interpolation;
  const bool lanczos =
      step.interpolation == Interpolation::kLanczos || step.extra_interpolation == Interpolation::kLanczos;
  if (params.ok() && lanczos && !step.antialias) params.reject("antialias", "True with \"lanczos\"");
  return step;
}

void add_resize(StepList& steps, ImageSize in, const Step& resize) {
  const ImageSize size{resize.height, resize.width};
  if (size == in) return;
  steps.add(Step::Kind::kResize, size) = resize;
}

Result<std::unique_ptr<Op>> Resize::parse(Params& params) {
  const std::vector<std::int64_t> given =
      params.integers("size", 1, 2, 1, kSideMax, "[shorter side] or [height, width]");
  const ImageSize size{given[0], given.size() == 2 ? given[1] : 0};
  if (size.height * size.width > kPixelsMax)
    params.reject("size", fmt::format("at most {} pixels", kPixelsMax));
  const Step interpolation = read_resize(params);
  const auto max_size = params.integer_or_null("max_size", 1, kSideMax);
  if (params.ok() && max_size && size.width > 0)
    params.reject("max_size", "None when size is [height, width]");
  if (params.ok() && max_size && *max_size <= size.height)
    params.reject("max_size", fmt::format("more than the shorter side, {}", size.height));
  TRY(params.finish());
  return std::make_unique<Resize>(params.take_canonical(), size, max_size, interpolation);
}

Resize::Resize(Json::Object canonical, ImageSize size, std::optional<std::int64_t> max_size, Step resize)
    : GeometricOp("resize",
                  OpTraits{.kind = OpKind::kGeometric,
                           .is_resize = true,
                           .rescales = true,
                           .overshoots = overshoots(resize.interpolation),
                           .assumed_cost = kResizeCost},
                  std::move(canonical)),
      size_(size),
      max_size_(max_size),
      resize_(resize) {}

ImageSize Resize::target(ImageSize in) const {
  if (size_.width > 0) return size_;
  const bool upright = in.width <= in.height;
  const std::int64_t short_in = upright ? in.width : in.height;
  const std::int64_t long_in = upright ? in.height : in.width;
  std::int64_t short_out = size_.height;
  std::int64_t long_out = short_out * long_in / short_in;
  if (max_size_ && long_out > *max_size_) {
    short_out = std::max<std::int64_t>(1, *max_size_ * short_out / long_out);
    long_out = *max_size_;
  }
  return upright ? ImageSize{long_out, short_out} : ImageSize{short_out, long_out};
}

Result<ImageSize> Resize::infer_size(ImageSize in) const {
  if (size_.width > 0) return size_;
  if (in.height < 0 || in.width < 0) return ImageSize{};
  return target(in);
}

Status Resize::resolve(SampleRng&, ImageSize in, StepList& steps) const {
  Step step = resize_;
  const ImageSize size = target(in);
  if (size.height > kPixelsMax / size.width)
    return fail(
        Code::kCorrupt,
        fmt::format("resize: an image of {} becomes {}; give a smaller size or max_size=: at most {} pixels",
                    size_text(in), size_text(size), kPixelsMax));
  step.height = size.height;
  step.width = size.width;
  add_resize(steps, in, step);
  return {};
}

namespace {

OpTraits resize_traits(const Step& resize) {
  return {.kind = OpKind::kGeometric,
          .random = true,
          .is_resize = true,
          .rescales = true,
          .overshoots = overshoots(resize.interpolation),
          .in_pixels = true,
          .assumed_cost = kResizeCost};
}

// Both sides times `factor`, cut off to whole pixels.
Status add_scaled(std::string_view op_name, ImageSize in, double factor, Step resize, StepList& steps) {
  const auto scaled = [&](std::int64_t side) {
    return std::max<std::int64_t>(1,
                                  static_cast<std::int64_t>(std::floor(static_cast<double>(side) * factor)));
  };
  resize.height = scaled(in.height);
  resize.width = scaled(in.width);
  if (resize.height > kPixelsMax / resize.width)
    return fail(Code::kCorrupt,
                fmt::format("{}: an image of {} becomes {}; give a smaller size: at most {} pixels", op_name,
                            size_text(in), size_text({resize.height, resize.width}), kPixelsMax));
  add_resize(steps, in, resize);
  return {};
}

}  // namespace

Result<std::unique_ptr<Op>> RandomShortestSize::parse(Params& params) {
  auto min_size = params.integers("min_size", 1, 64, 1, kSideMax, "1 to 64 lengths of the shorter side");
  const auto max_size = params.integer_or_null("max_size", 1, kSideMax);
  const Step resize = read_resize(params);
  TRY(params.finish());
  return std::make_unique<RandomShortestSize>(params.take_canonical(), std::move(min_size), max_size, resize);
}

RandomShortestSize::RandomShortestSize(Json::Object canonical, std::vector<std::int64_t> min_size,
                                       std::optional<std::int64_t> max_size, Step resize)
    : GeometricOp("random_shortest_size", resize_traits(resize), std::move(canonical)),
      min_size_(std::move(min_size)),
      max_size_(max_size),
      resize_(resize) {}

Status RandomShortestSize::resolve(SampleRng& rng, ImageSize in, StepList& steps) const {
  const std::int64_t wanted = min_size_[rng.next_below(min_size_.size())];
  double factor = static_cast<double>(wanted) / static_cast<double>(std::min(in.height, in.width));
  if (max_size_)
    factor = std::min(factor,
                      static_cast<double>(*max_size_) / static_cast<double>(std::max(in.height, in.width)));
  return add_scaled(name(), in, factor, resize_, steps);
}

Result<std::unique_ptr<Op>> ScaleJitter::parse(Params& params) {
  const ImageSize target = read_size(params, "target_size");
  const auto scale_range = params.range("scale_range", 1e-3, 1e3, {0.1, 2.0});
  const Step resize = read_resize(params);
  TRY(params.finish());
  return std::make_unique<ScaleJitter>(params.take_canonical(), target, scale_range, resize);
}

ScaleJitter::ScaleJitter(Json::Object canonical, ImageSize target, std::array<double, 2> scale_range,
                         Step resize)
    : GeometricOp("scale_jitter", resize_traits(resize), std::move(canonical)),
      target_(target),
      scale_range_(scale_range),
      resize_(resize) {}

Status ScaleJitter::resolve(SampleRng& rng, ImageSize in, StepList& steps) const {
  const double share = rng.next_between(scale_range_[0], scale_range_[1]);
  const double fits = std::min(static_cast<double>(target_.height) / static_cast<double>(in.height),
                               static_cast<double>(target_.width) / static_cast<double>(in.width));
  return add_scaled(name(), in, fits * share, resize_, steps);
}

}  // namespace carya::transforms
