#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "tests/transforms/noisy_picture.h"
#include "transforms/kernels/color/color_mix.h"
#include "transforms/kernels/color/color_tables.h"
#include "transforms/kernels/color/color_values.h"
#include "transforms/kernels/color/sharpen.h"
#include "transforms/simd/targets.h"

namespace carya::transforms {
namespace {

// Pictures of all sizes that a vector loop could trip over, full of contrast, with little and with none.
std::vector<NoisyPicture::Shape> shapes(const std::vector<std::int64_t>& channels) {
  std::vector<NoisyPicture::Shape> all;
  for (const std::int64_t c : channels)
    for (const auto& [height, width] : {std::pair{1, 1}, {1, 9}, {2, 2}, {3, 5}, {7, 3}, {17, 33}, {64, 71}})
      for (const auto& [low, high] : {std::pair{0, 255}, {90, 141}, {0, 3}, {200, 200}})
        all.push_back({height, width, c, (height + width) % 4, low, high});
  return all;
}

using Kernel = std::function<void(const ImageView&, const MutableImageView&)>;
using Definition = std::function<int(const ImageView&, std::int64_t y, std::int64_t x, std::int64_t c)>;

// Every test runs on each SIMD target.
class KernelColor : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { ASSERT_TRUE(force_simd_target(GetParam())); }
  void TearDown() override { ASSERT_TRUE(force_simd_target("")); }
};
INSTANTIATE_TEST_SUITE_P(Targets, KernelColor, ::testing::ValuesIn(simd_targets()),
                         [](const auto& target) { return target.param; });

// `kernel` computes `definition`, value by value, for every shape; `out_channels` 0: as many as there were.
void expect_definition(const std::string& what, const std::vector<std::int64_t>& channels,
                       const Kernel& kernel, const Definition& definition, std::int64_t out_channels = 0) {
  for (const NoisyPicture::Shape& shape : shapes(channels)) {
    const NoisyPicture in(shape);
    NoisyPicture::Shape out_shape = shape;
    if (out_channels > 0) out_shape.channels = out_channels;
    out_shape.gap = 3;
    const NoisyPicture out(out_shape);
    kernel(in.view(), out.view());
    for (std::int64_t y = 0; y < shape.height; ++y)
      for (std::int64_t x = 0; x < shape.width; ++x)
        for (std::int64_t c = 0; c < out_shape.channels; ++c)
          ASSERT_EQ(value_at(out.view(), y, x, c), definition(in.view(), y, x, c))
              << what << ": " << shape.height << "x" << shape.width << "x" << shape.channels << " values "
              << shape.low << ".." << shape.high << ", at " << y << ", " << x << ", " << c;
  }
}

const std::vector<std::int64_t> kAllChannels{1, 3, 4};

TEST_P(KernelColor, InvertIsItsDefinition) {
  expect_definition("invert", kAllChannels, invert_values,
                    [](const ImageView& in, auto y, auto x, auto c) { return 255 - value_at(in, y, x, c); });
}

TEST_P(KernelColor, SolarizeIsItsDefinition) {
  for (const int threshold : {0, 1, 100, 128, 255})
    expect_definition(
        "solarize from " + std::to_string(threshold), kAllChannels,
        [&](const ImageView& in, const MutableImageView& out) { solarize_values(in, threshold, out); },
        [&](const ImageView& in, auto y, auto x, auto c) {
          return value_at(in, y, x, c) >= threshold ? 255 - value_at(in, y, x, c) : value_at(in, y, x, c);
        });
}

TEST_P(KernelColor, PosterizeIsItsDefinition) {
  for (int bits = 0; bits <= 8; ++bits)
    expect_definition(
        "posterize to " + std::to_string(bits), kAllChannels,
        [&](const ImageView& in, const MutableImageView& out) {
          posterize_values(in, (0xFF00 >> bits) & 0xFF, out);
        },
        [&](const ImageView& in, auto y, auto x, auto c) {
          const int step = 1 << (8 - bits);
          return value_at(in, y, x, c) / step * step;
        });
}

int luma_at(const ImageView& in, std::int64_t y, std::int64_t x) {
  if (in.channels == 1) return value_at(in, y, x, 0);
  return (19595 * value_at(in, y, x, 0) + 38470 * value_at(in, y, x, 1) + 7471 * value_at(in, y, x, 2) +
          32768) /
         65536;
}

TEST_P(KernelColor, GrayscaleIsItsDefinition) {
  for (const std::int64_t from : {1, 3})
    for (const std::int64_t to : {1, 3})
      expect_definition(
          "grayscale", {from}, grayscale,
          [](const ImageView& in, auto y, auto x, auto) { return luma_at(in, y, x); }, to);
}

// All values of one channel.
std::vector<int> channel_of(const ImageView& in, std::int64_t c) {
  std::vector<int> values;
  for (std::int64_t y = 0; y < in.height; ++y)
    for (std::int64_t x = 0; x < in.width; ++x) values.push_back(value_at(in, y, x, c));
  return values;
}

TEST_P(KernelColor, AutocontrastIsItsDefinition) {
  std::array<std::pair<int, int>, 4> ends;
  expect_definition(
      "autocontrast", kAllChannels,
      [](const ImageView& in, const MutableImageView& out) { autocontrast(in, out); },
      [&](const ImageView& in, auto y, auto x, auto c) {
        if (y == 0 && x == 0) {
          const std::vector<int> values = channel_of(in, c);
          const auto [low, high] = std::minmax_element(values.begin(), values.end());
          ends[static_cast<std::size_t>(c)] = {*low, *high};
        }
        const auto [low, high] = ends[static_cast<std::size_t>(c)];
        const int value = value_at(in, y, x, c);
        return high > low ? (value - low) * 255 / (high - low) : value;
      });
}

TEST_P(KernelColor, EqualizeIsItsDefinition) {
  std::array<std::vector<int>, 4> sorted;
  expect_definition(
      "equalize", kAllChannels, [](const ImageView& in, const MutableImageView& out) { equalize(in, out); },
      [&](const ImageView& in, auto y, auto x, auto c) {
        std::vector<int>& values = sorted[static_cast<std::size_t>(c)];
        if (y == 0 && x == 0) {
          values = channel_of(in, c);
          std::sort(values.begin(), values.end());
        }
        const auto below = [&](int value) {
          return std::lower_bound(values.begin(), values.end(), value) - values.begin();
        };
        const int value = value_at(in, y, x, c);
        const auto step = below(values.back()) / 255;
        if (step == 0) return value;
        return static_cast<int>(std::min<std::ptrdiff_t>(255, (below(value) + step / 2) / step));
      });
}

// Factors at which a blend shrinks, turns round, keeps and overshoots.
constexpr std::array kFactors{0.0F, 0.3F, 0.5F, 1.0F, 1.4F, 2.0F, 17.0F};

// `made` if it is from + factor (to - from), cut to 0..255 and truncated, where two roundings of float32 may
// fall on either side of an integer; what it should be if not.
int blend_at(double from, double to, float factor, int made) {
  const double value = from + double{factor} * (to - from);
  const auto truncated = [](double x) { return static_cast<int>(std::clamp(x, 0.0, 255.0)); };
  return made == truncated(value - 1e-3) || made == truncated(value + 1e-3) ? made : truncated(value);
}

TEST_P(KernelColor, SharpenIsItsDefinition) {
  for (const float factor : kFactors) {
    for (const NoisyPicture::Shape& shape : shapes({1, 3})) {
      const NoisyPicture in(shape);
      const NoisyPicture out(shape);
      const ImageView from = in.view();
      sharpen(from, factor, out.view());
      const bool narrow = shape.height < 3 || shape.width < 3;
      for (std::int64_t y = 0; y < shape.height; ++y)
        for (std::int64_t x = 0; x < shape.width; ++x)
          for (std::int64_t c = 0; c < shape.channels; ++c) {
            const int made = value_at(out.view(), y, x, c);
            const int value = value_at(from, y, x, c);
            if (narrow || y == 0 || x == 0 || y == shape.height - 1 || x == shape.width - 1) {
              ASSERT_EQ(made, value) << factor;
              continue;
            }
            int sum = 4 * value;
            for (const int dy : {-1, 0, 1})
              for (const int dx : {-1, 0, 1}) sum += value_at(from, y + dy, x + dx, c);
            const double smooth = std::floor(sum / 13.0 + 0.5);
            ASSERT_EQ(made, blend_at(smooth, value, factor, made)) << factor << " at " << y << ", " << x;
          }
    }
  }
}

TEST_P(KernelColor, BlendWithALevelIsItsDefinition) {
  for (const float factor : kFactors)
    for (const int level : {0, 77, 255}) {
      for (const NoisyPicture::Shape& shape : shapes(kAllChannels)) {
        const NoisyPicture in(shape);
        const NoisyPicture out(shape);
        blend_level(in.view(), level, factor, out.view());
        for (std::int64_t y = 0; y < shape.height; ++y)
          for (std::int64_t i = 0; i < shape.width * shape.channels; ++i) {
            const int made = out.view().row(y)[i];
            ASSERT_EQ(made, blend_at(level, in.view().row(y)[i], factor, made))
                << factor << " from " << level;
          }
      }
    }
}

TEST_P(KernelColor, MeanLumaIsItsDefinition) {
  for (const NoisyPicture::Shape& shape : shapes({1, 3})) {
    const NoisyPicture in(shape);
    double sum = 0;
    for (std::int64_t y = 0; y < shape.height; ++y)
      for (std::int64_t x = 0; x < shape.width; ++x) sum += luma_at(in.view(), y, x);
    EXPECT_EQ(mean_luma(in.view()), std::floor(sum / static_cast<double>(shape.height * shape.width) + 0.5));
  }
}

TEST_P(KernelColor, SaturateIsItsDefinition) {
  for (const float factor : kFactors)
    for (const NoisyPicture::Shape& shape : shapes({3})) {
      const NoisyPicture in(shape);
      const NoisyPicture out(shape);
      saturate(in.view(), factor, out.view());
      for (std::int64_t y = 0; y < shape.height; ++y)
        for (std::int64_t x = 0; x < shape.width; ++x)
          for (std::int64_t c = 0; c < 3; ++c) {
            const int made = value_at(out.view(), y, x, c);
            const double gray = luma_at(in.view(), y, x);
            ASSERT_EQ(made, blend_at(gray, value_at(in.view(), y, x, c), factor, made)) << factor;
          }
    }
}

// The reference's way in double: hue, saturation and value, each in 0..1, and back.
std::array<double, 3> turned(const std::array<double, 3>& rgb, double turn) {
  const double high = std::max({rgb[0], rgb[1], rgb[2]}) / 255;
  const double low = std::min({rgb[0], rgb[1], rgb[2]}) / 255;
  if (high == low) return rgb;
  const double range = high - low;
  const double r = rgb[0] / 255;
  const double g = rgb[1] / 255;
  const double b = rgb[2] / 255;
  double hue = r == high ? (g - b) / range : g == high ? 2 + (b - r) / range : 4 + (r - g) / range;
  hue = hue / 6 + turn;
  hue = (hue - std::floor(hue)) * 6;
  const double saturation = range / high;
  // The usual form: each channel falls from `high` with its distance on the circle.
  const auto channel = [&](double offset) {
    const double k = std::fmod(offset + hue, 6.0);
    return high - high * saturation * std::clamp(std::min(k, 4 - k), 0.0, 1.0);
  };
  return {channel(5) * 255, channel(3) * 255, channel(1) * 255};
}

TEST_P(KernelColor, HueIsTheReferencesWithinItsRounding) {
  for (const double turn : {0.0, 0.004, 0.1, 1.0 / 6, 0.25, 0.5, -0.07, -1.0 / 3, -0.5}) {
    for (const NoisyPicture::Shape& shape : shapes({3})) {
      const NoisyPicture in(shape);
      const NoisyPicture out(shape);
      const auto shift = static_cast<std::int32_t>(std::rint(turn * kHueTurn));
      shift_hue(in.view(), shift, out.view());
      for (std::int64_t y = 0; y < shape.height; ++y)
        for (std::int64_t x = 0; x < shape.width; ++x) {
          std::array<double, 3> rgb;
          for (std::int64_t c = 0; c < 3; ++c)
            rgb[static_cast<std::size_t>(c)] = value_at(in.view(), y, x, c);
          const std::array<double, 3> wanted = turned(rgb, turn);
          for (std::int64_t c = 0; c < 3; ++c) {
            const double exact = wanted[static_cast<std::size_t>(c)];
            const int made = value_at(out.view(), y, x, c);
            // As the reference truncates, x 255.999 / 255; the shift is rounded to 1 / 65536 of a sextant.
            const double low = std::floor(exact * 255.999 / 255 - 0.01);
            const double high = std::floor(exact * 255.999 / 255 + 0.01);
            ASSERT_TRUE(made == low || made == high) << made << " instead of " << exact << ", turn " << turn
                                                     << " at " << y << ", " << x << ", " << c;
          }
        }
    }
  }
}

TEST_P(KernelColor, HueStaysWithoutAShift) {
  expect_definition(
      "no shift", {3}, [](const ImageView& in, const MutableImageView& out) { shift_hue(in, 0, out); },
      [](const ImageView& in, auto y, auto x, auto c) { return value_at(in, y, x, c); });
}

TEST_P(KernelColor, EraseFillsItsRegion) {
  const Region region{3, 5, 9, 11};
  const std::array<std::uint8_t, 4> fill{1, 2, 3, 4};
  for (const NoisyPicture::Shape& shape : shapes(kAllChannels)) {
    if (!region.inside(shape.height, shape.width)) continue;
    const NoisyPicture in(shape);
    const NoisyPicture out(shape);
    erase(in.view(), region, fill, out.view());
    for (std::int64_t y = 0; y < shape.height; ++y)
      for (std::int64_t x = 0; x < shape.width; ++x)
        for (std::int64_t c = 0; c < shape.channels; ++c) {
          const bool erased = y >= 3 && y < 12 && x >= 5 && x < 16;
          ASSERT_EQ(value_at(out.view(), y, x, c),
                    erased ? static_cast<int>(c) + 1 : value_at(in.view(), y, x, c));
        }
  }
}

}  // namespace
}  // namespace carya::transforms
