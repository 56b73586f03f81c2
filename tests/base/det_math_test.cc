#include "base/det_math.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include "base/hash.h"

namespace carya {
namespace {

/// Distance of `value` from the extended-precision `truth`, in units of the last place of the double nearest
/// to it.
double ulps(double value, long double truth) {
  const double nearest = static_cast<double>(truth);
  const double unit =
      std::nextafter(std::abs(nearest), std::numeric_limits<double>::infinity()) - std::abs(nearest);
  return static_cast<double>(std::abs(static_cast<long double>(value) - truth) / unit);
}

TEST(DetMath, ExpIsWithinTwoUlp) {
  std::mt19937_64 random(1);
  std::uniform_real_distribution<double> wide(-700, 700), narrow(-1, 1);
  for (int i = 0; i < 200'000; ++i)
    for (double x : {wide(random), narrow(random)})
      ASSERT_LE(ulps(det_exp(x), std::exp((long double)x)), 2.0) << x;
  for (double x : {-700.0, 700.0, 1e-300, -1e-300})
    EXPECT_LE(ulps(det_exp(x), std::exp((long double)x)), 2.0) << x;
  EXPECT_EQ(det_exp(0.0), 1.0);
}

TEST(DetMath, LogIsWithinTwoUlp) {
  std::mt19937_64 random(2);
  std::uniform_real_distribution<double> exponent(-1021, 1023), near_one(0.5, 2.0), close(-1e-6, 1e-6);
  for (int i = 0; i < 200'000; ++i)
    for (double x : {std::exp2(exponent(random)), near_one(random), 1.0 + close(random)})
      ASSERT_LE(ulps(det_log(x), std::log((long double)x)), 2.0) << x;
  for (double x : {0x1p-1022, std::numeric_limits<double>::max(), 0.75, 4.0 / 3})
    EXPECT_LE(ulps(det_log(x), std::log((long double)x)), 2.0) << x;
  EXPECT_EQ(det_log(1.0), 0.0);
}

TEST(DetMath, SinAndCosAreWithinTwoUlp) {
  std::mt19937_64 random(3);
  std::uniform_real_distribution<double> wide(-1e6, 1e6), turn(-7, 7), narrow(-0.8, 0.8);
  for (int i = 0; i < 200'000; ++i)
    for (double x : {wide(random), turn(random), narrow(random)}) {
      ASSERT_LE(ulps(det_sin(x), std::sin((long double)x)), 2.0) << x;
      ASSERT_LE(ulps(det_cos(x), std::cos((long double)x)), 2.0) << x;
    }
  // Doubles next to multiples of pi / 2, where almost everything cancels.
  for (int k = 1; k < 600'000; k += 37) {
    const double x = static_cast<double>(k * 1.5707963267948966192313216916397514L);
    ASSERT_LE(ulps(det_sin(x), std::sin((long double)x)), 2.0) << x;
    ASSERT_LE(ulps(det_cos(x), std::cos((long double)x)), 2.0) << x;
  }
  EXPECT_EQ(det_sin(0.0), 0.0);
  EXPECT_EQ(det_cos(0.0), 1.0);
}

// The bits are part of the stream. The same digest must come from both compilers and every machine.
TEST(DetMath, BitsAreTheSameEverywhere) {
  Hasher128 exps, logs, waves;
  const auto add = [](Hasher128& hasher, double value) {
    hasher.update(std::bit_cast<std::uint64_t>(value));
  };
  for (int i = -7000; i <= 7000; ++i) add(exps, det_exp(i * 0.1));
  for (int i = 1; i <= 20'000; ++i) add(logs, det_log(i * 0.01));
  for (int i = -20'000; i <= 20'000; ++i) {
    add(waves, det_sin(i * 49.9));
    add(waves, det_cos(i * 0.01));
  }
  EXPECT_EQ(exps.digest().hex(), "e7b4a4585770e664fe6c683f5e999440");
  EXPECT_EQ(logs.digest().hex(), "59a60b4c885909011fa474aa12306b40");
  EXPECT_EQ(waves.digest().hex(), "18701dd5baab03b0b99e736f47bc9a0e");
}

TEST(DetMathDeathTest, RefusesWhatLiesOutsideItsRange) {
  EXPECT_DEATH(det_exp(701), "700");
  EXPECT_DEATH(det_log(0.0), "x >=");
  EXPECT_DEATH(det_sin(2e6), "1e6");
  EXPECT_DEATH(det_cos(std::numeric_limits<double>::quiet_NaN()), "1e6");
}

}  // namespace
}  // namespace carya
