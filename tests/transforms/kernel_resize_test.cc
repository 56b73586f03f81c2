#include "transforms/kernels/resize/resize.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <numeric>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/transforms/kernel_memory.h"
#include "transforms/kernels/resize/resize_taps.h"
#include "transforms/simd/targets.h"

namespace carya::transforms {
namespace {

struct Case {
  std::int64_t in_height, in_width, out_height, out_width, channels;
};

std::vector<std::uint8_t> photo_like(const Case& c, std::uint64_t seed) {
  Noise noise(seed);
  std::vector<std::uint8_t> pixels(static_cast<std::size_t>(c.in_height * c.in_width * c.channels));
  for (std::int64_t y = 0; y < c.in_height; ++y) {
    for (std::int64_t x = 0; x < c.in_width; ++x) {
      for (std::int64_t k = 0; k < c.channels; ++k) {
        const double wave = 127 + 90 * std::sin(0.05 * static_cast<double>(x * (k + 1))) *
                                      std::cos(0.07 * static_cast<double>(y));
        const double value =
            wave + static_cast<double>(noise.below(73)) - 36 + (((x / 9 + y / 7) % 5 == 0) ? 80 : 0);
        pixels[static_cast<std::size_t>((y * c.in_width + x) * c.channels + k)] =
            static_cast<std::uint8_t>(std::clamp(value, 0.0, 255.0));
      }
    }
  }
  return pixels;
}

constexpr std::array kFilters{Interpolation::kBilinear, Interpolation::kBicubic, Interpolation::kLanczos};

double sinc(double x) {
  return x == 0 ? 1 : std::sin(std::numbers::pi * x) / (std::numbers::pi * x);
}

double filter_value(Interpolation interpolation, double x, double a) {
  x = std::fabs(x);
  if (interpolation == Interpolation::kLanczos) return x < 3 ? sinc(x) * sinc(x / 3) : 0;
  if (interpolation == Interpolation::kBilinear) return x < 1 ? 1 - x : 0;
  if (x < 1) return (a + 2) * x * x * x - (a + 3) * x * x + 1;
  if (x < 2) return a * x * x * x - 5 * a * x * x + 8 * a * x - 4 * a;
  return 0;
}

// Weights of every input for every output, in double: the definition, not the windowed code.
std::vector<std::vector<double>> matrix(std::int64_t in, std::int64_t out, Interpolation interpolation,
                                        bool antialias) {
  std::vector<std::vector<double>> m(static_cast<std::size_t>(out),
                                     std::vector<double>(static_cast<std::size_t>(in)));
  const double scale = static_cast<double>(in) / static_cast<double>(out);
  const double width = antialias ? std::max(1.0, scale) : 1.0;
  for (std::int64_t i = 0; i < out; ++i) {
    auto& row = m[static_cast<std::size_t>(i)];
    double center = (static_cast<double>(i) + 0.5) * scale;
    if (antialias) {
      const double reach = interpolation == Interpolation::kLanczos   ? 3.0
                           : interpolation == Interpolation::kBicubic ? 2.0
                                                                      : 1.0;
      const double support = reach * width;
      const auto first =
          std::max<std::int64_t>(0, static_cast<std::int64_t>(std::floor(center - support + 0.5)));
      const auto last =
          std::min<std::int64_t>(in, static_cast<std::int64_t>(std::floor(center + support + 0.5)));
      double sum = 0;
      for (std::int64_t k = first; k < last; ++k) {
        sum += row[static_cast<std::size_t>(k)] =
            filter_value(interpolation, (static_cast<double>(k) + 0.5 - center) / width, -0.5);
      }
      for (double& w : row) w /= sum;
      continue;
    }
    double at = center - 0.5;
    if (interpolation == Interpolation::kBilinear) at = std::max(at, 0.0);
    for (std::int64_t k = static_cast<std::int64_t>(std::floor(at)) - 1; k <= std::floor(at) + 2; ++k) {
      row[static_cast<std::size_t>(std::clamp<std::int64_t>(k, 0, in - 1))] +=
          filter_value(interpolation, static_cast<double>(k) - at, -0.75);
    }
  }
  return m;
}

std::vector<double> exact(const std::vector<std::uint8_t>& pixels, const Case& c, Interpolation interpolation,
                          bool antialias) {
  const auto columns = matrix(c.in_width, c.out_width, interpolation, antialias);
  const auto rows = matrix(c.in_height, c.out_height, interpolation, antialias);
  const auto line = static_cast<std::size_t>(c.out_width * c.channels);
  std::vector<double> middle(static_cast<std::size_t>(c.in_height) * line);
  for (std::int64_t y = 0; y < c.in_height; ++y) {
    for (std::int64_t i = 0; i < c.out_width; ++i) {
      for (std::int64_t x = 0; x < c.in_width; ++x) {
        const double w = columns[static_cast<std::size_t>(i)][static_cast<std::size_t>(x)];
        if (w == 0) continue;
        for (std::int64_t k = 0; k < c.channels; ++k) {
          middle[static_cast<std::size_t>(y) * line + static_cast<std::size_t>(i * c.channels + k)] +=
              w * pixels[static_cast<std::size_t>((y * c.in_width + x) * c.channels + k)];
        }
      }
    }
  }
  // Pillow clamps to bytes between its passes; overshoot must be cut there as well.
  for (double& v : middle) v = std::clamp(v, 0.0, 255.0);
  std::vector<double> out(static_cast<std::size_t>(c.out_height) * line);
  for (std::int64_t i = 0; i < c.out_height; ++i) {
    for (std::int64_t y = 0; y < c.in_height; ++y) {
      const double w = rows[static_cast<std::size_t>(i)][static_cast<std::size_t>(y)];
      if (w == 0) continue;
      for (std::size_t x = 0; x < line; ++x) {
        out[static_cast<std::size_t>(i) * line + x] += w * middle[static_cast<std::size_t>(y) * line + x];
      }
    }
  }
  for (double& v : out) v = std::clamp(v, 0.0, 255.0);
  return out;
}

std::vector<std::uint8_t> resized(Resizer& resizer, const std::vector<std::uint8_t>& pixels, const Case& c,
                                  const ResizeSpec& spec) {
  std::vector<std::uint8_t> out(static_cast<std::size_t>(c.out_height * c.out_width * c.channels));
  resizer.resize({pixels.data(), c.in_height, c.in_width, c.channels, c.in_width * c.channels}, spec,
                 {out.data(), c.out_height, c.out_width, c.channels, c.out_width * c.channels});
  return out;
}

const Case kCases[] = {
    {280, 300, 224, 224, 3}, {224, 300, 224, 224, 3}, {300, 224, 224, 224, 3}, {90, 110, 224, 224, 3},
    {500, 375, 224, 224, 3}, {90, 400, 224, 224, 3},  {400, 90, 224, 224, 3},  {1200, 1600, 224, 224, 3},
    {280, 300, 224, 224, 1}, {100, 77, 131, 55, 4},   {64, 64, 32, 32, 1},     {1, 1, 7, 5, 3},
    {2, 3, 5, 7, 3},         {33, 17, 1, 1, 3},       {7, 900, 9, 13, 3},      {31, 5, 14, 64, 1},
};

TEST(KernelResize, IsWithinTwoLevelsOfTheExactFilterAndAlmostAlwaysOne) {
  Resizer resizer;
  for (const Case& c : kCases) {
    const auto pixels = photo_like(c, 1);
    for (const Interpolation interpolation : kFilters) {
      for (const bool antialias : {true, false}) {
        if (!antialias && interpolation == Interpolation::kLanczos) continue;
        const auto got = resized(resizer, pixels, c, {c.out_height, c.out_width, interpolation, antialias});
        const auto want = exact(pixels, c, interpolation, antialias);
        std::size_t far = 0;
        double worst = 0;
        for (std::size_t i = 0; i < got.size(); ++i) {
          const double off = std::fabs(got[i] - want[i]);
          worst = std::max(worst, off);
          if (std::fabs(got[i] - std::floor(want[i] + 0.5)) > 1.0) ++far;
        }
        const std::string what = std::to_string(c.in_height) + "x" + std::to_string(c.in_width) + "x" +
                                 std::to_string(c.channels) + " filter " +
                                 std::to_string(static_cast<int>(interpolation)) + " antialias " +
                                 std::to_string(antialias);
        // Half a level from rounding the result, half from rounding between the passes.
        EXPECT_LT(worst, 1.6) << what;
        EXPECT_LE(static_cast<double>(far), 0.001 * static_cast<double>(got.size()))
            << what << " worst " << worst;
      }
    }
  }
}

TEST(KernelResize, GivesTheSameBitsOnEveryTarget) {
  for (const Case& c : kCases) {
    const auto pixels = photo_like(c, 2);
    for (const Interpolation interpolation : {Interpolation::kNearest, Interpolation::kBilinear,
                                              Interpolation::kBicubic, Interpolation::kLanczos}) {
      for (const bool antialias : {true, false}) {
        if (!antialias && interpolation == Interpolation::kLanczos) continue;
        std::vector<std::uint8_t> first;
        for (const std::string& target : simd_targets()) {
          ASSERT_TRUE(force_simd_target(target));
          Resizer resizer;
          const auto got = resized(resizer, pixels, c, {c.out_height, c.out_width, interpolation, antialias});
          if (first.empty()) first = got;
          EXPECT_EQ(got, first) << target << " " << c.in_height << "x" << c.in_width;
        }
        ASSERT_TRUE(force_simd_target(""));
      }
    }
  }
}

// The fallback target works output by output, the others several at a time.
TEST(KernelResize, TriangleWeightsAreTheSameOnEveryTarget) {
  for (const std::int64_t out_size : {1, 7, 8, 9, 63, 224}) {
    for (std::int64_t in_size = 1; in_size < 8 * out_size; in_size += 1 + in_size / 100) {
      std::vector<std::int64_t> first;
      for (const std::string& target : simd_targets()) {
        ASSERT_TRUE(force_simd_target(target));
        ResizeTaps taps;
        taps.update(in_size, out_size, Interpolation::kBilinear, true);
        if (taps.wide()) break;
        std::vector<std::int64_t> got{taps.taps_max()};
        for (std::int64_t i = 0; i < out_size; ++i) {
          got.push_back(taps.start(i));
          got.push_back(taps.count(i));
          EXPECT_EQ(std::accumulate(taps.narrow(i), taps.narrow(i) + ResizeTaps::kNarrowTaps, 0),
                    1 << ResizeTaps::kNarrowBits);
          got.insert(got.end(), taps.narrow(i), taps.narrow(i) + ResizeTaps::kNarrowTaps);
        }
        if (first.empty()) first = got;
        EXPECT_EQ(got, first) << target << " " << in_size << " to " << out_size;
      }
    }
  }
  ASSERT_TRUE(force_simd_target(""));
}

TEST(KernelResize, WeightsAddUpToOneForEveryFilter) {
  int wide = 0;
  for (const Interpolation interpolation : kFilters)
    for (const bool antialias : {false, true}) {
      if (!antialias && interpolation == Interpolation::kLanczos) continue;
      for (const std::int64_t out_size : {1, 7, 64})
        for (std::int64_t in_size = 1; in_size < 20 * out_size; in_size += 1 + in_size / 10) {
          ResizeTaps taps;
          taps.update(in_size, out_size, interpolation, antialias);
          wide += taps.wide() ? 1 : 0;
          for (std::int64_t i = 0; i < out_size; ++i) {
            const int sum =
                taps.wide() ? std::accumulate(taps.wide_weights(i), taps.wide_weights(i) + taps.count(i), 0)
                            : std::accumulate(taps.narrow(i), taps.narrow(i) + ResizeTaps::kNarrowTaps, 0);
            ASSERT_EQ(sum, 1 << (taps.wide() ? ResizeTaps::kWideBits : ResizeTaps::kNarrowBits))
                << in_size << " to " << out_size << " at " << i;
          }
        }
    }
  EXPECT_GT(wide, 0);
}

TEST(KernelResize, SurvivesAChangeOfTargetBetweenPictures) {
  const Case c = kCases[0];
  const auto pixels = photo_like(c, 5);
  Resizer resizer;
  std::vector<std::uint8_t> first;
  for (const std::string& target : simd_targets()) {
    ASSERT_TRUE(force_simd_target(target));
    const auto got = resized(resizer, pixels, c, {c.out_height, c.out_width});
    if (first.empty()) first = got;
    EXPECT_EQ(got, first) << target;
  }
  ASSERT_TRUE(force_simd_target(""));
}

TEST(KernelResize, KeepsAFlatPictureFlat) {
  Resizer resizer;
  for (const Case& c : kCases) {
    for (const int level : {0, 1, 127, 128, 254, 255}) {
      const std::vector<std::uint8_t> pixels(static_cast<std::size_t>(c.in_height * c.in_width * c.channels),
                                             static_cast<std::uint8_t>(level));
      for (const Interpolation interpolation : kFilters) {
        for (const std::uint8_t value :
             resized(resizer, pixels, c, {c.out_height, c.out_width, interpolation, true})) {
          ASSERT_EQ(value, level) << c.in_height << "x" << c.in_width;
        }
      }
    }
  }
}

// Black and white pixels drive the sums of the SIMD loops as far as they go.
TEST(KernelResize, FollowsTheExactFilterOnBlackAndWhite) {
  Noise noise(11);
  Resizer resizer;
  for (const Case& c : kCases) {
    std::vector<std::uint8_t> pixels(static_cast<std::size_t>(c.in_height * c.in_width * c.channels));
    for (std::uint8_t& value : pixels) value = noise.below(2) == 0 ? 0 : 255;
    for (const Interpolation interpolation : kFilters) {
      const auto got = resized(resizer, pixels, c, {c.out_height, c.out_width, interpolation, true});
      const auto want = exact(pixels, c, interpolation, true);
      for (std::size_t i = 0; i < got.size(); ++i)
        ASSERT_LT(std::fabs(got[i] - want[i]), 2.1) << static_cast<int>(interpolation) << " " << i;
    }
  }
}

TEST(KernelResize, NearestTakesTheFloorIndex) {
  const Case c{5, 7, 8, 3, 3};
  const auto pixels = photo_like(c, 3);
  Resizer resizer;
  const auto got = resized(resizer, pixels, c, {c.out_height, c.out_width, Interpolation::kNearest, false});
  for (std::int64_t y = 0; y < 8; ++y) {
    for (std::int64_t x = 0; x < 3; ++x) {
      for (std::int64_t k = 0; k < 3; ++k) {
        EXPECT_EQ(got[static_cast<std::size_t>((y * 3 + x) * 3 + k)],
                  pixels[static_cast<std::size_t>(((y * 5 / 8) * 7 + x * 7 / 3) * 3 + k)]);
      }
    }
  }
}

TEST(KernelResize, NearestTakesMirroredPicturesWithinTheirMemoryOnEveryTarget) {
  Noise noise(31);
  for (const std::string& target : simd_targets()) {
    ASSERT_TRUE(force_simd_target(target));
    Resizer resizer;  // kept, so that each case finds the tables of the one before
    for (int turn = 0; turn < 300; ++turn) {
      const std::int64_t channels =
          std::array<std::int64_t, 3>{1, 3, 4}[static_cast<std::size_t>(turn % 5 / 2)];
      const Case c{1 + noise.below(9), 1 + noise.below(turn % 7 == 0 ? 400 : 90), 1 + noise.below(9),
                   turn % 11 == 0 ? 16 : 1 + noise.below(90), channels};
      const auto pixels = photo_like(c, 3);
      const GuardedBytes in(pixels.size());
      std::copy(pixels.begin(), pixels.end(), in.data());
      const GuardedBytes out(static_cast<std::size_t>(c.out_height * c.out_width * channels));
      ResizeSpec spec{c.out_height, c.out_width, Interpolation::kNearest};
      spec.flip_horizontal = turn % 2 == 1;
      spec.flip_vertical = turn % 3 == 1;
      resizer.resize({in.data(), c.in_height, c.in_width, channels, c.in_width * channels}, spec,
                     {out.data(), c.out_height, c.out_width, channels, c.out_width * channels});
      for (std::int64_t y = 0; y < c.out_height; ++y) {
        for (std::int64_t x = 0; x < c.out_width; ++x) {
          // floor(i * in / out) with one rounding of the scale, as torch has it.
          const auto from = [](std::int64_t i, std::int64_t size, std::int64_t made, bool mirrored) {
            const float scale = static_cast<float>(size) / static_cast<float>(made);
            const auto at = std::min(size - 1, static_cast<std::int64_t>(static_cast<float>(i) * scale));
            return mirrored ? size - 1 - at : at;
          };
          const std::int64_t at_y = from(y, c.in_height, c.out_height, spec.flip_vertical);
          const std::int64_t at_x = from(x, c.in_width, c.out_width, spec.flip_horizontal);
          for (std::int64_t k = 0; k < channels; ++k)
            ASSERT_EQ(out.data()[(y * c.out_width + x) * channels + k],
                      pixels[static_cast<std::size_t>((at_y * c.in_width + at_x) * channels + k)])
                << target << ' ' << turn;
        }
      }
    }
  }
  ASSERT_TRUE(force_simd_target(""));
}

TEST(KernelResize, ReadsOnlyThePicture) {
  for (const std::string& target : simd_targets()) {
    ASSERT_TRUE(force_simd_target(target));
    for (const Case& c : kCases) {
      const auto pixels = photo_like(c, 4);
      for (const auto at : {GuardedBytes::At::kEnd, GuardedBytes::At::kStart}) {
        const GuardedBytes in(pixels.size(), at);
        std::copy(pixels.begin(), pixels.end(), in.data());
        const auto out_bytes = static_cast<std::size_t>(c.out_height * c.out_width * c.channels);
        const GuardedBytes out(out_bytes, at);
        Resizer resizer;
        for (const Interpolation interpolation : {Interpolation::kNearest, Interpolation::kBilinear,
                                                  Interpolation::kBicubic, Interpolation::kLanczos}) {
          resizer.resize({in.data(), c.in_height, c.in_width, c.channels, c.in_width * c.channels},
                         {c.out_height, c.out_width, interpolation, true},
                         {out.data(), c.out_height, c.out_width, c.channels, c.out_width * c.channels});
        }
      }
    }
  }
  ASSERT_TRUE(force_simd_target(""));
}

TEST(KernelResize, DoesNotDependOnWhatWasResizedBefore) {
  Noise noise(7);
  Resizer kept;
  for (int round = 0; round < 60; ++round) {
    const Case c{1 + noise.below(90), 1 + noise.below(90), 1 + noise.below(60), 1 + noise.below(60),
                 round % 3 == 0 ? 1 : 3};
    const auto pixels = photo_like(c, static_cast<std::uint64_t>(round));
    const ResizeSpec spec{c.out_height, c.out_width, kFilters[static_cast<std::size_t>(round) % 3],
                          round % 3 == 2 || round % 5 != 0};
    Resizer fresh;
    EXPECT_EQ(resized(kept, pixels, c, spec), resized(fresh, pixels, c, spec)) << round;
  }
}

}  // namespace
}  // namespace carya::transforms
