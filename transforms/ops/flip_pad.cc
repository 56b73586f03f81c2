#include "transforms/ops/flip_pad.h"

#include <fmt/core.h>
#include <algorithm>
#include <cmath>

namespace carya::transforms {
namespace {

// Half of the images are mirrored. A resize or a warp behind a flip cannot mirror on its way, so that the flip is a
// pass of its own.
constexpr AssumedCost kFlipCost{.fixed_ns = 50, .per_byte_in_ns = 0.05};

}  // namespace

Result<std::unique_ptr<Op>> RandomFlip::parse_horizontal(Params& params) {
  const double p = params.number("p", 0.0, 1.0, 0.5);
  TRY(params.finish());
  return std::make_unique<RandomFlip>(params.take_canonical(), p, true);
}

Result<std::unique_ptr<Op>> RandomFlip::parse_vertical(Params& params) {
  const double p = params.number("p", 0.0, 1.0, 0.5);
  TRY(params.finish());
  return std::make_unique<RandomFlip>(params.take_canonical(), p, false);
}

RandomFlip::RandomFlip(Json::Object canonical, double p, bool horizontal)
    : GeometricOp(horizontal ? "random_horizontal_flip" : "random_vertical_flip",
                  OpTraits{.kind = OpKind::kGeometric,
                           .random = true,
                           .pixels = Pixels::kCopied,
                           .waits = true,
                           .is_flip = true,
                           .assumed_cost = kFlipCost},
                  std::move(canonical)),
      p_(p),
      horizontal_(horizontal) {}

Status RandomFlip::resolve(SampleRng& rng, ImageSize in, StepList& steps) const {
  if (rng.next_double() >= p_) return {};
  Step& step = steps.add(Step::Kind::kFlip, in);
  step.flip_horizontal = horizontal_;
  step.flip_vertical = !horizontal_;
  return {};
}

Result<std::unique_ptr<Op>> Pad::parse(Params& params) {
  Padding padding = Padding::read(params, false);
  padding.read_filling(params);
  TRY(params.finish());
  return std::make_unique<Pad>(params.take_canonical(), std::move(padding));
}

Pad::Pad(Json::Object canonical, Padding padding)
    : GeometricOp("pad",
                  OpTraits{.kind = OpKind::kGeometric,
                           .pixels = padding.pixels(true),
                           .waits = true,
                           .beyond = padding.beyond(true),
                           .in_pixels = true,
                           .assumed_cost = kNoteCost},
                  std::move(canonical)),
      padding_(std::move(padding)) {}

Result<ImageSize> Pad::infer_size(ImageSize in) const {
  const auto& [left, top, right, bottom] = padding_.ltrb;
  TRY(padding_.check_room(name(), in, top, left, bottom, right, Code::kInvalidArgument));
  const ImageSize out{in.height < 0 ? -1 : in.height + top + bottom,
                      in.width < 0 ? -1 : in.width + left + right};
  if (out.height > 0 && out.width > 0 && out.height > kPixelsMax / out.width)
    return fail(
        Code::kInvalidArgument,
        fmt::format("pad: the result is {}; give padding for at most {} pixels", size_text(out), kPixelsMax));
  return out;
}

Status Pad::resolve(SampleRng&, ImageSize in, StepList& steps) const {
  const auto& [left, top, right, bottom] = padding_.ltrb;
  TRY(padding_.check_room(name(), in, top, left, bottom, right, Code::kCorrupt));
  const ImageSize out{in.height + top + bottom, in.width + left + right};
  if (out.height > kPixelsMax / out.width)
    return fail(Code::kCorrupt,
                fmt::format("pad: an image of {} becomes {}; give padding for at most {} pixels",
                            size_text(in), size_text(out), kPixelsMax));
  if (out == in) return {};
  Step& step = steps.add(Step::Kind::kWindow, out);
  step.top = -top;
  step.left = -left;
  step.padding_mode = padding_.mode;
  padding_.fill.put_into(step);
  return {};
}

Result<std::unique_ptr<Op>> RandomZoomOut::parse(Params& params) {
  Fill fill = Fill::read(params);
  const auto side_range = params.range("side_range", 1.0, 64.0, {1.0, 4.0});
  const double p = params.number("p", 0.0, 1.0, 0.5);
  TRY(params.finish());
  return std::make_unique<RandomZoomOut>(params.take_canonical(), std::move(fill), side_range, p);
}

RandomZoomOut::RandomZoomOut(Json::Object canonical, Fill fill, std::array<double, 2> side_range, double p)
    : GeometricOp("random_zoom_out",
                  OpTraits{.kind = OpKind::kGeometric,
                           .random = true,
                           .pixels = fill.beyond() == Beyond::kBlack ? Pixels::kOrBlack : Pixels::kComputed,
                           .waits = true,
                           .beyond = fill.beyond(),
                           .in_pixels = true,
                           .assumed_cost = kNoteCost},
                  std::move(canonical)),
      fill_(std::move(fill)),
      side_range_(side_range),
      p_(p) {}

Status RandomZoomOut::resolve(SampleRng& rng, ImageSize in, StepList& steps) const {
  const bool zooms = rng.next_double() < p_;
  if (!zooms) return {};
  const double factor = rng.next_between(side_range_[0], side_range_[1]);
  const auto grown = [&](std::int64_t side) {
    return std::max(side, static_cast<std::int64_t>(std::floor(static_cast<double>(side) * factor)));
  };
  const ImageSize out{grown(in.height), grown(in.width)};
  const double along_x = rng.next_double(), along_y = rng.next_double();
  if (out.height > kPixelsMax / out.width)
    return fail(
        Code::kCorrupt,
        fmt::format("random_zoom_out: an image of {} becomes {}; give side_range for at most {} pixels",
                    size_text(in), size_text(out), kPixelsMax));
  if (out == in) return {};
  Step& step = steps.add(Step::Kind::kWindow, out);
  step.left = -static_cast<std::int64_t>(std::floor(static_cast<double>(out.width - in.width) * along_x));
  step.top = -static_cast<std::int64_t>(std::floor(static_cast<double>(out.height - in.height) * along_y));
  step.padding_mode = PaddingMode::kConstant;
  fill_.put_into(step);
  return {};
}

}  // namespace carya::transforms
