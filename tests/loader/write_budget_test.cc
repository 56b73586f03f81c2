#include "loader/cache/write_budget.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "tests/io/temp_dir.h"

namespace carya::loader {
namespace {

constexpr std::int64_t kHour = WriteBudget::kHourNs;

/// So long after the start of the machine, whose clock on the wall is right.
WriteBudget::Moment at(std::int64_t ns) {
  return {.monotonic_ns = ns, .wall_s = 1'800'000'000 + ns / 1'000'000'000};
}

/// Into a folder that does not exist: the process counts alone.
bool take(WriteBudget& budget, std::uint64_t bytes, std::int64_t ns) {
  return budget.take("/nowhere/at all", bytes, at(ns));
}

TEST(WriteBudget, NoDayHasMoreThanItsBytes) {
  WriteBudget budget(100);
  EXPECT_TRUE(take(budget, 60, 5 * kHour));
  EXPECT_FALSE(take(budget, 41, 5 * kHour));
  EXPECT_TRUE(take(budget, 40, 6 * kHour + 1));
  EXPECT_EQ(budget.written(at(6 * kHour + 2)), 100);
  EXPECT_FALSE(take(budget, 1, 29 * kHour)) << "24 hours and a moment later";
  EXPECT_TRUE(take(budget, 60, 30 * kHour)) << "what was written in the first hour is a day old";
  EXPECT_FALSE(take(budget, 1, 30 * kHour + 1));
  EXPECT_EQ(budget.written(at(31 * kHour)), 60);
  EXPECT_EQ(budget.written(at(500 * kHour)), 0);
}

TEST(WriteBudget, WhatWasNotWrittenIsGivenBack) {
  WriteBudget budget(100);
  ASSERT_TRUE(take(budget, 100, kHour));
  budget.give_back("", 30, at(kHour));
  EXPECT_FALSE(take(budget, 31, kHour));
  EXPECT_TRUE(take(budget, 30, kHour));
}

TEST(WriteBudget, ALowerLimitHoldsForWhatComes) {
  WriteBudget budget(WriteBudget::kNoLimit);
  EXPECT_TRUE(take(budget, 1'000, kHour));
  budget.set_limit(500);
  EXPECT_FALSE(take(budget, 1, kHour));
  EXPECT_TRUE(take(budget, 500, 26 * kHour));
}

TEST(WriteBudget, AJobsOwnIsBelowThatOfWhoServesIt) {
  const auto all = std::make_shared<WriteBudget>(100);
  const auto one = WriteBudget::of_job(1, 60, all), other = WriteBudget::of_job(2, 60, all);
  EXPECT_EQ(WriteBudget::of_job(1, 60, all), one) << "its ranks share it";
  EXPECT_NE(one, other);
  EXPECT_TRUE(take(*one, 60, kHour));
  EXPECT_FALSE(take(*one, 1, kHour));
  EXPECT_EQ(all->written(at(kHour)), 60);
  EXPECT_FALSE(take(*other, 41, kHour)) << "all of them together";
  EXPECT_EQ(other->written(at(kHour)), 0) << "what is refused does not count";
  EXPECT_TRUE(take(*other, 40, kHour));
  other->give_back("/nowhere/at all", 10, at(kHour));
  EXPECT_EQ(all->written(at(kHour)), 90);
  EXPECT_EQ(other->written(at(kHour)), 30);
}

TEST(WriteBudget, AJobsOwnOutlivesItWhereNothingIsAbove) {
  const io::TempDir dir;
  const auto free = std::make_shared<WriteBudget>(WriteBudget::kNoLimit);
  for (const auto& above : {std::shared_ptr<WriteBudget>(), free}) {
    WriteBudget budget(100, above);
    budget.open_folder(dir.path(), at(kHour));
    EXPECT_EQ(budget.take(dir.path(), 80, at(kHour)), above == nullptr)
        << "the second finds what the first wrote";
  }
}

TEST(WriteBudget, ADaysBytesOutliveWhoWroteThem) {
  const io::TempDir dir;
  const auto take_here = [&](WriteBudget& budget, std::uint64_t bytes, std::int64_t ns) {
    return budget.take(dir.path(), bytes, at(ns));
  };
  {
    WriteBudget budget(100);
    EXPECT_TRUE(take_here(budget, 60, 5 * kHour));
    EXPECT_TRUE(take_here(budget, 20, 8 * kHour));
    budget.give_back(dir.path(), 10, at(8 * kHour));
  }
  WriteBudget budget(100);  // the machine was started anew meanwhile: the other clock begins again
  const auto later = [](std::int64_t ns) {
    return WriteBudget::Moment{.monotonic_ns = ns, .wall_s = at(9 * kHour + ns).wall_s};
  };
  budget.open_folder(dir.path(), later(1));
  EXPECT_EQ(budget.written(later(1)), 70);
  EXPECT_FALSE(budget.take(dir.path(), 31, later(2)));
  EXPECT_TRUE(budget.take(dir.path(), 30, later(3)));
  EXPECT_TRUE(budget.take(dir.path(), 60, later(21 * kHour))) << "the first 60 are 25 hours old";
  EXPECT_FALSE(budget.take(dir.path(), 1, later(21 * kHour)));
}

TEST(WriteBudget, TwoThatWriteAtTheSameTimeShareADay) {
  const io::TempDir dir;
  WriteBudget one(100), other(100);
  EXPECT_TRUE(one.take(dir.path(), 60, at(kHour)));
  EXPECT_TRUE(other.take(dir.path(), 30, at(kHour)));
  EXPECT_FALSE(one.take(dir.path(), 11, at(kHour)));
  EXPECT_EQ(one.written(at(kHour)), 60) << "what was refused does not count";
  EXPECT_TRUE(one.take(dir.path(), 10, at(kHour)));
}

TEST(WriteBudget, AWallClockThatJumpsAllowsNoSecondDay) {
  const io::TempDir dir;
  {
    WriteBudget budget(100);
    EXPECT_TRUE(budget.take(dir.path(), 90, at(kHour)));
  }
  WriteBudget budget(100);
  budget.open_folder(dir.path(), at(kHour));
  for (const std::int64_t jump_s : {1'000'000'000L, -1'000'000'000L, 3'600L, -3'600L, 0L})
    EXPECT_FALSE(
        budget.take(dir.path(), 11, {.monotonic_ns = 2 * kHour, .wall_s = at(2 * kHour).wall_s + jump_s}))
        << jump_s;
}

TEST(WriteBudget, WithoutALimitNothingIsLeftInTheFolder) {
  const io::TempDir dir;
  WriteBudget budget(WriteBudget::kNoLimit);
  EXPECT_TRUE(budget.take(dir.path(), 1'000, at(kHour)));
  EXPECT_TRUE(std::filesystem::is_empty(dir.path()));
}

}  // namespace
}  // namespace carya::loader
