#include "loader/cache/write_budget.h"

#include <gtest/gtest.h>

namespace carya::loader {
namespace {

constexpr std::int64_t kHour = WriteBudget::kHourNs;

TEST(WriteBudget, NoDayHasMoreThanItsBytes) {
  WriteBudget budget(100);
  EXPECT_TRUE(budget.take(60, 5 * kHour));
  EXPECT_FALSE(budget.take(41, 5 * kHour));
  EXPECT_TRUE(budget.take(40, 6 * kHour + 1));
  EXPECT_EQ(budget.written(6 * kHour + 2), 100);
  EXPECT_FALSE(budget.take(1, 29 * kHour)) << "24 hours and a moment later";
  EXPECT_TRUE(budget.take(60, 30 * kHour)) << "what was written in the first hour is a day old";
  EXPECT_FALSE(budget.take(1, 30 * kHour + 1));
  EXPECT_EQ(budget.written(31 * kHour), 60);
  EXPECT_EQ(budget.written(500 * kHour), 0);
}

TEST(WriteBudget, WhatWasNotWrittenIsGivenBack) {
  WriteBudget budget(100);
  ASSERT_TRUE(budget.take(100, kHour));
  budget.give_back(30);
  EXPECT_FALSE(budget.take(31, kHour));
  EXPECT_TRUE(budget.take(30, kHour));
}

TEST(WriteBudget, ALowerLimitHoldsForWhatComes) {
  WriteBudget budget(WriteBudget::kNoLimit);
  EXPECT_TRUE(budget.take(1'000, kHour));
  budget.set_limit(500);
  EXPECT_FALSE(budget.take(1, kHour));
  EXPECT_TRUE(budget.take(500, 26 * kHour));
}

}  // namespace
}  // namespace carya::loader
