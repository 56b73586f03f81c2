#include "remote/server/fair_queue.h"

#include <gtest/gtest.h>

#include <string>

namespace carya::remote {
namespace {

// The turns of 1 and 2, who always wait.
std::string turns(double weight1, double weight2, int count) {
  Turns turns;
  turns.wait(1, weight1);
  turns.wait(2, weight2);
  std::string order;
  for (int i = 0; i < count; ++i) {
    const std::uint64_t who = turns.next();
    turns.take_next();
    turns.wait(who, who == 1 ? weight1 : weight2);
    order += static_cast<char>('0' + who);
  }
  return order;
}

TEST(Turns, AreByWeight) {
  EXPECT_EQ(turns(1, 1, 6), "121212");
  EXPECT_EQ(turns(3, 1, 8), "11121112");
  EXPECT_EQ(turns(0.125, 1, 9), "222222212");
}

TEST(Turns, AreNotSavedUp) {
  Turns turns;
  turns.wait(1, 1);
  for (int i = 0; i < 100; ++i) {
    turns.take_next();
    turns.wait(1, 1);
  }
  turns.wait(2, 1);
  std::string order;
  for (int i = 0; i < 4; ++i) {
    const std::uint64_t who = turns.next();
    turns.take_next();
    turns.wait(who, 1);
    order += static_cast<char>('0' + who);
  }
  EXPECT_EQ(order, "1212");
}

TEST(Turns, WhoLeavesHasNone) {
  Turns turns;
  turns.wait(1, 1);
  turns.wait(2, 1);
  turns.leave(1);
  EXPECT_EQ(turns.next(), 2U);
  turns.leave(2);
  EXPECT_TRUE(turns.none_waits());
}

}  // namespace
}  // namespace carya::remote
