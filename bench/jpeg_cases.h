#pragma once

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <random>
#include <string>

#include "bench/program.h"
#include "transforms/jpeg/decoder.h"
#include "transforms/simd/targets.h"

namespace carya::bench {

/// The flags of a bench of JPEGs: --photos DIR, --reps N, --every N, --target NAME.
struct JpegFlags {
  std::string folder;  ///< "": none was given, and there is no CARYA_TEST_DATA
  std::size_t repetitions = 0;
  std::size_t every = 0;  ///< of the photos one in so many
};

/// Reads them and takes the target; none if that cannot be, which standard error is told as `name`.
inline std::optional<JpegFlags> jpeg_flags(Program& program, const char* name) {
  const char* data = std::getenv("CARYA_TEST_DATA");
  JpegFlags flags{.folder = program.text(
                      "--photos", data == nullptr ? "" : std::string(data) + "/images/imagenet_sample"),
                  .repetitions = program.count("--reps", program.smoke() ? 1 : 5),
                  .every = program.count("--every", program.smoke() ? 100 : 1)};
  if (const auto forced = force_simd_target(program.text("--target")); !forced) {
    std::fprintf(stderr, "%s: %s\n", name, forced.error().message.c_str());
    return std::nullopt;
  }
  return flags;
}

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
