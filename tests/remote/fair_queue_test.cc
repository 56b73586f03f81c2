#include "remote/server/fair_queue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace carya::remote {
namespace {

// The queue of 1 and 2, who always wait.
std::string queue(double weight1, double weight2, int count) {
  FairQueue queue;
  queue.wait(1, "ann", {weight1, 1});
  queue.wait(2, "ben", {weight2, 1});
  std::string order;
  for (int i = 0; i < count; ++i) {
    const std::uint64_t who = queue.next();
    queue.take_next();
    who == 1 ? queue.wait(1, "ann", {weight1, 1}) : queue.wait(2, "ben", {weight2, 1});
    order += static_cast<char>('0' + who);
  }
  return order;
}

TEST(FairQueue, AreByWeight) {
  EXPECT_EQ(queue(1, 1, 6), "121212");
  EXPECT_EQ(queue(3, 1, 8), "11121112");
  EXPECT_EQ(queue(0.125, 1, 9), "222222212");
}

TEST(FairQueue, WhatAClientLeavesIsItsUsers) {
  FairQueue queue;  // ann has 1 and 2, ben has 3; all have the same weight in all
  const auto wait = [&](std::uint64_t who) {
    queue.wait(who, who == 3 ? "ben" : "ann", {0.5, who == 2 ? 0.3 : 0.1});
  };
  const auto serve = [&](int count, std::uint64_t not_again) {
    std::string order;
    for (int i = 0; i < count; ++i) {
      const std::uint64_t who = queue.next();
      queue.take_next();
      if (who != not_again) wait(who);
      order += static_cast<char>('0' + who);
    }
    return order;
  };
  for (const std::uint64_t who : {1, 2, 3}) wait(who);
  const std::string all = serve(80, 0);
  EXPECT_EQ(std::ranges::count(all, '1'), 10);
  EXPECT_EQ(std::ranges::count(all, '2'), 30);
  EXPECT_EQ(std::ranges::count(all, '3'), 40);
  serve(4, 2);  // it wants no more
  const std::string left = serve(80, 0);
  EXPECT_EQ(std::ranges::count(left, '1'), 40);
  EXPECT_EQ(std::ranges::count(left, '3'), 40) << "ben has no more for it";
}

TEST(FairQueue, AreNotSavedUp) {
  FairQueue queue;
  queue.wait(1, "ann", {});
  for (int i = 0; i < 100; ++i) {
    queue.take_next();
    queue.wait(1, "ann", {});
  }
  queue.wait(2, "ben", {});
  std::string order;
  for (int i = 0; i < 4; ++i) {
    const std::uint64_t who = queue.next();
    queue.take_next();
    queue.wait(who, who == 1 ? "ann" : "ben", {});
    order += static_cast<char>('0' + who);
  }
  EXPECT_EQ(order, "1212");
}

TEST(FairQueue, WhoLeavesHasNone) {
  FairQueue queue;
  queue.wait(1, "ann", {});
  queue.wait(2, "ben", {});
  queue.leave(1);
  EXPECT_EQ(queue.next(), 2U);
  queue.leave(2);
  EXPECT_TRUE(queue.none_waits());
}

}  // namespace
}  // namespace carya::remote
