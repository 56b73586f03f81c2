#pragma once

#include <array>
#include <cstdint>

namespace carya::transforms {

/// Weights of a symmetric blur along one direction, in 1/32768: of the value itself (half of its weight, as
/// it is its own partner) and of the pairs of values at the same distance on both sides.
struct BlurTaps {
  static constexpr int kRadiusMax = 63;
  static constexpr int kBits = 15;
  std::array<std::int16_t, kRadiusMax + 1> weights{1 << (kBits - 1)};  ///< they add up to 1/2
  int radius = 0;                                                      ///< the largest distance that counts
};

/// The Gaussian of standard deviation `sigma` (> 0) at `kernel_size` whole places (odd, at most 2 kRadiusMax
/// + 1), made to add up to 1. Weights that round to 0 are left out. Exact:  det_exp, each weight rounded
/// once; the middle takes what is missing. Source: torchvision v2 functional.gaussian_blur.
BlurTaps gaussian_taps(int kernel_size, double sigma);

}  // namespace carya::transforms
