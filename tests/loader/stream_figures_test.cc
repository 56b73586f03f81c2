#include "loader/plan/trainer_stats.h"

#include <gtest/gtest.h>

#include <limits>

namespace carya::loader {
namespace {

constexpr std::int64_t kTick = 1'000'000;

/// A trainer, its loader and a clock that only they move.
struct Scene {
  TrainerMeter meter;
  std::int64_t now_ns = 5 * kTick;

  /// It waits for a batch, which then keeps it busy.
  void step(std::int64_t wait_ns, std::uint64_t rows, std::int64_t own_ns, std::uint32_t ready = 0) {
    meter.asked(now_ns, ready);
    now_ns += wait_ns;
    meter.delivered(now_ns, rows);
    now_ns += own_ns;
  }
  void steps(std::size_t count, std::int64_t wait_ns, std::uint64_t rows, std::int64_t own_ns) {
    for (std::size_t i = 0; i < count; ++i) step(wait_ns, rows, own_ns);
  }
  TrainerStats figures() const { return meter.figures(now_ns); }
};

TEST(TrainerMeter, SaysNothingOfTheDemandBeforeABlockHasEnded) {
  Scene scene;
  EXPECT_EQ(scene.figures().lifetime_ns, 0) << "nobody came yet";
  scene.steps(TrainerMeter::kBlockSteps, kTick, 32, 10 * kTick);
  EXPECT_EQ(scene.figures().demand_per_s, 0) << "its last step is not over";
  EXPECT_EQ(scene.figures().step_s, 0);
  EXPECT_TRUE(scene.meter.block_ended());
  scene.step(0, 32, 0);
  EXPECT_FALSE(scene.meter.block_ended());
  EXPECT_DOUBLE_EQ(scene.figures().demand_per_s, 3200);
  EXPECT_DOUBLE_EQ(scene.figures().step_s, 0.010);
}

TEST(TrainerMeter, TellsWaitingFromWorking) {
  Scene scene;
  scene.steps(100, 30 * kTick, 8, 10 * kTick);
  const TrainerStats figures = scene.figures();
  EXPECT_EQ(figures.steps, 100U);
  EXPECT_EQ(figures.stall_ns, 3'000 * kTick);
  EXPECT_EQ(figures.lifetime_ns, 4'000 * kTick);
  EXPECT_DOUBLE_EQ(figures.demand_per_s, 800) << "though it got a quarter of that";
}

TEST(TrainerMeter, AWaitInSlicesIsOneComing) {
  Scene scene;
  scene.step(0, 4, kTick, 3);
  scene.meter.asked(scene.now_ns, 1);
  for (int slice = 0; slice < 5; ++slice) {
    scene.now_ns += 200 * kTick;
    scene.meter.waited(scene.now_ns);
    scene.meter.asked(scene.now_ns, 0);
  }
  scene.meter.delivered(scene.now_ns, 4);
  const TrainerStats figures = scene.figures();
  EXPECT_EQ(figures.asked, 2U);
  EXPECT_EQ(figures.ready, 4U);
  EXPECT_EQ(figures.stall_ns, 1'000 * kTick);
  EXPECT_EQ(figures.steps, 2U);
}

TEST(TrainerMeter, ACheckpointOrAnEvaluationIsNoDemand) {
  Scene scene;
  scene.step(0, 16, 60'000 * kTick);  // the first step compiles
  for (int i = 1; i < 400; ++i) scene.step(0, 16, i % 100 == 50 ? 30'000 * kTick : 4 * kTick);
  EXPECT_DOUBLE_EQ(scene.figures().demand_per_s, 4'000);
  EXPECT_DOUBLE_EQ(scene.figures().step_s, 0.004);
}

TEST(TrainerMeter, AStepThatWaitsForTheDeviceNowAndThenCounts) {
  Scene scene;
  for (int i = 0; i < 400; ++i) scene.step(0, 16, i % 8 == 7 ? 81 * kTick : kTick);
  EXPECT_NEAR(scene.figures().step_s, 0.011, 1e-9) << "the median of the steps would be 0.001";
}

TEST(TrainerMeter, FollowsATrainerThatChanges) {
  Scene scene;
  scene.steps(10'000, 0, 16, 10 * kTick);
  scene.steps(TrainerMeter::kBlockSteps * TrainerMeter::kBlocks, 0, 16, 20 * kTick);
  EXPECT_NEAR(scene.figures().step_s, 0.020, 1e-9);
  EXPECT_NEAR(scene.figures().demand_per_s, 800, 1e-6);
}

TEST(TrainerMeter, BatchesMayDifferAndBeEmpty) {
  Scene scene;
  for (int i = 0; i < 64; ++i) scene.step(0, i % 2 == 0 ? 30 : 10, i % 2 == 0 ? 3 * kTick : kTick);
  EXPECT_DOUBLE_EQ(scene.figures().demand_per_s, 10'000);
  Scene empty;
  empty.steps(40, 0, 0, 0);
  EXPECT_GT(empty.figures().demand_per_s, 0) << "and no division by zero";
  EXPECT_LE(empty.figures().demand_per_s, 1e9);
}

TEST(StreamRates, WhatCannotBeIsLeftOut) {
  const double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  for (const double bad : {inf, -inf, nan, -1.0, 1e300, 0.0}) {
    const StreamRates rates = checked({.read_latency_s = bad,
                                       .read_bytes_per_s = bad,
                                       .reads_at_s = -5,
                                       .demand_per_s = bad,
                                       .demand_at_s = std::numeric_limits<std::int64_t>::max()},
                                      1000);
    EXPECT_EQ(rates.read_latency_s, 0);
    EXPECT_EQ(rates.read_bytes_per_s, 0);
    EXPECT_EQ(rates.demand_per_s, 0);
    EXPECT_EQ(rates.reads_at_s, 0);
    EXPECT_EQ(rates.demand_at_s, 1000) << "nothing is from the future";
  }
  EXPECT_EQ(checked({.demand_per_s = 3}, -1).demand_per_s, 3);
}

TEST(StreamRates, NewerOnesReplaceWhatTheyKnow) {
  const StreamRates older{
      .read_latency_s = 0.1, .read_bytes_per_s = 100, .reads_at_s = 7, .demand_per_s = 50, .demand_at_s = 7};
  const StreamRates reads = joined(older, {.read_latency_s = 0.2, .read_bytes_per_s = 300, .reads_at_s = 9});
  EXPECT_EQ(reads.read_bytes_per_s, 300);
  EXPECT_EQ(reads.reads_at_s, 9);
  EXPECT_EQ(reads.demand_per_s, 50);
  EXPECT_EQ(reads.demand_at_s, 7);
  const StreamRates demand = joined(older, {.demand_per_s = 60, .demand_at_s = 9});
  EXPECT_EQ(demand.read_latency_s, 0.1);
  EXPECT_EQ(demand.demand_per_s, 60);
}

}  // namespace
}  // namespace carya::loader
