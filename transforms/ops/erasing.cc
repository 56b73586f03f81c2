#include "transforms/ops/erasing.h"

#include <fmt/core.h>
#include <algorithm>
#include <cmath>

#include "base/det_math.h"

namespace carya::transforms {
namespace {

std::vector<std::uint8_t> read_value(Params& params) {
  std::vector<std::uint8_t> value;
  if (params.word("value", "random")) return value;
  for (const std::int64_t v : params.integers(
           "value", 1, 4, 0, 255, "\"random\", one value, or one per channel", std::vector<std::int64_t>{0}))
    value.push_back(static_cast<std::uint8_t>(v));
  return value;
}

}  // namespace

Result<std::unique_ptr<Op>> RandomErasing::parse(Params& params) {
  Options options;
  options.p = params.number("p", 0.0, 1.0, 0.5);
  options.scale = params.range("scale", 0.0, 1.0, {0.02, 0.33});
  const auto ratio = params.range("ratio", 1e-3, 1e3, {0.3, 3.3});
  options.value = read_value(params);
  auto fields = params.strings_or_null("fields");
  TRY(params.finish());
  options.log_ratio = {det_log(ratio[0]), det_log(ratio[1])};  // only now it is sure to have one
  return std::make_unique<RandomErasing>(params.take_canonical(), std::move(options), std::move(fields));
}

RandomErasing::RandomErasing(Json::Object canonical, Options options,
                             std::optional<std::vector<std::string>> fields)
    : ColorOp("random_erasing",
              OpTraits{.kind = OpKind::kColor,
                       .random = true,
                       .color = ColorRule::kErase,
                       .assumed_cost = color_cost(0.05)},
              std::move(canonical), std::move(fields)),
      options_(std::move(options)) {}

Status RandomErasing::check_channels(const FieldState& field) const {
  const std::size_t count = options_.value.size();
  if (count <= 1 || static_cast<std::int64_t>(count) == field.spec.shape[2]) return {};
  return refuse(field, fmt::format("value with one number or one for each of {} channels (given {})",
                                   field.spec.shape[2], count));
}

void RandomErasing::draw(SampleRng& rng, ImageSize size, std::int64_t, ColorSteps& steps) const {
  if (rng.next_double() >= options_.p) return;
  const double area = static_cast<double>(size.height) * static_cast<double>(size.width);
  for (int attempt = 0; attempt < 10; ++attempt) {
    const double target = area * rng.next_between(options_.scale[0], options_.scale[1]);
    const double aspect = det_exp(rng.next_between(options_.log_ratio[0], options_.log_ratio[1]));
    const double height = std::rint(std::sqrt(target * aspect));
    const double width = std::rint(std::sqrt(target / aspect));
    if (height >= static_cast<double>(size.height) || width >= static_cast<double>(size.width)) continue;
    ColorStep step{.kind = ColorStep::Kind::kErase};
    Region& region = step.region;
    region.height = static_cast<std::int64_t>(height);
    region.width = static_cast<std::int64_t>(width);
    region.top = static_cast<std::int64_t>(
        rng.next_below(static_cast<std::uint64_t>(size.height - region.height + 1)));
    region.left =
        static_cast<std::int64_t>(rng.next_below(static_cast<std::uint64_t>(size.width - region.width + 1)));
    for (std::size_t c = 0; c < step.fill.size() && !options_.value.empty(); ++c)
      step.fill[c] = options_.value[std::min(c, options_.value.size() - 1)];
    if (options_.value.empty()) step.noise = rng;
    if (region.height > 0 && region.width > 0) steps.add(step);
    return;
  }
}

}  // namespace carya::transforms
