// When chunks try the page cache, and when they are read ahead instead.
#include "loader/read/cached_tries.h"

#include <gtest/gtest.h>

namespace carya::loader {
namespace {

constexpr std::int64_t kMillisecond = 1'000'000;

/// Begins as many as it may, ends them all, and says how many those were.
int round(CachedTries& tries, bool found, std::int64_t now_ns, std::int64_t storage_ns = 0, int most = 1000) {
  int begun = 0;
  for (; begun < most && tries.may_begin(now_ns); ++begun) tries.begin();
  for (int i = 0; i < begun; ++i) tries.end(found, now_ns, storage_ns);
  return begun;
}

TEST(CachedTries, BeginWithOneAndGrowWhileAllIsFound) {
  CachedTries tries;
  EXPECT_FALSE(tries.is_warm());
  EXPECT_EQ(round(tries, true, 0), 1);
  EXPECT_EQ(round(tries, true, 0), 2);
  EXPECT_EQ(round(tries, true, 0), 8) << "twice as many after each that was found";
  EXPECT_TRUE(tries.is_warm());
  EXPECT_EQ(round(tries, true, 0), 1000);
}

TEST(CachedTries, PauseAfterOneInVainTwiceAsLongEachTime) {
  CachedTries tries;
  std::int64_t now = 0;
  for (const std::int64_t pause : {50, 100, 200, 400, 800, 1600, 3200, 6400, 10'000, 10'000}) {
    EXPECT_EQ(round(tries, false, now), 1);
    EXPECT_EQ(round(tries, false, now + pause * kMillisecond - 1), 0) << pause;
    now += pause * kMillisecond;
  }
  EXPECT_EQ(round(tries, true, now), 1);
}

TEST(CachedTries, PauseForLongWhereStorageIsSlow) {
  CachedTries tries;
  EXPECT_EQ(round(tries, false, 0, 100 * kMillisecond), 1);
  EXPECT_EQ(round(tries, false, 1999 * kMillisecond), 0);
  EXPECT_EQ(round(tries, false, 2000 * kMillisecond), 1);
}

TEST(CachedTries, ThoseUnderWayAtTheSameTimeAreOneFailure) {
  CachedTries tries;
  for (int i = 0; i < 4; ++i) round(tries, true, 0);
  EXPECT_EQ(round(tries, false, 0, 0, 30), 30);
  EXPECT_EQ(round(tries, true, 49 * kMillisecond), 0);
  EXPECT_EQ(round(tries, true, 50 * kMillisecond), 1) << "one pause, not thirty";
}

TEST(CachedTries, OneInVainAmongManyIsNothing) {
  CachedTries tries;
  while (!tries.is_warm()) round(tries, true, 0);
  EXPECT_EQ(round(tries, true, 0, 0, 256), 256);
  EXPECT_EQ(round(tries, false, 0, 0, 1), 1);
  EXPECT_TRUE(tries.is_warm());
  EXPECT_EQ(round(tries, true, 0, 0, 10), 10);
  EXPECT_EQ(round(tries, false, 0, 0, 1), 1) << "two of a dozen are not";
  EXPECT_FALSE(tries.is_warm());
}

TEST(CachedTries, WhatIsDroppedMakesRoom) {
  CachedTries tries;
  ASSERT_TRUE(tries.may_begin(0));
  tries.begin();
  EXPECT_FALSE(tries.may_begin(0));
  tries.drop();
  EXPECT_TRUE(tries.may_begin(0));
}

}  // namespace
}  // namespace carya::loader
