#include "transforms/ops/random_color.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "transforms/kernels/color/color_mix.h"

namespace carya::transforms {
namespace {

constexpr std::size_t kContrast = 1;  // among the ranges of a jitter
constexpr std::size_t kHue = 3;

// One number spreads around `center`, where nothing changes; two are the ends. Canonical: the ends.
ColorJitter::Range read_range(Params& params, std::string_view key, double center, double low, double high) {
  constexpr std::string_view kWhat = "None, one number from 0 or [low, high] with low <= high";
  const auto given = params.numbers_or_null(key, 1, 2, low, high, kWhat);
  if (!given || !params.ok()) return std::nullopt;
  std::array<double, 2> ends{};
  if (given->size() == 1) {
    const double spread = given->front();
    ends = {std::max(low, center - spread), center + spread};
    if (spread < 0 || ends[1] > high) params.reject(key, kWhat);
  } else {
    ends = {(*given)[0], (*given)[1]};
    if (ends[0] > ends[1]) params.reject(key, kWhat);
  }
  params.set_canonical(key, Json(Json::Array{Json(ends[0]), Json(ends[1])}));
  return ends;
}

}  // namespace

Result<std::unique_ptr<Op>> RandomGrayscale::parse(Params& params) {
  const double p = params.number("p", 0.0, 1.0, 0.1);
  auto fields = params.strings_or_null("fields");
  TRY(params.finish());
  return std::make_unique<RandomGrayscale>(params.take_canonical(), p, std::move(fields));
}

RandomGrayscale::RandomGrayscale(Json::Object canonical, double p,
                                 std::optional<std::vector<std::string>> fields)
    : ColorOp("random_grayscale",
              OpTraits{.kind = OpKind::kColor,
                       .random = true,
                       .pixelwise = true,
                       .keeps_black = true,
                       .takes_floats = true,
                       .color = ColorRule::kGray,
                       .assumed_cost = color_cost(0.1)},
              std::move(canonical), std::move(fields)),
      p_(p) {}

void RandomGrayscale::draw(SampleRng& rng, ImageSize, std::int64_t channels, ColorSteps& steps) const {
  if (rng.next_double() >= p_ || channels == 1) return;
  steps.add({.kind = ColorStep::Kind::kGrayscale, .amount = static_cast<std::int32_t>(channels)});
}

Result<std::unique_ptr<Op>> ColorJitter::parse(Params& params) {
  std::array<Range, 4> ranges;
  ranges[0] = read_range(params, "brightness", 1.0, 0.0, kFactorMax);
  ranges[1] = read_range(params, "contrast", 1.0, 0.0, kFactorMax);
  ranges[2] = read_range(params, "saturation", 1.0, 0.0, kFactorMax);
  ranges[kHue] = read_range(params, "hue", 0.0, -0.5, 0.5);
  auto fields = params.strings_or_null("fields");
  TRY(params.finish());
  return std::make_unique<ColorJitter>(params.take_canonical(), ranges, std::move(fields));
}

ColorJitter::ColorJitter(Json::Object canonical, const std::array<Range, 4>& ranges,
                         std::optional<std::vector<std::string>> fields)
    // Contrast asks for the mean of the picture; the others ask for nothing but the pixel.
    : ColorOp("color_jitter",
              OpTraits{.kind = OpKind::kColor,
                       .random = true,
                       .pixelwise = !ranges[kContrast],
                       .keeps_black = !ranges[kContrast],
                       .takes_floats = true,
                       .amplifies = true,
                       .color = ColorRule::kMixed,
                       .assumed_cost = color_cost(1.2)},
              std::move(canonical), std::move(fields)),
      ranges_(ranges) {}

void ColorJitter::draw(SampleRng& rng, ImageSize, std::int64_t channels, ColorSteps& steps) const {
  using Kind = ColorStep::Kind;
  constexpr std::array kKinds{Kind::kBrightness, Kind::kContrast, Kind::kSaturation, Kind::kHue};
  std::array<std::size_t, 4> order{0, 1, 2, 3};
  for (std::size_t i = 3; i > 0; --i) std::swap(order[i], order[rng.next_below(i + 1)]);
  std::array<double, 4> draws;
  for (double& draw : draws) draw = rng.next_double();
  for (const std::size_t k : order) {
    if (!ranges_[k] || (channels == 1 && k >= 2)) continue;  // a gray picture has neither saturation nor hue
    const auto& [low, high] = *ranges_[k];
    const double value = low + (high - low) * draws[k];
    ColorStep step{.kind = kKinds[k]};
    if (k == kHue)
      step.amount = static_cast<std::int32_t>(std::rint(value * kHueTurn));
    else
      step.factor = static_cast<float>(value);
    if (step.amount != 0 || step.factor != 1.0F) steps.add(step);
  }
}

}  // namespace carya::transforms
