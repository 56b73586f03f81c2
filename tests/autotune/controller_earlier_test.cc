#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "autotune/controller/controller.h"
#include "tests/autotune/controller_trial.h"

namespace carya::autotune {
namespace {

using ::testing::StartsWith;

struct End {
  EarlierRun learned;
  Running run;
};

End end_of(const PlacementInputs& truth, std::uint64_t seed) {
  Trial first(truth, options(0), seed);
  first.go(600);
  return {first.controller.learned().value(), first.decision().run};
}

ControllerOptions again(const EarlierRun& earlier) {
  ControllerOptions made = options(0);
  made.earlier = earlier;
  return made;
}

TEST(ControllerEarlier, BeginsWithTheAnswerThatTheRunBeforeEndedWith) {
  for (const double demand : {9'500., 20'300., 30'000., 60'000.})
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
      const PlacementInputs truth = planned(demand);
      const End before = end_of(truth, seed);
      ASSERT_GT(before.run.workers, 0U) << demand << " " << seed;
      Trial run(truth, again(before.learned), 1000 + seed);
      run.go(2);
      EXPECT_EQ(run.decision().run.workers, before.run.workers) << demand << " " << seed;
      EXPECT_EQ(run.decision().run.cut, before.run.cut) << demand << " " << seed;
      EXPECT_EQ(run.decision().changes, 1U);
      EXPECT_THAT(run.decision().why, StartsWith("an earlier run ended so: "));
      run.go(300);
      EXPECT_EQ(run.decision().run.workers, before.run.workers) << demand << " " << seed;
    }
}

TEST(ControllerEarlier, WorkersThatDidNotPayAreNotTriedAtOnce) {
  PlacementInputs truth = planned(60'000);
  for (RemoteCut& cut : truth.cuts) cut.worker_cpu_s *= 40;
  Trial first(truth, options(0));
  first.go(200);
  ASSERT_EQ(first.decision().run.workers, 0U);
  ASSERT_GT(first.changes, 0U);  // one was tried
  Trial run(truth, again(first.controller.learned().value()));
  run.go(500);
  EXPECT_EQ(run.changes, 0U);
  EXPECT_TRUE(run.controller.learned());  // the next run knows it too
}

TEST(ControllerEarlier, WhatHoldsNoLongerIsFoundWithinSeconds) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed)
    for (const double off : {0.3, 3.0})
      for (const int what : {0, 1, 2, 3}) {
        PlacementInputs then = planned(28'000);
        if (what == 0) then.demand *= off;
        if (what == 1) then.local_cpu_s *= off;
        for (RemoteCut& cut : then.cuts) cut.worker_cpu_s *= what == 2 ? off : 1;
        const End before = end_of(then, seed);
        EarlierRun earlier = before.learned;
        if (what == 3) earlier.workers = static_cast<std::uint32_t>(earlier.workers * off);
        Trial run(planned(28'000), again(earlier), seed);
        run.go(120);
        const Choice best = run.best();
        const Choice got =
            predict(run.world.truth, kPrices, {}, run.decision().run.cut, run.decision().run.workers);
        EXPECT_LE(got.cost_per_sample, 1.03 * best.cost_per_sample) << seed << " " << off << " " << what;
        EXPECT_LE(got.stall, 0.04) << seed << " " << off << " " << what;
        EXPECT_LE(run.controller.decision().changes, Controller::kChangesMax);
      }
}

TEST(ControllerEarlier, AnAnswerThatCannotBeTakenOverIsNone) {
  const End before = end_of(planned(30'000), 1);
  ASSERT_GT(before.run.workers, 2U);
  {
    ControllerOptions fewer = again(before.learned);
    fewer.goal.workers_max = 2;
    Trial run(planned(30'000), fewer);
    run.go(60);
    EXPECT_LE(run.decision().run.workers, 2U);
  }
  EarlierRun elsewhere = before.learned;
  elsewhere.ops_remote = 7;
  Trial unknown_cut(planned(30'000), again(elsewhere));
  unknown_cut.go(8);
  EXPECT_EQ(unknown_cut.decision().phase, Phase::kFirstWorker);  // nothing is known of workers here
  EarlierRun larger = before.learned;
  larger.worker_cores *= 2;
  Trial other_workers(planned(30'000), again(larger));
  other_workers.go(120);
  EXPECT_EQ(other_workers.decision().run.workers, other_workers.best().workers);
}

TEST(ControllerEarlier, AnotherPlanBeginsWithItsOwn) {
  const End before = end_of(planned(30'000), 1);
  Trial run(planned(30'000), options(0));
  ASSERT_TRUE(run.controller.set_model(options(0).model, before.learned));
  run.go(2);
  EXPECT_EQ(run.decision().run.workers, before.run.workers);
  ASSERT_TRUE(run.controller.set_model(options(0).model));
  EXPECT_FALSE(run.controller.learned());
}

TEST(ControllerEarlier, NumbersThatCannotBeAreRefused) {
  const EarlierRun good = end_of(planned(30'000), 1).learned;
  EXPECT_TRUE(Controller::create(again(good)));
  for (const double bad : {-1.0, 1e-300, 1e300, std::nan(""), std::numeric_limits<double>::infinity()}) {
    for (double EarlierRun::* const number :
         {&EarlierRun::demand, &EarlierRun::local_cpu_s, &EarlierRun::link_in_bytes_per_s,
          &EarlierRun::link_out_bytes_per_s, &EarlierRun::source_bytes_per_s, &EarlierRun::host_cpu_s,
          &EarlierRun::worker_cpu_s, &EarlierRun::worker_cores}) {
      EarlierRun lie = good;
      lie.*number = bad;
      EXPECT_FALSE(Controller::create(again(lie))) << bad;
    }
  }
  EarlierRun many = good;
  many.workers = kAnyWorkersMax + 1;
  EXPECT_FALSE(Controller::create(again(many)));
  // Whatever it says, it is corrected: extremes that pass for numbers.
  for (const double lie : {1e-12, 1e15}) {
    EarlierRun wrong{lie, lie, lie, lie, lie, good.ops_remote, lie, lie, good.worker_cores, kAnyWorkersMax,
                     true};
    ControllerOptions some = again(wrong);
    some.goal.workers_max = 1000;
    Trial run(planned(30'000), some);
    run.go(1500);  // what keeps workers away is tried after ten minutes
    EXPECT_EQ(run.decision().run.workers, run.best().workers) << lie;
  }
}

}  // namespace
}  // namespace carya::autotune
