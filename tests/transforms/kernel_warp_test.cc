#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "tests/transforms/noisy_picture.h"
#include "transforms/kernels/warp/warp.h"
#include "transforms/kernels/warp/warp_grid.h"
#include "transforms/simd/targets.h"

namespace carya::transforms {
namespace {

using Matrix = std::array<double, 6>;
using At = GuardedBytes::At;

// A turn around the middle of height x width, stretched, sheared and shifted: what ops make, and what they
// never would.
std::vector<Matrix> matrices(std::int64_t height, std::int64_t width) {
  const auto around = [&](double a, double b, double d, double e, double x = 0, double y = 0) {
    const double cx = static_cast<double>(width) / 2 + x;
    const double cy = static_cast<double>(height) / 2 + y;
    return Matrix{a, b, cx - a * cx - b * cy, d, e, cy - d * cx - e * cy};
  };
  return {around(1, 0, 0, 1),
          around(1, 0, 0, 1, 3, -2),
          Matrix{1, 0, 2.25, 0, 1, -1.5},
          around(0.8660254, 0.5, -0.5, 0.8660254),
          around(-0.3, 0.95, -0.95, -0.3),
          around(1 / 0.37, 0, 0, 1 / 0.74),
          around(-0.3, 0, 0, 0.7, 0.5, 0.25),
          around(0, 1, -1, 0),
          around(-1, 0, 0, -1),
          around(0.4, 0.1, -0.2, 0.5),
          around(2.7, -0.4, 0.9, 1.8),
          around(1, 0.7, 0, 1),
          Matrix{1, 0, 1e7, 0, 1, 0},
          Matrix{40'000, 3, 7, -2, 1e-6, 3},
          Matrix{-3.3e6, 3.3e6, 1e12, 3.3e6, 3.3e6, -1e12},
          Matrix{0, 0, 1.5, 0, 0, 0.5}};
}

std::vector<NoisyPicture::Shape> shapes() {
  std::vector<NoisyPicture::Shape> all;
  for (const std::int64_t channels : {1, 3, 4})
    for (const auto& [height, width] :
         {std::pair{1, 1}, {1, 9}, {2, 2}, {5, 3}, {17, 33}, {64, 71}, {40, 200}})
      all.push_back({height, width, channels, (height + width) % 4, 0, 255});
  all.push_back({3, 1'100, 3, 1, 0, 255});  // more than one band of columns
  return all;
}

// Every test runs on each SIMD target.
class KernelWarp : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { ASSERT_TRUE(force_simd_target(GetParam())); }
  void TearDown() override { ASSERT_TRUE(force_simd_target("")); }
};
INSTANTIATE_TEST_SUITE_P(Targets, KernelWarp, ::testing::ValuesIn(simd_targets()),
                         [](const auto& target) { return target.param; });

constexpr std::array<std::uint8_t, 4> kFill{7, 77, 177, 250};

Region whole(const ImageView& in) {
  return {0, 0, in.height, in.width};
}

WarpSource all_of(const ImageView& in) {
  return {in, 0, 0, in.height, in.width};
}

// A copy of what warp_reads() says, between pages that may not be read.
class PartOfPicture {
 public:
  PartOfPicture(const ImageView& in, const Region& part, At at)
      : copy_({part.height, part.width, in.channels, 0, 0, 255}, at),
        source_{copy_.view(), part.top, part.left, in.height, in.width} {
    for (std::int64_t y = 0; y < part.height; ++y)
      std::memcpy(copy_.view().row(y), in.row(part.top + y) + part.left * in.channels,
                  static_cast<std::size_t>(part.width * in.channels));
  }
  const WarpSource& source() const { return source_; }

 private:
  NoisyPicture copy_;
  WarpSource source_;
};

// warp() gives `definition(in, matrix, y, x, c)` for every value of the whole picture and of parts of it,
// from no more of the picture than it says, reads and writes within its memory.
template <typename Definition>
void expect_definition(Interpolation interpolation, Definition definition) {
  for (const NoisyPicture::Shape& shape : shapes())
    for (const At at : {At::kEnd, At::kStart}) {
      const NoisyPicture in(shape, at);
      const auto all = matrices(shape.height, shape.width);
      const Region inner{shape.height / 3, shape.width / 2,
                         shape.height - shape.height / 3 - shape.height / 4, shape.width - shape.width / 2};
      for (const Region& window : {whole(in.view()), inner, Region{shape.height - 1, 0, 1, 1}})
        for (std::size_t m = 0; m < all.size(); ++m) {
          const NoisyPicture out({window.height, window.width, shape.channels, 5, 0, 255}, at);
          const WarpSpec spec{all[m], interpolation, kFill};
          const PartOfPicture part(in.view(), warp_reads(spec, window, shape.height, shape.width), at);
          warp(part.source(), spec, window, out.view());
          for (std::int64_t y = 0; y < window.height; ++y)
            for (std::int64_t x = 0; x < window.width; ++x)
              for (std::int64_t c = 0; c < shape.channels; ++c)
                ASSERT_EQ(value_at(out.view(), y, x, c),
                          definition(in.view(), all[m], window.top + y, window.left + x, c))
                    << shape.height << "x" << shape.width << "x" << shape.channels << ", matrix " << m
                    << ", window " << window.top << ", " << window.left << ", at " << y << ", " << x << ", "
                    << c;
          ASSERT_TRUE(out.gaps_are_untouched());
        }
    }
}

__extension__ using Wide = __int128;

// Where a pixel comes from along one axis, in whole 1 / `unit` pixels.
Wide place_of(double a, double b, double origin, std::int64_t y, std::int64_t x, double unit) {
  const auto fix = [&](double v) { return static_cast<Wide>(std::floor(v * unit + 0.5)); };
  return fix(origin + a * 0.5 + b * 0.5) + fix(b) * y + fix(a) * x;
}

// Pillow's ImagingScaleAffine: a table made by adding up.
std::int64_t scaled_place(double step, double origin, std::int64_t at, std::int64_t size) {
  double place = origin + step * 0.5;
  for (std::int64_t i = 0; i < at; ++i) place += step;
  return place >= 0 && place < static_cast<double>(size) ? static_cast<std::int64_t>(place) : -1;
}

// That, or Pillow's affine_fixed where it would be used; else by 2^-32.
int nearest_value(const ImageView& in, const Matrix& m, std::int64_t y, std::int64_t x, std::int64_t c) {
  const auto w = static_cast<double>(in.width);
  const auto h = static_cast<double>(in.height);
  if (m[1] == 0 && m[3] == 0) {
    const std::int64_t from_x = scaled_place(m[0], m[2], x, in.width);
    const std::int64_t from_y = scaled_place(m[4], m[5], y, in.height);
    return from_x < 0 || from_y < 0 ? kFill[static_cast<std::size_t>(c)] : value_at(in, from_y, from_x, c);
  }
  bool fixed = true;
  for (const auto& [cx, cy] : {std::pair{0.0, 0.0}, {w, h}, {0.0, h}, {w, 0.0}})
    fixed = fixed && std::abs(cx * m[0] + cy * m[1] + m[2]) < 32'768 &&
            std::abs(cx * m[3] + cy * m[4] + m[5]) < 32'768;
  const int bits = fixed ? 16 : 32;
  const double unit = fixed ? 65'536.0 : 0x1p32;
  const Wide from_x = place_of(m[0], m[1], m[2], y, x, unit) >> bits;
  const Wide from_y = place_of(m[3], m[4], m[5], y, x, unit) >> bits;
  if (from_x < 0 || from_x >= in.width || from_y < 0 || from_y >= in.height)
    return kFill[static_cast<std::size_t>(c)];
  return value_at(in, static_cast<std::int64_t>(from_y), static_cast<std::int64_t>(from_x), c);
}

int bilinear_value(const ImageView& in, const Matrix& m, std::int64_t y, std::int64_t x, std::int64_t c) {
  const Wide at_x = place_of(m[0], m[1], m[2], y, x, 0x1p32);
  const Wide at_y = place_of(m[3], m[4], m[5], y, x, 0x1p32);
  if (at_x < 0 || (at_x >> 32) >= in.width || at_y < 0 || (at_y >> 32) >= in.height)
    return kFill[static_cast<std::size_t>(c)];
  const std::int64_t fx = static_cast<std::int64_t>(at_x) - (std::int64_t{1} << 31);
  const std::int64_t fy = static_cast<std::int64_t>(at_y) - (std::int64_t{1} << 31);
  const std::int64_t left = fx >> 32;
  const std::int64_t upper = fy >> 32;
  const auto value = [&](std::int64_t row, std::int64_t column) {
    return value_at(in, std::clamp<std::int64_t>(row, 0, in.height - 1),
                    std::clamp<std::int64_t>(column, 0, in.width - 1), c);
  };
  const auto down = static_cast<int>((fy >> 17) & 0x7FFF);
  const auto across = static_cast<int>((fx >> 18) & 0x3FFF);
  const auto level = [&](std::int64_t column) {  // 1/128
    const int from = value(upper, column) * 128;
    const int to = value(upper + 1, column) * 128;
    return from + (((to - from) * down + 16'384) >> 15);
  };
  return (level(left) * (16'384 - across) + level(left + 1) * across) >> 21;
}

TEST_P(KernelWarp, NearestTakesThePixelsThatPillowTakes) {
  expect_definition(Interpolation::kNearest, nearest_value);
}

TEST_P(KernelWarp, BilinearIsItsDefinition) {
  expect_definition(Interpolation::kBilinear, bilinear_value);
}

TEST_P(KernelWarp, BilinearIsWithinOneLevelOfTheExactFilter) {
  const NoisyPicture in({90, 120, 3, 0, 0, 255});
  const NoisyPicture out({90, 120, 3, 0, 0, 255});
  const ImageView view = in.view();
  std::int64_t different = 0;
  for (const Matrix& m : {Matrix{0.90713, 0.30271, -4.1, -0.29393, 0.91137, 12.7},
                          Matrix{0.31317, 0.02071, 30.3, -0.07393, 0.41419, 20.9}}) {
    warp(all_of(view), {m, Interpolation::kBilinear, kFill}, whole(view), out.view());
    for (std::int64_t y = 0; y < 90; ++y)
      for (std::int64_t x = 0; x < 120; ++x) {
        const double sx =
            m[0] * (static_cast<double>(x) + 0.5) + m[1] * (static_cast<double>(y) + 0.5) + m[2];
        const double sy =
            m[3] * (static_cast<double>(x) + 0.5) + m[4] * (static_cast<double>(y) + 0.5) + m[5];
        if (sx < 1 || sy < 1 || sx > 119 || sy > 89) continue;
        const auto left = static_cast<std::int64_t>(sx - 0.5);
        const auto upper = static_cast<std::int64_t>(sy - 0.5);
        const double across = sx - 0.5 - static_cast<double>(left);
        const double down = sy - 0.5 - static_cast<double>(upper);
        for (std::int64_t c = 0; c < 3; ++c) {
          const auto row = [&](std::int64_t r) {
            return value_at(view, r, left, c) * (1 - across) + value_at(view, r, left + 1, c) * across;
          };
          const int exact = static_cast<int>(row(upper) * (1 - down) + row(upper + 1) * down);
          const int difference = std::abs(value_at(out.view(), y, x, c) - exact);
          ASSERT_LE(difference, 1) << y << ", " << x << ", " << c;
          different += difference;
        }
      }
  }
  EXPECT_LT(different, 2 * 90 * 120 * 3 / 100);
}

TEST_P(KernelWarp, TheIdentityCopies) {
  for (const NoisyPicture::Shape& shape : shapes())
    for (const Interpolation interpolation : {Interpolation::kNearest, Interpolation::kBilinear}) {
      const NoisyPicture in(shape);
      const NoisyPicture out(shape);
      warp(all_of(in.view()), {.interpolation = interpolation}, whole(in.view()), out.view());
      for (std::int64_t y = 0; y < shape.height; ++y)
        ASSERT_EQ(
            std::memcmp(in.view().row(y), out.view().row(y), static_cast<std::size_t>(in.view().row_bytes())),
            0);
    }
}

TEST(WarpGrid, FindsTheColumnsWhosePlacesAreInTheBox) {
  constexpr std::int64_t kHeight = 23;
  constexpr std::int64_t kWidth = 41;
  Noise noise(5);
  std::vector<Matrix> all = matrices(kHeight, kWidth);
  for (int i = 0; i < 300; ++i) {
    Matrix m;
    for (double& v : m) v = static_cast<double>(noise.below(2001) - 1000) / 250;
    m[2] *= 10;
    m[5] *= 10;
    all.push_back(m);
  }
  const std::int64_t one = WarpGrid::kPixel;
  const std::vector<WarpGrid::Box> boxes = {{0, kWidth * one, 0, kHeight * one},
                                            {one / 2, (kWidth - 2) * one + one / 2, one / 2, one},
                                            {0, 1, 0, one * kHeight},
                                            {one / 2, -one / 2, 0, one}};
  std::int64_t found = 0;
  for (const Matrix& m : all)
    for (const WarpGrid::Box& box : boxes) {
      const WarpGrid grid(m, kHeight, kWidth, false);
      for (std::int64_t y = 0; y < kHeight; ++y) {
        const auto columns = grid.within(y, kWidth, box);
        ASSERT_LE(columns.begin, columns.end);
        for (std::int64_t x = 0; x < kWidth; ++x) {
          const Wide at_x = place_of(m[0], m[1], m[2], y, x, 0x1p32);
          const Wide at_y = place_of(m[3], m[4], m[5], y, x, 0x1p32);
          const bool inside =
              at_x >= box.low_x && at_x < box.high_x && at_y >= box.low_y && at_y < box.high_y;
          if (inside) {
            ASSERT_TRUE(grid.at(y, x).x == at_x && grid.at(y, x).y == at_y);
          }
          ASSERT_EQ(inside, x >= columns.begin && x < columns.end) << y << ", " << x;
          found += inside;
        }
      }
    }
  EXPECT_GT(found, 10'000);
}

}  // namespace
}  // namespace carya::transforms
