#include "autotune/controller/controller.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/autotune/controller_trial.h"

namespace carya::autotune {
namespace {

using ::testing::HasSubstr;

TEST(Controller, LocalSufficesSoNothingIsAskedForAndCoresAreGivenBack) {
  Trial run(planned(3500), options(3500));
  run.go(60);
  EXPECT_EQ(run.decision().phase, Phase::kSettled);
  EXPECT_EQ(run.decision().run.workers, 0U);
  EXPECT_EQ(run.decision().run.cores, 4);
  EXPECT_EQ(run.changes, 0U);
  EXPECT_GE(run.decision().confidence, 0.95);
}

TEST(Controller, OneWorkerIsMeasuredThenTheAnswerIsJumpedTo) {
  PlacementInputs truth = planned(60'000);
  truth.cuts[0].worker_cpu_s *= 0.7;  // the workers are faster than anybody thought
  truth.cuts[1].worker_cpu_s *= 0.7;
  Trial run(truth, options(60'000));
  run.go(6);
  EXPECT_EQ(run.decision().phase, Phase::kFirstWorker);
  EXPECT_EQ(run.decision().run.workers, 1U);
  run.go(120);
  EXPECT_EQ(run.decision().run.workers, run.best().workers);
  EXPECT_EQ(run.decision().run.cut, run.best().cut);
  EXPECT_LE(run.changes, 2U);  // the first worker, and the answer
  EXPECT_EQ(run.decision().phase, Phase::kSettled);
}

TEST(Controller, AClaimHopesForWorkersUntilSomebodyMeasuredOne) {
  ControllerOptions dear = options(60'000);
  dear.goal.workers_max = 0;  // others have them all
  for (RemoteCut& cut : dear.model.cuts) cut.worker_cpu_s *= 14;
  Trial run(planned(60'000), dear);
  const auto worker_s = [](const PlacementInputs& facts) { return facts.cuts[0].worker_cpu_s; };
  EXPECT_EQ(run.controller.workers_to_claim(9), 1U) << "nothing is known yet";
  EXPECT_EQ(run.controller.workers_to_claim(0), 0U);
  run.go(20);
  const PlacementInputs facts = run.controller.facts(), claimed = run.controller.facts_to_claim();
  EXPECT_EQ(run.controller.workers_to_claim(9), 9U);
  const PlacementGoal few{.workers_max = 20};
  EXPECT_EQ(place(facts, kPrices, few)->choice.workers, 0U);
  EXPECT_GT(place(claimed, kPrices, few)->choice.workers, 0U);
  EXPECT_DOUBLE_EQ(worker_s(claimed), 0.6 * worker_s(facts));
  ASSERT_TRUE(run.controller.set_goal({.workers_max = 1}));
  run.go(120);
  EXPECT_EQ(run.decision().run.workers, 1U) << "it was tried";
  EXPECT_DOUBLE_EQ(worker_s(run.controller.facts_to_claim()), worker_s(run.controller.facts()));
  EXPECT_NEAR(worker_s(run.controller.facts_to_claim()), planned(1).cuts[0].worker_cpu_s, 5e-5);

  Trial cheap(planned(3500), options(3500));  // no worker could save anything
  cheap.go(20);
  EXPECT_DOUBLE_EQ(worker_s(cheap.controller.facts_to_claim()), worker_s(cheap.controller.facts()));
}

TEST(Controller, AWorkerThatWaitsForWorkIsMeasuredWithinEightSeconds) {
  for (const double demand : {10'000., 12'800., 20'000., 32'000.})
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
      ControllerOptions waiting = options(demand);
      waiting.worker_start_s = 1;
      Trial run(planned(demand), waiting, seed);
      run.world.noise = 0.1;
      bool tried = false;
      while (run.world.now_s < 8 && !(tried && run.decision().phase != Phase::kFirstWorker)) {
        run.go(0.5, 0.5);
        tried |= run.decision().phase == Phase::kFirstWorker;
      }
      EXPECT_TRUE(tried) << demand << " " << seed;
      EXPECT_NE(run.decision().phase, Phase::kFirstWorker) << demand << " " << seed;
    }
}

TEST(Controller, WorkersThatMayBeUnlikeAreTriedTogether) {
  ControllerOptions list = options(20'000);
  list.worker_start_s = 1;
  list.first_workers = 4;
  list.goal.workers_there = 3;
  PlacementInputs truth = planned(20'000);
  truth.worker_speeds = {1, 0.5, 0.1};
  Trial run(truth, list);
  run.world.fleet = 3;
  while (run.decision().phase != Phase::kFirstWorker) run.go(1);
  EXPECT_EQ(run.decision().run.workers, 3U) << "more than would help: the fastest stay";
  run.go(60);
  EXPECT_EQ(run.decision().run.workers, run.best().workers);
}

TEST(Controller, AllWorkersThatThereMayBeAreAnAnswer) {
  ControllerOptions few = options(60'000);
  few.goal.workers_max = 2;  // one more would be better
  Trial run(planned(60'000), few);
  run.go(120);
  EXPECT_EQ(run.decision().run.workers, 2U);
  EXPECT_EQ(run.decision().phase, Phase::kSettled);
}

TEST(Controller, AKnownFleetIsJumpedToAtOnce) {
  ControllerOptions known = options(30'000);
  known.workers_known = true;
  Trial run(planned(30'000), known);
  run.go(60);
  EXPECT_EQ(run.decision().run.workers, run.best().workers);
  EXPECT_EQ(run.changes, 1U);
}

TEST(Controller, NoiseAloneChangesNothing) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Trial run(planned(20'300), options(20'300), seed);
    run.world.noise = 0.2;
    run.go(3600);
    EXPECT_LE(run.changes, 1 + Controller::kChangesMax) << seed;
    const PlacementInputs& truth = run.world.truth;
    const Choice got = predict(truth, kPrices, {}, run.decision().run.cut, run.decision().run.workers);
    EXPECT_LE(got.cost_per_sample, 1.05 * run.best().cost_per_sample) << seed;
  }
}

TEST(Controller, AThreeTimesFasterOrSlowerTrainerSettlesInFiveSeconds) {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    Trial run(planned(1800), options(1800), seed);
    run.world.noise = 0.03;
    run.go(60, 0.5);
    EXPECT_EQ(run.decision().run.cores, 2) << seed;
    run.world.truth.demand = 5400;
    run.go(5, 0.5);
    EXPECT_EQ(run.decision().run.cores, 6) << seed;
    run.world.truth.demand = 1800;
    run.go(5, 0.5);
    EXPECT_EQ(run.decision().run.cores, 2) << seed;
    EXPECT_EQ(run.changes, 0U) << seed;
  }
}

TEST(Controller, ASlowerTrainerNeedsNoWorkersAnyMore) {
  Trial run(planned(30'000), options(30'000));
  run.go(300);
  ASSERT_GT(run.decision().run.workers, 1U);
  run.world.truth.demand = 5000;
  run.go(60);
  EXPECT_EQ(run.decision().run.workers, 0U);
  EXPECT_FALSE(run.decision().run.cut);
}

TEST(Controller, WorkersThatGetNothingAnyMoreAreGivenBackThoughTheyCostLittle) {
  ControllerOptions dear = options(24'000);
  dear.prices.host_per_hour = 20;  // beside which they are less than a tenth
  Trial run(planned(24'000), dear);
  run.go(60);
  const std::uint32_t asked = run.decision().run.workers;
  ASSERT_GT(asked, 1U);
  ASSERT_LT(asked * dear.prices.worker_per_hour, 0.1 * dear.prices.host_per_hour);
  run.world.truth.local_cpu_s *= 0.05;  // samples come from what was kept
  run.go(100);
  EXPECT_EQ(run.decision().run.workers, 0U);
}

TEST(Controller, WorkersStayAsLongAsTheyArePaidFor) {
  ControllerOptions billed = options(30'000);
  billed.worker_billed_s_min = 600;
  Trial run(planned(30'000), billed);
  run.go(100);
  const std::uint32_t asked = run.decision().run.workers;
  ASSERT_GT(asked, 1U);
  run.world.truth.demand = 5000;
  run.go(300);
  EXPECT_EQ(run.decision().run.workers, asked);
  run.go(400);
  EXPECT_EQ(run.decision().run.workers, 0U);
}

TEST(Controller, AChangeThatDoesNotPayInTheWorkLeftIsNotMade) {
  ControllerOptions dear = options(30'000);
  dear.worker_start_s = 1200;
  // Least cost per sample, and no number of workers serves this trainer: money alone decides.
  dear.goal.workers_max = 2;
  Trial run(planned(30'000), dear);
  Measurements seen;
  for (int i = 0; i < 100; ++i) {
    seen = run.world.step(run.decision().run, 1);
    seen.work_left_s = 60;
    run.controller.observe(seen, run.world.now_s);
  }
  EXPECT_EQ(run.decision().run.workers, 0U);
  run.go(400);  // an hour or more is left
  EXPECT_EQ(run.decision().run.workers, 1U);
}

TEST(Controller, ANarrowLinkIsFoundAndAnotherCutTaken) {
  PlacementInputs truth = planned(20'000);
  truth.cuts[1].host_cpu_s = 5e-4;  // the first cut would be the better one
  ControllerOptions made = options(20'000);
  made.model.cuts[1].host_cpu_s = 5e-4;
  truth.link_in_bytes_per_s = 1.2e9;  // 2000 samples/s of the first cut, 8000 of the second
  Trial run(truth, made);
  run.go(300);
  EXPECT_EQ(run.decision().run.cut, 1U);
  EXPECT_EQ(run.decision().run.workers, run.best().workers);
}

/// Runs where each part is as fast as thought, yet together they bring 80 %: say, chunks that wait for each other.
void go_at_four_fifths(Trial& run, int seconds) {
  for (int i = 0; i < seconds; ++i) {
    World& world = run.world;
    const PlacementInputs truth = world.truth;
    world.truth.cores *= 0.8;
    world.truth.worker_cores *= 0.8;
    Measurements seen = world.step(run.decision().run, 1);
    world.truth = truth;
    seen.demand = truth.demand;
    run.controller.observe(seen, world.now_s);
  }
}

TEST(Controller, TheSumOfThePartsIsCorrectedByTheWhole) {
  Trial run(planned(20'000), options(20'000));
  go_at_four_fifths(run, 300);
  PlacementInputs less = planned(20'000);
  less.cores *= 0.8;
  less.worker_cores *= 0.8;
  EXPECT_EQ(run.decision().run.workers, place(less, kPrices, {})->choice.workers);
}

TEST(Controller, ASettledOneLooksAsSoonAsTheWholeIsAnotherThanItWas) {
  Trial run(planned(20'000), options(20'000));
  run.go(120);
  ASSERT_EQ(run.decision().phase, Phase::kSettled);
  const std::uint32_t enough = run.decision().run.workers;
  while (run.decision().looks_again_s < run.world.now_s + 50) run.go(1);
  go_at_four_fifths(run, 20);
  EXPECT_GT(run.decision().run.workers, enough);
}

TEST(Controller, AnotherSpeedOfAWorkerLeavesWhatTheWholeShowed) {
  ControllerOptions few = options(20'000);
  few.goal.workers_max = 1;  // so the trainer waits, and the whole is seen
  PlacementInputs truth = planned(20'000);
  truth.worker_speeds = {1, 1};
  Trial run(truth, few);
  go_at_four_fifths(run, 300);
  const auto of_the_sum = [&] {
    const Running& present = run.decision().run;
    return run.decision().choice.rate /
           predict(run.world.truth, kPrices, few.goal, present.cut, present.workers).rate;
  };
  EXPECT_NEAR(of_the_sum(), 0.8, 0.04);
  run.world.truth.worker_speeds = {0.5, 0.5};
  go_at_four_fifths(run, 1);
  EXPECT_NEAR(of_the_sum(), 0.8, 0.04);
}

TEST(Controller, ThePredictionFollowsTheMeasurementsBetweenLooks) {
  Trial run(planned(3500), options(3500));
  run.go(60);
  ASSERT_EQ(run.decision().phase, Phase::kSettled);
  ASSERT_GT(run.decision().looks_again_s, run.world.now_s + 3) << "no look comes in between";
  for (int i = 0; i < 3; ++i) {
    const double before = run.decision().choice.rate;
    run.go(1);
    EXPECT_NE(run.decision().choice.rate, before);
    EXPECT_NEAR(run.decision().choice.rate, 3500, 350);
  }
}

TEST(Controller, WorkersThatDifferCountAsWhatTheyAre) {
  ControllerOptions two = options(20'000);
  two.goal.workers_max = 2;
  PlacementInputs truth = planned(20'000);
  truth.worker_speeds = {1, 0.1};
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    Trial run(truth, two, seed);
    run.world.fleet = 2;
    run.go(900);
    EXPECT_EQ(run.decision().run.workers, 1U) << "the slow one costs more than it brings";
    EXPECT_LE(run.changes, 5U);  // the first one comes, goes, both come, one goes
  }
  truth.worker_speeds = {1, 0.8};
  Trial run(truth, two);
  run.go(120);
  EXPECT_EQ(run.decision().run.workers, 2U);
  run.world.truth.worker_speeds = {1, 0.1};
  run.go(120);
  EXPECT_EQ(run.decision().run.workers, 1U) << "it has become slow";
}

TEST(Controller, WhatAFirstWorkerDidToTheWholeIsForgottenWithIt) {
  PlacementInputs truth = planned(60'000);
  for (RemoteCut& cut : truth.cuts) cut.worker_cpu_s *= 40;  // not worth its price
  Trial run(truth, options(0));
  bool tried = false, dismissed = false;
  for (int i = 0; i < 300 && !dismissed; ++i) {
    const Running running = run.decision().run;
    // Everything waits for its chunks: a fifth of what the parts could do.
    for (double* cores : {&run.world.truth.cores, &run.world.truth.worker_cores})
      *cores = running.workers > 0 ? 1.6 : 8;
    const Measurements seen = run.world.step(running, 1);
    run.controller.observe(seen, run.world.now_s);
    tried |= running.workers > 0;
    dismissed = tried && run.decision().run.workers == 0;
  }
  ASSERT_TRUE(dismissed);
  EXPECT_NEAR(run.controller.facts().local_cpu_s, 1e-3, 1e-4);
}

TEST(Controller, WorkersThatNeverComeAreNotWaitedFor) {
  Trial run(planned(30'000), options(30'000));
  run.world.fleet = 0;
  run.go(400);
  EXPECT_EQ(run.decision().run.workers, 0U);
  EXPECT_EQ(run.decision().run.cores, 8);
  run.world.fleet = 1000;
  run.go(900);
  EXPECT_GE(run.decision().run.workers, run.best().workers);
}

TEST(Controller, HardlyAnyMoneyIsSpentToEndWaitingThatMayNotEnd) {
  int paid_more = 0;
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    // The most that the link lets through is 95 % of the demand, where 98 % would have to be paid for.
    ControllerOptions dear = options(0);
    dear.prices = {.host_per_hour = 0.3, .worker_per_hour = 0.5};
    PlacementInputs truth = planned(11'800 / 0.95);
    truth.cuts.erase(truth.cuts.begin());
    dear.model.cuts = truth.cuts;
    truth.link_in_bytes_per_s = 6e8;
    Trial run(truth, dear, seed);
    run.world.noise = 0.1;
    double paid_s = 0;
    for (int i = 0; i < 2000; ++i) {
      run.go(1);
      paid_s += run.decision().run.workers > 0 ? 1 : 0;
    }
    paid_more += paid_s > 200 ? 1 : 0;  // more than first workers
  }
  EXPECT_LE(paid_more, 3);  // what is said to be 95 % sure is so in that share of the runs at least
}

TEST(Controller, AFirstWorkerThatIsPaidForWorksOn) {
  ControllerOptions paid = options(0);
  paid.worker_billed_s_min = 300;
  PlacementInputs truth = planned(60'000);
  for (RemoteCut& cut : truth.cuts) cut.worker_cpu_s *= 40;  // it brings 2 % for 10 % of the price
  Trial run(truth, paid);
  run.go(200);
  EXPECT_EQ(run.decision().phase, Phase::kFirstWorker);
  EXPECT_EQ(run.decision().run.workers, 1U);
  run.go(150);
  EXPECT_EQ(run.decision().run.workers, 0U);
}

TEST(Controller, PricesAndGoalsDecideAnew) {
  Trial run(planned(30'000), options(30'000));
  run.go(300);
  ASSERT_GT(run.decision().run.workers, 1U);
  ASSERT_TRUE(run.controller.set_goal({.workers_max = 1}));
  run.go(100);
  EXPECT_LE(run.decision().run.workers, 1U);
  EXPECT_FALSE(run.controller.set_prices({.host_per_hour = -1}));
}

TEST(Controller, SaysWhatItDoesInWordsAndNumbers) {
  Trial run(planned(30'000), options(30'000));
  run.go(200);
  EXPECT_THAT(run.decision().why, HasSubstr("workers, cut after 2 ops"));
  EXPECT_THAT(run.decision().why, HasSubstr("samples/s, limited by the "));
  EXPECT_GT(run.decision().looks_again_s, 200);
  EXPECT_GE(run.controller.neighbours(run.decision().choice).size(), 4U);
}

TEST(Controller, HostileMeasurementsChangeNothing) {
  Trial run(planned(30'000), options(30'000));
  run.go(200);
  const std::uint32_t workers = run.decision().run.workers;
  const double nan = std::nan("");
  for (const double bad : {nan, -1.0, HUGE_VAL, 0.0}) {
    run.controller.observe({.seconds = bad, .samples = 1e9, .demand = 1}, run.world.now_s);
    run.controller.observe({.seconds = 1,
                            .samples = bad,
                            .stall_s = bad,
                            .demand = bad,
                            .local_samples = bad,
                            .local_thread_s = bad,
                            .remote_samples = bad,
                            .remote_host_s = bad,
                            .worker_thread_s = bad,
                            .link_in_bytes_per_s = bad,
                            .link_out_bytes_per_s = bad,
                            .source_bytes_per_s = bad,
                            .work_left_s = bad,
                            .workers_ready = workers},
                           run.world.now_s);
  }
  run.go(30);
  EXPECT_EQ(run.decision().run.workers, workers);
  EXPECT_FALSE(Controller::create({.model = planned(1), .prices = kPrices, .worker_start_s = nan}));
  EXPECT_FALSE(Controller::create({.model = {}, .prices = kPrices}));
}

}  // namespace
}  // namespace carya::autotune
