#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "tests/transforms/noisy_picture.h"
#include "transforms/kernels/blur/blur.h"
#include "transforms/simd/targets.h"

namespace carya::transforms {
namespace {

using At = GuardedBytes::At;

// Every test runs on each SIMD target.
class KernelBlur : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { ASSERT_TRUE(force_simd_target(GetParam())); }
  void TearDown() override { ASSERT_TRUE(force_simd_target("")); }
};
INSTANTIATE_TEST_SUITE_P(Targets, KernelBlur, ::testing::ValuesIn(simd_targets()),
                         [](const auto& target) { return target.param; });

struct Sizes {
  int width, height;
  double sigma;
};
const std::vector<Sizes> kKernels = {{1, 1, 1.0},  {3, 3, 0.1},  {3, 5, 0.8},    {11, 11, 2.0},
                                     {1, 7, 30.0}, {23, 1, 5.0}, {63, 127, 9.0}, {127, 127, 1000.0}};

// Mirrored without its edge, one step at a time.
std::int64_t mirrored(std::int64_t at, std::int64_t size) {
  if (size == 1) return 0;
  while (at < 0 || at >= size) at = at < 0 ? -at : 2 * (size - 1) - at;
  return at;
}

int product(int a, int b) {
  return static_cast<int>(std::floor(static_cast<double>(a) * b / 32'768 + 0.5));
}

int column_value(const ImageView& in, const BlurTaps& taps, std::int64_t y, std::int64_t x, std::int64_t c) {
  int sum = 0;
  for (int k = 0; k <= taps.radius; ++k) {
    const int pair =
        value_at(in, mirrored(y - k, in.height), x, c) + value_at(in, mirrored(y + k, in.height), x, c);
    sum += product((pair - 256) * 128, taps.weights[static_cast<std::size_t>(k)]);
  }
  return sum;
}

void expect_definition(const NoisyPicture::Shape& shape, const Sizes& kernel, At at) {
  const NoisyPicture in(shape, at);
  NoisyPicture::Shape out_shape = shape;
  out_shape.gap = 5;
  const NoisyPicture out(out_shape, at);
  const BlurTaps along_rows = gaussian_taps(kernel.width, kernel.sigma);
  const BlurTaps along_columns = gaussian_taps(kernel.height, kernel.sigma);
  blur(in.view(), along_rows, along_columns, out.view());
  std::vector<int> columns(static_cast<std::size_t>(shape.width));
  for (std::int64_t y = 0; y < shape.height; ++y)
    for (std::int64_t c = 0; c < shape.channels; ++c) {
      for (std::int64_t x = 0; x < shape.width; ++x)
        columns[static_cast<std::size_t>(x)] = column_value(in.view(), along_columns, y, x, c);
      for (std::int64_t x = 0; x < shape.width; ++x) {
        int sum = 0;
        for (int k = 0; k <= along_rows.radius; ++k) {
          const int pair = columns[static_cast<std::size_t>(mirrored(x - k, shape.width))] +
                           columns[static_cast<std::size_t>(mirrored(x + k, shape.width))];
          sum += product(pair, along_rows.weights[static_cast<std::size_t>(k)]);
        }
        const int wanted = static_cast<int>(std::floor(sum / 128.0 + 0.5)) + 128;
        ASSERT_EQ(value_at(out.view(), y, x, c), wanted)
            << shape.height << "x" << shape.width << "x" << shape.channels << ", kernel " << kernel.width
            << "x" << kernel.height << ", at " << y << ", " << x << ", " << c;
      }
    }
  ASSERT_TRUE(out.gaps_are_untouched());
}

TEST_P(KernelBlur, IsItsDefinition) {
  for (const std::int64_t channels : {1, 3, 4})
    for (const auto& [height, width] : {std::pair{1, 1}, {1, 9}, {2, 2}, {5, 3}, {17, 33}, {40, 71}})
      for (const Sizes& kernel : kKernels)
        for (const At at : {At::kEnd, At::kStart})
          expect_definition({height, width, channels, (height + width) % 4, 0, 255}, kernel, at);
}

TEST_P(KernelBlur, IsItsDefinitionWhereARowIsSeveralBands) {
  for (const Sizes& kernel : {Sizes{11, 5, 2.0}, Sizes{127, 3, 1000.0}}) {
    expect_definition({3, 4'096 + 1, 1, 2, 0, 255}, kernel, At::kEnd);
    expect_definition({4, 2 * 1'365 + 700, 3, 0, 0, 255}, kernel, At::kStart);
  }
}

TEST_P(KernelBlur, LeavesPicturesOfOneValue) {
  for (int value = 0; value < 256; ++value) {
    const NoisyPicture in({3, 70, 3, 0, value, value});
    for (const Sizes& kernel : kKernels) {
      const NoisyPicture out({3, 70, 3, 0, 0, 255});
      blur(in.view(), gaussian_taps(kernel.width, kernel.sigma), gaussian_taps(kernel.height, kernel.sigma),
           out.view());
      for (std::int64_t y = 0; y < 3; ++y)
        for (std::int64_t i = 0; i < 210; ++i) ASSERT_EQ(out.view().row(y)[i], value);
    }
  }
}

TEST_P(KernelBlur, DoesNotWrapBetweenBlackAndWhite) {
  const NoisyPicture in({64, 300, 1, 0, 0, 255});
  for (std::int64_t y = 0; y < 64; ++y)
    for (std::int64_t x = 0; x < 300; ++x) in.view().row(y)[x] = x < 150 ? 0 : 255;
  const NoisyPicture out({64, 300, 1, 0, 0, 255});
  for (const Sizes& kernel : kKernels) {
    blur(in.view(), gaussian_taps(kernel.width, kernel.sigma), gaussian_taps(kernel.height, kernel.sigma),
         out.view());
    for (std::int64_t y = 0; y < 64; ++y)
      for (std::int64_t x = 1; x < 300; ++x)
        ASSERT_LE(value_at(out.view(), y, x - 1, 0), value_at(out.view(), y, x, 0))
            << kernel.width << " " << x;
  }
}

TEST_P(KernelBlur, IsWithinOneLevelOfTheExactFilter) {
  const NoisyPicture in({60, 50, 3, 0, 0, 255});
  const NoisyPicture out({60, 50, 3, 0, 0, 255});
  for (const Sizes& kernel : {Sizes{3, 3, 0.4}, Sizes{5, 9, 1.3}, Sizes{23, 23, 4.0}, Sizes{47, 47, 11.0}}) {
    const auto exact_weights = [&](int size) {
      std::vector<double> weights;
      for (int k = -(size / 2); k <= size / 2; ++k)
        weights.push_back(std::exp(-0.5 * k * k / (kernel.sigma * kernel.sigma)));
      const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
      for (double& weight : weights) weight /= sum;
      return weights;
    };
    const auto across = exact_weights(kernel.width);
    const auto down = exact_weights(kernel.height);
    blur(in.view(), gaussian_taps(kernel.width, kernel.sigma), gaussian_taps(kernel.height, kernel.sigma),
         out.view());
    for (std::int64_t y = 0; y < 60; y += 3)
      for (std::int64_t x = 0; x < 50; x += 2) {
        double sum = 0;
        for (std::size_t j = 0; j < down.size(); ++j)
          for (std::size_t i = 0; i < across.size(); ++i)
            sum += down[j] * across[i] *
                   value_at(in.view(), mirrored(y + static_cast<std::int64_t>(j) - kernel.height / 2, 60),
                            mirrored(x + static_cast<std::int64_t>(i) - kernel.width / 2, 50), 1);
        ASSERT_LT(std::abs(value_at(out.view(), y, x, 1) - sum), 0.75)
            << kernel.width << " " << y << ", " << x;
      }
  }
}

TEST(BlurTaps, AddUpAndEndWhereTheyRoundToNothing) {
  for (int size = 1; size <= 127; size += 2)
    for (const double sigma : {1e-3, 0.1, 0.3, 1.0, 2.5, 20.0, 1e3}) {
      const BlurTaps taps = gaussian_taps(size, sigma);
      EXPECT_LE(taps.radius, size / 2);
      EXPECT_EQ(std::accumulate(taps.weights.begin(), taps.weights.begin() + taps.radius + 1, 0), 16'384);
      EXPECT_GT(taps.weights[static_cast<std::size_t>(taps.radius)], 0);
    }
  EXPECT_EQ(gaussian_taps(127, 0.1).radius, 0);
  EXPECT_EQ(gaussian_taps(127, 1e3).radius, 63);
}

}  // namespace
}  // namespace carya::transforms
