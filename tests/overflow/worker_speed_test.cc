#include "loader/overflow/worker_speed.h"

#include <gtest/gtest.h>

#include <vector>

namespace carya::loader {
namespace {

// Each computed `chunks` of eight rows on one core; by the time per chunk in ms.
void compute(std::vector<WorkerSpeed>& workers, const std::vector<double>& took_ms, int chunks = 40) {
  for (int i = 0; i < chunks; ++i)
    for (std::size_t n = 0; n < took_ms.size(); ++n)
      if (took_ms[n] > 0) workers[n].note(took_ms[n] * 1e6, 8, 1), WorkerSpeed::compare(workers);
}

TEST(WorkerSpeed, IsThatBesideTheFastest) {
  std::vector<WorkerSpeed> workers(3);
  EXPECT_FALSE(workers[0].known());
  EXPECT_EQ(workers[0].beside(), 1);
  compute(workers, {10, 30, 0});
  EXPECT_TRUE(workers[1].known());
  EXPECT_EQ(workers[0].beside(), 1);
  EXPECT_NEAR(workers[1].beside(), 1 / 3.0, 1e-6);
  EXPECT_FALSE(workers[2].known());
  compute(workers, {0, 0, 5});
  EXPECT_EQ(workers[2].beside(), 1);
  EXPECT_NEAR(workers[0].beside(), 0.5, 1e-6);
}

TEST(WorkerSpeed, CountsAllCores) {
  std::vector<WorkerSpeed> workers(2);
  for (int i = 0; i < 40; ++i) workers[0].note(1e7, 8, 4), workers[1].note(1e7, 8, 1);
  WorkerSpeed::compare(workers);
  EXPECT_EQ(workers[0].beside(), 1);
  EXPECT_NEAR(workers[1].beside(), 0.25, 1e-6);
}

TEST(WorkerSpeed, SmallDifferencesAreNoise) {
  std::vector<WorkerSpeed> workers(2);
  compute(workers, {10, 12});
  EXPECT_EQ(workers[1].beside(), 1);
}

TEST(WorkerSpeed, FollowsAWorkerThatBecomesSlower) {
  std::vector<WorkerSpeed> workers(2);
  compute(workers, {10, 10});
  compute(workers, {10, 40}, 200);
  EXPECT_NEAR(workers[1].beside(), 0.25, 0.01);
}

TEST(WorkerSpeed, WithAnotherPlanItIsWhatItWas) {
  std::vector<WorkerSpeed> workers(2);
  compute(workers, {10, 30});
  for (WorkerSpeed& one : workers) one.forget();
  EXPECT_FALSE(workers[1].known());
  compute(workers, {0, 90});  // rows are others, and the slow one has them all
  EXPECT_NEAR(workers[1].beside(), 1 / 3.0, 1e-6);
  compute(workers, {60, 90});
  EXPECT_NEAR(workers[1].beside(), 2 / 3.0, 1e-6);
}

}  // namespace
}  // namespace carya::loader
