#include "autotune/sharing/cores_needed.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

namespace carya::autotune {
namespace {

/// A trainer, a loader with some slots between them, and time that passes step by step.
class Stream {
 public:
  double step_s = 0.1;     // of the trainer's own work on a batch
  double sample_s = 1e-3;  // of a thread
  double noise = 0.05;
  double batch = 64;
  CoresNeeded needed;

  explicit Stream(std::uint32_t cores, std::uint64_t seed = 1) : needed(cores), random_(seed) {}

  /// What the cores make of samples lies ready, up to four batches; the trainer waits for what does not.
  void go(double seconds) {
    for (const double end = now_s_ + seconds; now_s_ < end;) {
      const double own_s = noisy(step_s), made_per_s = needed.cores() / sample_s;
      ready_ = std::min(4 * batch, ready_ + made_per_s * own_s);
      const double wait_s = std::max(0.0, (batch - ready_) / made_per_s);
      ready_ = std::max(ready_, batch) - batch;
      now_s_ += own_s + wait_s;
      totals_.taken_samples += batch;
      totals_.waited_s += wait_s;
      totals_.made_samples += batch;
      totals_.thread_s += batch * noisy(sample_s);
      if (needed.observe(totals_, now_s_)) ++changes;
    }
  }
  void pause(double seconds) { now_s_ += seconds; }
  int changes = 0;

 private:
  double noisy(double value) { return value * std::max(0.1, 1 + noise * normal_(random_)); }

  std::mt19937_64 random_;
  std::normal_distribution<double> normal_;
  StreamTotals totals_;
  double now_s_ = 0;
  double ready_ = 0;
};

TEST(CoresNeeded, AreAllUntilTheTrainerIsKnown) {
  Stream stream(16);
  EXPECT_EQ(stream.needed.cores(), 16U);
  stream.go(1);
  EXPECT_EQ(stream.needed.cores(), 16U);
  stream.go(4);
  EXPECT_EQ(stream.needed.cores(), 1U);  // 640 samples/s of 1 ms
}

TEST(CoresNeeded, FollowATrainerThatIsThreeTimesAsFastOrAsSlowInFiveSeconds) {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    Stream stream(16, seed);
    stream.step_s = 0.036;  // 1778 samples/s
    stream.go(60);
    EXPECT_EQ(stream.needed.cores(), 2U) << seed;
    stream.step_s /= 3;
    stream.go(5);
    EXPECT_EQ(stream.needed.cores(), 6U) << seed;
    stream.go(60);
    stream.step_s *= 3;
    stream.go(5);
    EXPECT_EQ(stream.needed.cores(), 2U) << seed;
  }
}

TEST(CoresNeeded, FollowATrainerThatFirstTookAllThatItGot) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Stream stream(2, seed);
    stream.step_s = 64e-6;  // of 32 ms that a batch takes
    stream.noise = 0.3;
    stream.go(4);
    EXPECT_EQ(stream.needed.cores(), 2U);
    stream.step_s = 0.128;  // half of a core
    stream.noise = 0.05;
    stream.go(5);
    EXPECT_EQ(stream.needed.cores(), 1U) << seed;
    stream.step_s /= 3;
    stream.go(5);
    EXPECT_EQ(stream.needed.cores(), 2U) << seed;
  }
}

TEST(CoresNeeded, AreAllForATrainerThatWaits) {
  Stream stream(4);
  stream.step_s = 0.001;
  stream.go(60);
  EXPECT_EQ(stream.needed.cores(), 4U);
}

TEST(CoresNeeded, AreMoreUnderPressure) {
  Stream stream(8);
  stream.step_s = 0.036;
  stream.go(30);
  ASSERT_EQ(stream.needed.cores(), 2U);
  stream.sample_s *= 2;  // its threads get every second slice
  stream.go(5);
  EXPECT_EQ(stream.needed.cores(), 4U);
}

TEST(CoresNeeded, StayThroughACheckpoint) {
  Stream stream(16);
  stream.step_s = 0.012;
  stream.go(30);
  ASSERT_EQ(stream.needed.cores(), 6U);
  stream.changes = 0;
  stream.pause(40);
  stream.go(30);
  EXPECT_EQ(stream.changes, 0);
  EXPECT_EQ(stream.needed.cores(), 6U);
}

TEST(CoresNeeded, NoiseMovesThemRarely) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Stream stream(16, seed);
    stream.noise = 0.2;
    stream.step_s = 0.0256;  // 2.5 cores
    stream.go(20);
    stream.changes = 0;
    stream.go(600);
    EXPECT_LE(stream.changes, 3) << seed;
    EXPECT_EQ(stream.needed.cores(), 3U) << seed;
  }
}

TEST(CoresNeeded, AnotherNumberOfCoresIsUsedAtOnce) {
  Stream stream(2);
  stream.step_s = 0.012;
  stream.go(10);
  EXPECT_EQ(stream.needed.cores(), 2U);
  stream.needed.set_cores(32);
  EXPECT_EQ(stream.needed.cores(), 32U);
  stream.go(10);
  EXPECT_EQ(stream.needed.cores(), 6U);
  stream.needed.set_cores(0);
  EXPECT_EQ(stream.needed.cores(), 1U);
}

TEST(CoresNeeded, NumbersThatCannotBeLeaveThemAlone) {
  CoresNeeded needed(4);
  const StreamTotals strange[] = {{}, {-1, 1e30, -5, -5}, {std::nan(""), 0, 1e300, 1}, {1, -1e30, 0, 0}};
  double now_s = 0;
  for (int i = 0; i < 100; ++i) {
    needed.observe(strange[i % 4], now_s += 1);
    EXPECT_GE(needed.cores(), 1U);
    EXPECT_LE(needed.cores(), 4U);
  }
  needed.interrupt();
  EXPECT_FALSE(needed.observe({}, now_s + 1));
}

}  // namespace
}  // namespace carya::autotune
