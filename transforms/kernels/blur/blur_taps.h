#pragma once

#include <array>
#include <cstdint>

namespace carya::transforms {

/// The weights of a symmetric blur along one direction, in 1/32768. weights[0] is half of the value's own weight, since
/// the value is its own partner. weights[k] is that of the pair of values at distance k.
struct BlurTaps {
  static constexpr int kRadiusMax = 63;
  static constexpr int kBits = 15;
  std::array<std::int16_t, kRadiusMax + 1> weights{1 << (kBits - 1)};  ///< they add up to 1/2
  int radius = 0;                                                      ///< the largest distance with a weight
};

/// The Gaussian of standard deviation `sigma` (> 0) at `kernel_size` places (odd, at most 2 kRadiusMax + 1), normalized
/// to add up to 1. Weights that round to 0 are left out. Exact: det_exp, each weight rounded once; the middle weight
/// takes the rest. Source: torchvision v2 functional.gaussian_blur.
BlurTaps gaussian_taps(int kernel_size, double sigma);

}  // namespace carya::transforms
