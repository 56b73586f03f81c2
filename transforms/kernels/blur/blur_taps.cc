#include "transforms/kernels/blur/blur_taps.h"

#include <cmath>

#include "base/det_math.h"
#include "base/error.h"

namespace carya::transforms {
namespace {

constexpr double kNothing = -40.0;  // exp of less is below any weight's unit

}  // namespace

BlurTaps gaussian_taps(int kernel_size, double sigma) {
  const int radius = kernel_size / 2;
  CHECK(kernel_size % 2 == 1 && radius <= BlurTaps::kRadiusMax && sigma > 0.0);
  std::array<double, BlurTaps::kRadiusMax + 1> exact{};
  double sum = 0.0;
  for (int k = 0; k <= radius; ++k) {
    const double distance = k / sigma;
    const double power = -0.5 * distance * distance;
    exact[static_cast<std::size_t>(k)] = power > kNothing ? det_exp(power) : 0.0;
    sum += exact[static_cast<std::size_t>(k)] * (k == 0 ? 1.0 : 2.0);
  }
  BlurTaps taps;
  int middle = 1 << (BlurTaps::kBits - 1);
  for (int k = 1; k <= radius; ++k) {
    const double part = exact[static_cast<std::size_t>(k)] / sum;
    const auto weight = static_cast<std::int16_t>(std::rint(part * (1 << BlurTaps::kBits)));
    if (weight == 0) break;  // and so are those further out
    taps.weights[static_cast<std::size_t>(k)] = weight;
    taps.radius = k;
    middle -= weight;
  }
  taps.weights[0] = static_cast<std::int16_t>(middle);
  return taps;
}

}  // namespace carya::transforms
