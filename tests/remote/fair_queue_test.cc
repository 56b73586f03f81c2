#include "remote/server/fair_queue.h"

#include <gtest/gtest.h>

#include <string>

namespace carya::remote {
namespace {

// The queue of 1 and 2, who always wait.
std::string queue(double weight1, double weight2, int count) {
  FairQueue queue;
  queue.wait(1, weight1);
  queue.wait(2, weight2);
  std::string order;
  for (int i = 0; i < count; ++i) {
    const std::uint64_t who = queue.next();
    queue.take_next();
    queue.wait(who, who == 1 ? weight1 : weight2);
    order += static_cast<char>('0' + who);
  }
  return order;
}

TEST(FairQueue, AreByWeight) {
  EXPECT_EQ(queue(1, 1, 6), "121212");
  EXPECT_EQ(queue(3, 1, 8), "11121112");
  EXPECT_EQ(queue(0.125, 1, 9), "222222212");
}

TEST(FairQueue, AreNotSavedUp) {
  FairQueue queue;
  queue.wait(1, 1);
  for (int i = 0; i < 100; ++i) {
    queue.take_next();
    queue.wait(1, 1);
  }
  queue.wait(2, 1);
  std::string order;
  for (int i = 0; i < 4; ++i) {
    const std::uint64_t who = queue.next();
    queue.take_next();
    queue.wait(who, 1);
    order += static_cast<char>('0' + who);
  }
  EXPECT_EQ(order, "1212");
}

TEST(FairQueue, WhoLeavesHasNone) {
  FairQueue queue;
  queue.wait(1, 1);
  queue.wait(2, 1);
  queue.leave(1);
  EXPECT_EQ(queue.next(), 2U);
  queue.leave(2);
  EXPECT_TRUE(queue.none_waits());
}

}  // namespace
}  // namespace carya::remote
