#include "transforms/ops/blur.h"

#include <fmt/core.h>

#include "transforms/kernels/blur/blur_taps.h"

namespace carya::transforms {
namespace {

constexpr std::int64_t kKernelMax = 2 * BlurTaps::kRadiusMax + 1;
constexpr double kSigmaMin = 1e-3;
constexpr double kSigmaMax = 1e3;

// One number is a square and is written out. Width first, as the reference.
std::array<std::int32_t, 2> read_kernel(Params& params) {
  const std::string what = fmt::format("odd numbers up to {}: one, or [width, height]", kKernelMax);
  const auto given = params.integers("kernel_size", 1, 2, 1, kKernelMax, what);
  const std::array<std::int64_t, 2> kernel{given.front(), given.back()};
  if (params.ok() && (kernel[0] % 2 == 0 || kernel[1] % 2 == 0)) params.reject("kernel_size", what);
  params.set_canonical("kernel_size", Json(Json::Array{Json(kernel[0]), Json(kernel[1])}));
  return {static_cast<std::int32_t>(kernel[0]), static_cast<std::int32_t>(kernel[1])};
}

std::array<double, 2> read_sigma(Params& params) {
  constexpr std::string_view kWhat = "one number or [low, high] with low <= high";
  const auto given =
      params.numbers("sigma", 1, 2, kSigmaMin, kSigmaMax, kWhat, std::vector<double>{0.1, 2.0});
  const std::array<double, 2> sigma{given.front(), given.back()};
  if (params.ok() && sigma[0] > sigma[1]) params.reject("sigma", kWhat);
  params.set_canonical("sigma", Json(Json::Array{Json(sigma[0]), Json(sigma[1])}));
  return sigma;
}

}  // namespace

Result<std::unique_ptr<Op>> GaussianBlur::parse(Params& params) {
  const auto kernel = read_kernel(params);
  const auto sigma = read_sigma(params);
  auto fields = params.strings_or_null("fields");
  TRY(params.finish());
  return std::make_unique<GaussianBlur>(params.take_canonical(), kernel, sigma, std::move(fields));
}

GaussianBlur::GaussianBlur(Json::Object canonical, std::array<std::int32_t, 2> kernel,
                           std::array<double, 2> sigma, std::optional<std::vector<std::string>> fields)
    : ColorOp("gaussian_blur",
              OpTraits{.kind = OpKind::kColor,
                       .random = true,
                       .in_pixels = true,
                       .takes_floats = true,
                       .color = ColorRule::kBlur,
                       .assumed_cost = color_cost(1.0)},
              std::move(canonical), std::move(fields)),
      kernel_(kernel),
      sigma_(sigma) {}

void GaussianBlur::draw(SampleRng& rng, ImageSize, std::int64_t, ColorSteps& steps) const {
  const double sigma = rng.next_between(sigma_[0], sigma_[1]);
  steps.add({.kind = ColorStep::Kind::kBlur, .factor = static_cast<float>(sigma), .kernel = kernel_});
}

}  // namespace carya::transforms
