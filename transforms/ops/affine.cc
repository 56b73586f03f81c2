#include "transforms/ops/affine.h"

#include <cmath>

namespace carya::transforms {
namespace {

// Bounds that keep places and their steps within what WarpGrid takes: a shear's tangent is below 58, so no
// step is above 58^2 / kScaleMin.
constexpr double kAngleMax = 36'000.0;
constexpr double kShearMax = 89.0;
constexpr double kScaleMin = 1e-3;
constexpr double kScaleMax = 1e3;
constexpr auto kCoordinateMax = static_cast<double>(kSideMax);

double uniform(SampleRng& rng, std::array<double, 2> range) {
  return rng.next_between(range[0], range[1]);
}

// Never -0, which would be written as another document.
double minus(double x) {
  return 0.0 - x;
}

void write_out(Params& params, std::string_view key, std::initializer_list<double> values) {
  Json::Array list;
  for (const double value : values) list.emplace_back(value);
  params.set_canonical(key, Json(std::move(list)));
}

// One number x is [-x, x]; written out.
std::array<double, 2> read_degrees(Params& params) {
  constexpr std::string_view kWhat = "one number from 0 or [low, high] with low <= high";
  const auto given = params.numbers("degrees", 1, 2, -kAngleMax, kAngleMax, kWhat);
  const std::array<double, 2> range{given.size() == 1 ? minus(given[0]) : given[0], given.back()};
  if (params.ok() && range[0] > range[1]) params.reject("degrees", kWhat);
  write_out(params, "degrees", {range[0], range[1]});
  return range;
}

void refuse_expand(Params& params) {
  if (params.boolean("expand", false))
    params.reject("expand", "False: the size stays (pad before it to keep the corners)");
}

// One number x is [-x, x] along x, two are its ends, four those of y too; written out.
void read_shears(Params& params, RandomAffine::Ranges& ranges) {
  constexpr std::string_view kWhat =
      "None, one number from 0, [low, high] or [low, high, low, high] with low <= high";
  const auto given = params.numbers_or_null("shear", 1, 4, -kShearMax, kShearMax, kWhat);
  if (!given || !params.ok()) return;
  const std::vector<double>& v = *given;
  ranges.shear_x = {v.size() == 1 ? minus(v[0]) : v[0], v.size() == 1 ? v[0] : v[1]};
  if (v.size() == 4) ranges.shear_y = {v[2], v[3]};
  if (v.size() == 3 || ranges.shear_x[0] > ranges.shear_x[1] || ranges.shear_y[0] > ranges.shear_y[1])
    params.reject("shear", kWhat);
  write_out(params, "shear", {ranges.shear_x[0], ranges.shear_x[1], ranges.shear_y[0], ranges.shear_y[1]});
}

std::array<double, 2> shift_range(double part, std::int64_t side) {
  const double most = part * static_cast<double>(side);
  return {-most, most};
}

}  // namespace

WarpOptions WarpOptions::read(Params& params) {
  const std::initializer_list<std::string_view> kNames{"nearest", "bilinear"};
  constexpr std::array kValues{Interpolation::kNearest, Interpolation::kBilinear};
  WarpOptions options;
  options.interpolation = kValues[params.choice("interpolation", kNames)];
  const auto extra = params.choice_or_null("extra_interpolation", kNames);
  options.extra_interpolation = extra ? kValues[*extra] : options.interpolation;
  if (const auto center =
          params.numbers_or_null("center", 2, 2, -kCoordinateMax, kCoordinateMax, "None or [x, y]"))
    options.center = {(*center)[0], (*center)[1]};
  options.fill = Fill::read(params);
  return options;
}

Pixels WarpOptions::pixels() const {
  const bool copies = interpolation == Interpolation::kNearest && extra_interpolation == interpolation;
  return copies && fill.beyond() == Beyond::kBlack ? Pixels::kOrBlack : Pixels::kComputed;
}

WarpOp::WarpOp(std::string op_name, Motion motion, Json::Object canonical, WarpOptions options)
    : GeometricOp(std::move(op_name),
                  OpTraits{.kind = OpKind::kGeometric,
                           .random = motion.random,
                           .pixels = options.pixels(),
                           .is_warp = true,
                           .beyond = options.fill.beyond(),
                           .rescales = motion.rescales,
                           .in_pixels = motion.in_pixels || options.center.has_value(),
                           .assumed_cost = {.fixed_ns = 1'000, .per_byte_out_ns = 0.7}},
                  std::move(canonical)),
      options_(std::move(options)) {}

std::array<double, 2> WarpOp::center(ImageSize in) const {
  return options_.center.value_or(
      std::array<double, 2>{static_cast<double>(in.width) * 0.5, static_cast<double>(in.height) * 0.5});
}

void WarpOp::add_warp(const std::array<double, 6>& matrix, ImageSize in, StepList& steps) const {
  if (matrix == std::array<double, 6>{1, 0, 0, 0, 1, 0}) return;
  Step& step = steps.add(Step::Kind::kWarp, in);
  step.matrix = matrix;
  step.interpolation = options_.interpolation;
  step.extra_interpolation = options_.extra_interpolation;
  options_.fill.put_into(step);
}

Result<std::unique_ptr<Op>> Rotate::parse(Params& params) {
  const double angle = params.number("angle", -kAngleMax, kAngleMax, std::nullopt);
  refuse_expand(params);
  WarpOptions options = WarpOptions::read(params);
  TRY(params.finish());
  return std::make_unique<Rotate>(params.take_canonical(), angle, std::move(options));
}

Rotate::Rotate(Json::Object canonical, double angle, WarpOptions options)
    : WarpOp("rotate", {}, std::move(canonical), std::move(options)), angle_(angle) {}

Status Rotate::resolve(SampleRng&, ImageSize in, StepList& steps) const {
  add_warp(rotation_matrix(angle_, center(in)), in, steps);
  return {};
}

Result<std::unique_ptr<Op>> RandomRotation::parse(Params& params) {
  const auto degrees = read_degrees(params);
  refuse_expand(params);
  WarpOptions options = WarpOptions::read(params);
  TRY(params.finish());
  return std::make_unique<RandomRotation>(params.take_canonical(), degrees, std::move(options));
}

RandomRotation::RandomRotation(Json::Object canonical, std::array<double, 2> degrees, WarpOptions options)
    : WarpOp("random_rotation", {.random = true}, std::move(canonical), std::move(options)),
      degrees_(degrees) {}

Status RandomRotation::resolve(SampleRng& rng, ImageSize in, StepList& steps) const {
  add_warp(rotation_matrix(uniform(rng, degrees_), center(in)), in, steps);
  return {};
}

Result<std::unique_ptr<Op>> AffineTransform::parse(Params& params) {
  AffineMove move;
  move.angle = params.number("angle", -kAngleMax, kAngleMax, std::nullopt);
  const auto translate =
      params.numbers("translate", 2, 2, -kCoordinateMax, kCoordinateMax, "[x, y] in pixels");
  move.translate = {translate[0], translate[1]};
  move.scale = params.number("scale", kScaleMin, kScaleMax, std::nullopt);
  const auto shear =
      params.numbers("shear", 1, 2, -kShearMax, kShearMax, "one number (along x) or [x, y], in degrees");
  move.shear = {shear[0], shear.size() == 2 ? shear[1] : 0.0};
  write_out(params, "shear", {move.shear[0], move.shear[1]});
  WarpOptions options = WarpOptions::read(params);
  TRY(params.finish());
  return std::make_unique<AffineTransform>(params.take_canonical(), move, std::move(options));
}

AffineTransform::AffineTransform(Json::Object canonical, const AffineMove& move, WarpOptions options)
    : WarpOp("affine",
             {.rescales = move.scale != 1.0, .in_pixels = move.translate != decltype(move.translate){}},
             std::move(canonical), std::move(options)),
      move_(move) {}

Status AffineTransform::resolve(SampleRng&, ImageSize in, StepList& steps) const {
  AffineMove move = move_;
  move.center = center(in);
  add_warp(affine_matrix(move), in, steps);
  return {};
}

Result<std::unique_ptr<Op>> RandomAffine::parse(Params& params) {
  Ranges ranges;
  ranges.degrees = read_degrees(params);
  constexpr std::string_view kParts = "None or [x, y], parts of the width and the height";
  if (const auto translate = params.numbers_or_null("translate", 2, 2, 0.0, 1.0, kParts))
    ranges.translate = {(*translate)[0], (*translate)[1]};
  constexpr std::string_view kScale = "None or [low, high] with low <= high";
  if (const auto scale = params.numbers_or_null("scale", 2, 2, kScaleMin, kScaleMax, kScale)) {
    ranges.scale = {(*scale)[0], (*scale)[1]};
    if (params.ok() && ranges.scale[0] > ranges.scale[1]) params.reject("scale", kScale);
  }
  read_shears(params, ranges);
  WarpOptions options = WarpOptions::read(params);
  TRY(params.finish());
  return std::make_unique<RandomAffine>(params.take_canonical(), ranges, std::move(options));
}

RandomAffine::RandomAffine(Json::Object canonical, const Ranges& ranges, WarpOptions options)
    : WarpOp("random_affine", {.random = true, .rescales = ranges.scale != decltype(ranges.scale){1.0, 1.0}},
             std::move(canonical), std::move(options)),
      ranges_(ranges) {}

Status RandomAffine::resolve(SampleRng& rng, ImageSize in, StepList& steps) const {
  AffineMove move;
  move.angle = uniform(rng, ranges_.degrees);
  move.translate[0] = std::rint(uniform(rng, shift_range(ranges_.translate[0], in.width)));
  move.translate[1] = std::rint(uniform(rng, shift_range(ranges_.translate[1], in.height)));
  move.scale = uniform(rng, ranges_.scale);
  move.shear[0] = uniform(rng, ranges_.shear_x);
  move.shear[1] = uniform(rng, ranges_.shear_y);
  move.center = center(in);
  add_warp(affine_matrix(move), in, steps);
  return {};
}

}  // namespace carya::transforms
