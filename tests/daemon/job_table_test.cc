#include "loader/daemon/job_table.h"

#include <gtest/gtest.h>

namespace carya::loader {
namespace {

TEST(MemoryShare, ReadAheadShrinksFirstThenSlotsAndTheyGrowBackInTheOtherOrder) {
  MemoryShare share;
  EXPECT_FALSE(share.follow(0)) << "all of it is the most";
  EXPECT_TRUE(share.follow(40));
  EXPECT_DOUBLE_EQ(share.read_ahead(), 0.5);
  EXPECT_FALSE(share.follow(5)) << "neither high nor low";
  while (share.slots() == 1) ASSERT_TRUE(share.follow(99));
  const double least = share.read_ahead();
  EXPECT_GT(least, 0) << "one chunk is always read";
  EXPECT_LT(least, 0.1);
  for (int i = 0; i < 20; ++i) share.follow(99);
  EXPECT_GT(share.slots(), 0);
  EXPECT_FALSE(share.follow(99));
  while (share.slots() < 1) {
    EXPECT_DOUBLE_EQ(share.read_ahead(), least);
    ASSERT_TRUE(share.follow(0));
  }
  for (int i = 0; i < 20; ++i) share.follow(0);
  EXPECT_DOUBLE_EQ(share.read_ahead(), 1);
}

}  // namespace
}  // namespace carya::loader
