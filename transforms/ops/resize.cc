#include "transforms/ops/resize.h"

#include <fmt/core.h>
#include <algorithm>

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

}  // namespace carya::transforms
