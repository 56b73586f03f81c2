#pragma once

#include <algorithm>
#include <cmath>
#include <random>

#include "transforms/jpeg/decoder.h"

namespace carya::bench {

/// The crop of torchvision's RandomResizedCrop at its defaults; the largest square in the middle where none fits.
inline jpeg::Region random_resized_crop(int width, int height, std::mt19937_64& random) {
  std::uniform_real_distribution<double> uniform(0, 1);
  const double area = static_cast<double>(width) * height;
  for (int attempt = 0; attempt < 10; ++attempt) {
    const double target = area * (0.08 + 0.92 * uniform(random));
    const double aspect = std::exp(std::log(0.75) + uniform(random) * (std::log(4.0 / 3) - std::log(0.75)));
    const int w = static_cast<int>(std::lround(std::sqrt(target * aspect)));
    const int h = static_cast<int>(std::lround(std::sqrt(target / aspect)));
    if (w < 1 || h < 1 || w > width || h > height) continue;
    const int y = static_cast<int>(uniform(random) * (height - h + 1));
    const int x = static_cast<int>(uniform(random) * (width - w + 1));
    return {x, y, w, h};
  }
  const int side = std::min(width, height);
  return {(width - side) / 2, (height - side) / 2, side, side};
}

}  // namespace carya::bench
