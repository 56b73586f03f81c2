#include "loader/job/op_cpu.h"

#include <gtest/gtest.h>

namespace carya::loader {
namespace {

using transforms::OpProfile;

OpProfile stage(std::uint64_t samples, std::uint64_t timed, std::uint64_t ms) {
  return {.name = "decode_image", .samples = samples, .timed_samples = timed, .cpu_ns = ms * 1'000'000};
}

TEST(OpCpu, ACheapSampleTakesNothingBack) {
  OpCpu cpu;
  const std::vector<OpProfile> before{stage(32, 1, 10)}, after{stage(40, 2, 11)};
  EXPECT_DOUBLE_EQ(cpu.look(before).at(0), 0.32);
  // By the mean of all timed samples it would be 40 * 5.5 ms now, which is less.
  EXPECT_DOUBLE_EQ(cpu.look(after).at(0), 0.32 + 8 * 0.001);
}

TEST(OpCpu, WhatWasNotTimedIsChargedWhenSomethingIs) {
  OpCpu cpu;
  EXPECT_EQ(cpu.look(std::vector<OpProfile>{stage(7, 0, 0)}).at(0), 0);
  EXPECT_EQ(cpu.look(std::vector<OpProfile>{stage(9, 0, 0)}).at(0), 0);
  EXPECT_DOUBLE_EQ(cpu.look(std::vector<OpProfile>{stage(10, 1, 2)}).at(0), 0.02);
  EXPECT_DOUBLE_EQ(cpu.look(std::vector<OpProfile>{stage(30, 1, 2)}).at(0), 0.02);
  EXPECT_DOUBLE_EQ(cpu.look(std::vector<OpProfile>{stage(42, 2, 3)}).at(0), 0.02 + 32 * 0.001);
}

TEST(OpCpu, ItNeverFallsAndComesNearTheTruth) {
  OpCpu cpu;
  std::uint64_t samples = 0, timed = 0, ms = 0, truth_ms = 0;
  double last = 0;
  for (int i = 0; i < 1000; ++i) {
    const std::uint64_t cost = i % 7 == 0 ? 40 : 1;  // of each sample between two looks
    samples += 32;
    timed += 1;
    ms += cost;
    truth_ms += 32 * cost;
    const double now = cpu.look(std::vector<OpProfile>{stage(samples, timed, ms)}).at(0);
    EXPECT_GE(now, last);
    last = now;
  }
  EXPECT_NEAR(last, static_cast<double>(truth_ms) * 1e-3, 1e-6);
}

TEST(OpCpu, StagesOfOneNameAreApart) {
  OpCpu cpu;
  const std::vector<OpProfile> both{stage(10, 1, 1), stage(10, 1, 3)};
  const std::vector<double> seconds = cpu.look(both);
  ASSERT_EQ(seconds.size(), 2U);
  EXPECT_DOUBLE_EQ(seconds[0], 0.01);
  EXPECT_DOUBLE_EQ(seconds[1], 0.03);
}

}  // namespace
}  // namespace carya::loader
