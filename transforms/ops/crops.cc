#include "transforms/ops/crops.h"

#include <fmt/core.h>
#include <algorithm>
#include <cmath>

#include "base/det_math.h"
#include "transforms/ops/resize.h"

namespace carya::transforms {
namespace {

constexpr OpTraits kCenterWindow{.kind = OpKind::kGeometric,
                                 .pixels = Pixels::kOrBlack,
                                 .waits = true,
                                 .is_window = true,
                                 .beyond = Beyond::kBlack,
                                 .assumed_cost = kNoteCost};
constexpr OpTraits kFixedWindow{.kind = OpKind::kGeometric,
                                .pixels = Pixels::kOrBlack,
                                .waits = true,
                                .is_window = true,
                                .beyond = Beyond::kBlack,
                                .in_pixels = true,
                                .assumed_cost = kNoteCost};

// Whether a random crop may show what lies outside of the image.
bool reaches_outside(const Padding& padding, bool pad_if_needed) {
  return pad_if_needed || padding.ltrb != decltype(padding.ltrb){};
}

void add_window(StepList& steps, ImageSize in, std::int64_t top, std::int64_t left, ImageSize size) {
  if (top == 0 && left == 0 && size == in) return;
  Step& step = steps.add(Step::Kind::kWindow, size);
  step.top = top;
  step.left = left;
}

// Of a square picture; where a large window does not fit at its ratio, a smaller one is drawn instead.
constexpr double kFits = 0.8;

// Intersection over union; 0 if neither has an area.
float overlap_of(const Box& one, const Box& other) {
  const float width = std::min(one.right, other.right) - std::max(one.left, other.left);
  const float height = std::min(one.bottom, other.bottom) - std::max(one.top, other.top);
  const float shared = std::max(width, 0.0F) * std::max(height, 0.0F);
  const float all = (one.right - one.left) * (one.bottom - one.top) +
                    (other.right - other.left) * (other.bottom - other.top) - shared;
  return all > 0 ? shared / all : 0.0F;
}

// Half of an odd difference goes to the even side, as Python's round() does in the reference.
std::int64_t half_to_even(std::int64_t difference) {
  return static_cast<std::int64_t>(std::rint(static_cast<double>(difference) / 2.0));
}

}  // namespace

RandomPart::Ranges RandomPart::Ranges::read(Params& params) {
  return {params.range("scale", 1e-6, 1.0, {0.08, 1.0}),
          params.range("ratio", 1e-3, 1e3, {3.0 / 4.0, 4.0 / 3.0})};
}

RandomPart::RandomPart(const Ranges& ranges)
    : ranges_(ranges), log_ratio_{det_log(ranges.ratio[0]), det_log(ranges.ratio[1])} {}

double RandomPart::reads() const {
  return kFits * (ranges_.scale[0] + ranges_.scale[1]) / 2;
}

ImageSize RandomPart::draw(SampleRng& rng, ImageSize in, StepList& steps) const {
  const double area = static_cast<double>(in.height) * static_cast<double>(in.width);
  ImageSize window{0, 0};
  std::int64_t top = 0;
  std::int64_t left = 0;
  for (int attempt = 0; attempt < 10; ++attempt) {
    const double target = area * rng.next_between(ranges_.scale[0], ranges_.scale[1]);
    const double aspect = det_exp(rng.next_between(log_ratio_[0], log_ratio_[1]));
    const double width = std::rint(std::sqrt(target * aspect));
    const double height = std::rint(std::sqrt(target / aspect));
    if (width < 1 || height < 1 || width > static_cast<double>(in.width) ||
        height > static_cast<double>(in.height))
      continue;
    window = {static_cast<std::int64_t>(height), static_cast<std::int64_t>(width)};
    top =
        static_cast<std::int64_t>(rng.next_below(static_cast<std::uint64_t>(in.height - window.height + 1)));
    left = static_cast<std::int64_t>(rng.next_below(static_cast<std::uint64_t>(in.width - window.width + 1)));
    break;
  }
  if (window.height == 0) {  // the centre, cut to the nearest allowed ratio
    window = in;
    const double in_ratio = static_cast<double>(in.width) / static_cast<double>(in.height);
    if (in_ratio < ranges_.ratio[0])
      window.height = static_cast<std::int64_t>(std::rint(static_cast<double>(in.width) / ranges_.ratio[0]));
    else if (in_ratio > ranges_.ratio[1])
      window.width = static_cast<std::int64_t>(std::rint(static_cast<double>(in.height) * ranges_.ratio[1]));
    window.height = std::clamp<std::int64_t>(window.height, 1, in.height);
    window.width = std::clamp<std::int64_t>(window.width, 1, in.width);
    top = (in.height - window.height) / 2;
    left = (in.width - window.width) / 2;
  }
  add_window(steps, in, top, left, window);
  return window;
}

Result<std::unique_ptr<Op>> RandomResizedCrop::parse(Params& params) {
  const ImageSize size = read_size(params, "size");
  const auto ranges = RandomPart::Ranges::read(params);
  const Step resize = read_resize(params);
  TRY(params.finish());
  return std::make_unique<RandomResizedCrop>(params.take_canonical(), size, RandomPart(ranges), resize);
}

RandomResizedCrop::RandomResizedCrop(Json::Object canonical, ImageSize size, const RandomPart& part,
                                     Step resize)
    : GeometricOp("random_resized_crop",
                  OpTraits{.kind = OpKind::kGeometric,
                           .random = true,
                           .is_window = true,
                           .is_resize = true,
                           .rescales = true,
                           .reads = part.reads(),
                           .overshoots = overshoots(resize.interpolation),
                           .assumed_cost = kResizeCost},
                  std::move(canonical)),
      size_(size),
      part_(part),
      resize_(resize) {
  resize_.height = size.height;
  resize_.width = size.width;
}

Result<ImageSize> RandomResizedCrop::infer_size(ImageSize) const {
  return size_;
}

Status RandomResizedCrop::resolve(SampleRng& rng, ImageSize in, StepList& steps) const {
  const ImageSize window = part_.draw(rng, in, steps);
  add_resize(steps, window, resize_);
  return {};
}

Result<std::unique_ptr<Op>> RandomSizedCrop::parse(Params& params) {
  const auto ranges = RandomPart::Ranges::read(params);
  TRY(params.finish());
  return std::make_unique<RandomSizedCrop>(params.take_canonical(), RandomPart(ranges));
}

RandomSizedCrop::RandomSizedCrop(Json::Object canonical, const RandomPart& part)
    : GeometricOp("random_sized_crop",
                  OpTraits{.kind = OpKind::kGeometric,
                           .random = true,
                           .pixels = Pixels::kCopied,
                           .waits = true,
                           .is_window = true,
                           .reads = part.reads(),
                           .assumed_cost = kNoteCost},
                  std::move(canonical)),
      part_(part) {}

Status RandomSizedCrop::resolve(SampleRng& rng, ImageSize in, StepList& steps) const {
  part_.draw(rng, in, steps);
  return {};
}

Result<std::unique_ptr<Op>> RandomCrop::parse(Params& params) {
  const ImageSize size = read_size(params, "size");
  Padding padding = Padding::read(params, true);
  const bool pad_if_needed = params.boolean("pad_if_needed", false);
  padding.read_filling(params);
  TRY(params.finish());
  return std::make_unique<RandomCrop>(params.take_canonical(), size, std::move(padding), pad_if_needed);
}

RandomCrop::RandomCrop(Json::Object canonical, ImageSize size, Padding padding, bool pad_if_needed)
    : GeometricOp("random_crop",
                  OpTraits{.kind = OpKind::kGeometric,
                           .random = true,
                           .pixels = padding.pixels(reaches_outside(padding, pad_if_needed)),
                           .waits = true,
                           .is_window = true,
                           .beyond = padding.beyond(reaches_outside(padding, pad_if_needed)),
                           .assumed_cost = kNoteCost},
                  std::move(canonical)),
      size_(size),
      padding_(std::move(padding)),
      pad_if_needed_(pad_if_needed) {}

Status RandomCrop::check_fits(ImageSize in, Code code) const {
  if (pad_if_needed_) return {};
  const bool fits_rows = in.height < 0 || in.height + padding_.ltrb[1] + padding_.ltrb[3] >= size_.height;
  const bool fits_columns = in.width < 0 || in.width + padding_.ltrb[0] + padding_.ltrb[2] >= size_.width;
  if (fits_rows && fits_columns) return {};
  return fail(code,
              name() + ": size: got " + size_text(size_) + " for an image of " + size_text(in) +
                  " (width x height, before padding); give at most the padded image, or pad_if_needed=True");
}

Result<ImageSize> RandomCrop::infer_size(ImageSize in) const {
  TRY(check_fits(in, Code::kInvalidArgument));
  TRY(padding_.check_room(name(), in, padding_.ltrb[1], padding_.ltrb[0], padding_.ltrb[3], padding_.ltrb[2],
                          Code::kInvalidArgument));
  return size_;
}

Status RandomCrop::resolve(SampleRng& rng, ImageSize in, StepList& steps) const {
  TRY(check_fits(in, Code::kCorrupt));
  std::array<std::int64_t, 4> pad = padding_.ltrb;
  if (pad_if_needed_) {  // what lacks is added on both sides, as the reference does
    const std::int64_t lacks_width = std::max<std::int64_t>(0, size_.width - (in.width + pad[0] + pad[2]));
    const std::int64_t lacks_height = std::max<std::int64_t>(0, size_.height - (in.height + pad[1] + pad[3]));
    pad = {pad[0] + lacks_width, pad[1] + lacks_height, pad[2] + lacks_width, pad[3] + lacks_height};
  }
  TRY(padding_.check_room(name(), in, pad[1], pad[0], pad[3], pad[2], Code::kCorrupt));
  const std::int64_t spare_rows = in.height + pad[1] + pad[3] - size_.height;
  const std::int64_t spare_columns = in.width + pad[0] + pad[2] - size_.width;
  std::int64_t top = 0;
  std::int64_t left = 0;
  if (spare_rows > 0)
    top = static_cast<std::int64_t>(rng.next_below(static_cast<std::uint64_t>(spare_rows + 1)));
  if (spare_columns > 0)
    left = static_cast<std::int64_t>(rng.next_below(static_cast<std::uint64_t>(spare_columns + 1)));
  const std::size_t before = steps.count;
  add_window(steps, in, top - pad[1], left - pad[0], size_);
  if (steps.count > before) {
    steps.steps[before].padding_mode = padding_.mode;
    padding_.fill.put_into(steps.steps[before]);
  }
  return {};
}

Result<std::unique_ptr<Op>> CenterCrop::parse(Params& params) {
  const ImageSize size = read_size(params, "size");
  TRY(params.finish());
  return std::make_unique<CenterCrop>(params.take_canonical(), size);
}

CenterCrop::CenterCrop(Json::Object canonical, ImageSize size)
    : GeometricOp("center_crop", kCenterWindow, std::move(canonical)), size_(size) {}

Status CenterCrop::resolve(SampleRng&, ImageSize in, StepList& steps) const {
  // The reference pads first (the smaller half before), then takes the middle of what it has.
  const auto start = [](std::int64_t have, std::int64_t want) {
    return want > have ? -((want - have) / 2) : half_to_even(have - want);
  };
  add_window(steps, in, start(in.height, size_.height), start(in.width, size_.width), size_);
  return {};
}

Result<std::unique_ptr<Op>> Crop::parse(Params& params) {
  constexpr std::int64_t kPlaceMax = 1 << 20;
  const std::int64_t top = params.integer("top", -kPlaceMax, kPlaceMax);
  const std::int64_t left = params.integer("left", -kPlaceMax, kPlaceMax);
  const std::int64_t height = params.integer("height", 1, kSideMax);
  const std::int64_t width = params.integer("width", 1, kSideMax);
  if (params.ok() && height * width > kPixelsMax)
    params.reject("height", fmt::format("at most {} pixels with this width", kPixelsMax));
  TRY(params.finish());
  return std::make_unique<Crop>(params.take_canonical(), top, left, ImageSize{height, width});
}

Crop::Crop(Json::Object canonical, std::int64_t top, std::int64_t left, ImageSize size)
    : GeometricOp("crop", kFixedWindow, std::move(canonical)), top_(top), left_(left), size_(size) {}

Status Crop::resolve(SampleRng&, ImageSize in, StepList& steps) const {
  add_window(steps, in, top_, left_, size_);
  return {};
}

Result<std::unique_ptr<Op>> RandomIouCrop::parse(Params& params) {
  Options options;
  options.scale = params.range("scale", 1e-3, 1.0, {0.3, 1.0});
  options.ratio = params.range("ratio", 1e-3, 1e3, {0.5, 2.0});
  options.overlaps = params.numbers("overlaps", 1, 64, 0.0, 1e3, "1 to 64 numbers from 0",
                                    std::vector<double>{0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0});
  options.trials = params.integer("trials", 1, 1'000, 40);
  TRY(params.finish());
  return std::make_unique<RandomIouCrop>(params.take_canonical(), std::move(options));
}

RandomIouCrop::RandomIouCrop(Json::Object canonical, Options options)
    : GeometricOp("random_iou_crop",
                  OpTraits{.kind = OpKind::kGeometric,
                           .random = true,
                           .pixels = Pixels::kCopied,
                           .waits = true,
                           .reads = 0.6,
                           .in_pixels = true,
                           .assumed_cost = {.fixed_ns = 2'000}},
                  std::move(canonical)),
      options_(std::move(options)) {}

Status RandomIouCrop::check_fields(const std::vector<FieldState>& fields) const {
  for (const FieldState& field : fields)
    if (field.form == FieldState::Form::kObjects) return {};
  return fail(Code::kInvalidArgument,
              name() + ": no boxes among " + field_names(fields) + "; put boxes(...) before");
}

Status RandomIouCrop::resolve(SampleRng&, ImageSize, StepList&) const {
  return {};
}

// A window of whole pixels; empty where it is too small or its sides are not within the ratios.
Box RandomIouCrop::draw(SampleRng& rng, ImageSize in) const {
  const auto part = [&](std::int64_t side) {
    return std::floor(static_cast<double>(side) * rng.next_between(options_.scale[0], options_.scale[1]));
  };
  const double width = part(in.width), height = part(in.height);
  const double spare_columns = static_cast<double>(in.width) - width;
  const double spare_rows = static_cast<double>(in.height) - height;
  const double left = std::floor(spare_columns * rng.next_double());
  const double top = std::floor(spare_rows * rng.next_double());
  const bool fits =
      width >= 1 && height >= 1 && width / height >= options_.ratio[0] && width / height <= options_.ratio[1];
  if (!fits) return {};
  return {static_cast<float>(left), static_cast<float>(top), static_cast<float>(left + width),
          static_cast<float>(top + height)};
}

Status RandomIouCrop::resolve_with(SampleRng& rng, ImageSize in, Objects& objects, StepList& steps) const {
  for (int option = 0; objects.count() > 0 && option < kOptionsMax; ++option) {
    const double overlap = options_.overlaps[rng.next_below(options_.overlaps.size())];
    if (overlap >= 1.0) return {};
    for (std::int64_t trial = 0; trial < options_.trials; ++trial) {
      const Box window = draw(rng, in);
      const auto inside = [&](const Box& box) {
        const float x = 0.5F * (box.left + box.right), y = 0.5F * (box.top + box.bottom);
        return window.left < x && x < window.right && window.top < y && y < window.bottom;
      };
      const bool found = std::ranges::any_of(objects.boxes(), [&](const Box& box) {
        return inside(box) && static_cast<double>(overlap_of(box, window)) >= overlap;
      });
      if (!found) continue;
      objects.keep_if(inside);
      add_window(steps, in, static_cast<std::int64_t>(window.top), static_cast<std::int64_t>(window.left),
                 {static_cast<std::int64_t>(window.bottom - window.top),
                  static_cast<std::int64_t>(window.right - window.left)});
      return {};
    }
  }
  return {};
}

}  // namespace carya::transforms
