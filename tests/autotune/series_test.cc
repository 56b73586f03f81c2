#include "autotune/controller/series.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

namespace carya::autotune {
namespace {

TEST(Series, StudentsQuantileIsThatOfTheTables) {
  EXPECT_NEAR(student(1.96, 4), 2.776, 0.03);
  EXPECT_NEAR(student(1.96, 10), 2.228, 0.005);
  EXPECT_NEAR(student(1.96, 1000), 1.962, 0.001);
  EXPECT_TRUE(std::isinf(student(1.96, 0)));
}

TEST(Series, TheMeanLiesWithinItsErrorNineteenTimesInTwenty) {
  std::mt19937_64 random(1);
  std::normal_distribution<double> noise(100, 20);
  for (const int count : {5, 20, 100}) {
    int within = 0;
    for (int trial = 0; trial < 2000; ++trial) {
      Series series;
      for (int i = 0; i < count; ++i) series.add(noise(random));
      within += std::abs(series.mean() - 100) <= 1.96 * series.relative_error() * series.mean() ? 1 : 0;
    }
    EXPECT_GT(within, 1860) << count;
    EXPECT_LT(within, 1940) << count;
  }
}

TEST(Series, NoiseAloneIsNoChange) {
  for (const double share : {0.05, 0.1, 0.3}) {
    std::mt19937_64 random(2);
    std::normal_distribution<double> noise(1, share);
    Series series;
    int changes = 0;
    for (int i = 0; i < 50'000; ++i) changes += series.add(std::max(0.01, noise(random))) ? 1 : 0;
    EXPECT_LE(changes, 10) << share;  // in 14 hours of one measurement a second
  }
}

TEST(Series, AThirdIsSeenAtTheSecondMeasurementWhereNoiseIsSmall) {
  Series series;
  for (int i = 0; i < 20; ++i) ASSERT_FALSE(series.add(100 + i % 3));
  EXPECT_FALSE(series.add(33));  // one may be an accident
  EXPECT_TRUE(series.add(33.5));
  EXPECT_EQ(series.count(), 2U);  // nothing of before is left in the mean
  EXPECT_NEAR(series.mean(), 33.25, 1e-9);
}

TEST(Series, WhatIsHalfOfEachWorldBelongsToNone) {
  Series series;
  for (int i = 0; i < 20; ++i) series.add(i % 2 == 0 ? 99 : 101);
  EXPECT_FALSE(series.add(180));  // the world changed in the middle of it
  EXPECT_TRUE(series.add(300));
  EXPECT_EQ(series.mean(), 300);
}

TEST(Series, OneOutlierIsForgiven) {
  std::mt19937_64 random(3);
  std::normal_distribution<double> noise(100, 5);
  Series series;
  for (int i = 0; i < 60; ++i) series.add(noise(random));
  EXPECT_FALSE(series.add(300));
  for (int i = 0; i < 3; ++i) series.add(noise(random));
  EXPECT_NEAR(series.mean(), 100, 5);
}

TEST(Series, ASmallLastingChangeIsSeenInTime) {
  std::mt19937_64 random(4);
  std::normal_distribution<double> noise(1, 0.1);
  Series series;
  for (int i = 0; i < 100; ++i) series.add(noise(random));
  bool seen = false;
  for (int i = 0; i < 100 && !seen; ++i) seen = series.add(1.15 * noise(random));
  EXPECT_TRUE(seen);
}

TEST(Series, ADriftTooSlowForTheNewestIsSeenAgainstTheBeginning) {
  std::mt19937_64 random(5);
  std::normal_distribution<double> noise(1, 0.1);
  Series series;
  for (int i = 0; i < 300; ++i) ASSERT_FALSE(series.add(noise(random)));
  int seen = 0;
  for (int i = 0; i < 1500; ++i) seen += series.add((1 + 0.2 * i / 1500) * noise(random)) ? 1 : 0;
  EXPECT_GE(seen, 1);
  EXPECT_LE(seen, 3);
  EXPECT_NEAR(series.mean(), 1.19, 0.04);
}

TEST(Series, WhatCannotBeIsLeftOut) {
  Series series;
  for (const double bad : {0.0, -1.0, std::nan(""), std::numeric_limits<double>::infinity()}) series.add(bad);
  EXPECT_EQ(series.count(), 0U);
  EXPECT_EQ(series.mean(), 0);
  EXPECT_TRUE(std::isinf(series.relative_error()));
  series.add(5);
  EXPECT_EQ(series.mean(), 5);
}

TEST(Series, ALongLifeForgetsNothingNumerically) {
  Series series;
  for (int i = 0; i < 1'000'000; ++i) series.add(1e9 + i % 7);
  EXPECT_NEAR(series.mean(), 1e9 + 3, 0.5);
}

}  // namespace
}  // namespace carya::autotune
