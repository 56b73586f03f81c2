#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "autotune/simulator/fleet.h"
#include "autotune/simulator/scenario.h"
#include "autotune/simulator/workload.h"
#include "remote/server/client_shares.h"

namespace carya::autotune::simulator {
namespace {

class Workloads : public ::testing::TestWithParam<std::size_t> {
 protected:
  const Workload& workload() const { return workloads()[GetParam()]; }
  WorkloadResult run(Baseline baseline, std::uint64_t seed = 1) const {
    return run_workload(workload(), baseline, 10, seed);
  }
};

TEST_P(Workloads, PecansPolicyEndsWherePecanDid) {
  const WorkloadResult pecan = run(Baseline::kPecan);
  EXPECT_NEAR(pecan.last.workers, workload().pecan_workers, 1);
  if (workload().pecan_converged_s > 0) {
    EXPECT_NEAR(pecan.converged_s / workload().pecan_converged_s, 1, 0.2);
  }
}

TEST_P(Workloads, OursCostsNoMoreThanPecanAndHardlyMoreThanTheOracle) {
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    const WorkloadResult ours = run(Baseline::kOurs, seed), pecan = run(Baseline::kPecan, seed);
    const WorkloadResult oracle = run(Baseline::kOracle, seed);
    EXPECT_LE(ours.job_cost, pecan.job_cost) << seed;
    EXPECT_LE(ours.job_cost, workload().pecan_epoch_cost * 1.01) << seed;  // as published
    EXPECT_LE(ours.job_cost, 1.03 * oracle.job_cost) << seed;
  }
}

TEST_P(Workloads, OursConvergesTwentyTimesFaster) {
  const WorkloadResult pecan = run(Baseline::kPecan);
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const WorkloadResult ours = run(Baseline::kOurs, seed);
    EXPECT_LE(20 * ours.converged_s, pecan.converged_s) << seed;
    EXPECT_LE(ours.changes, 5U) << seed;  // a first worker, the answer, cores
  }
}

TEST_P(Workloads, OurEpochsAreNeverLongerThanTheSimplerPolicies) {
  const WorkloadResult ours = run(Baseline::kOurs);
  for (const Baseline other : {Baseline::kCollocated, Baseline::kAutoOrder})
    EXPECT_LE(ours.epoch_s, 1.0001 * run(other).epoch_s) << baseline_name(other);
}

TEST_P(Workloads, FastFlowPaysTwoWorkersForHardlyMoreThanItsHostMakes) {
  const WorkloadResult fast_flow = run(Baseline::kFastFlow);
  EXPECT_EQ(fast_flow.last.workers, 2U);
  EXPECT_EQ(fast_flow.changes, 2U);  // a profile of either side, then both
  EXPECT_GE(fast_flow.job_cost, run(Baseline::kOurs).job_cost);
}

INSTANTIATE_TEST_SUITE_P(Pecan, Workloads, ::testing::Range(std::size_t{0}, std::size_t{6}),
                         [](const ::testing::TestParamInfo<std::size_t>& tested) {
                           std::string name;
                           for (const char letter : workloads()[tested.param].name)
                             if (std::isalnum(static_cast<unsigned char>(letter)) != 0) name += letter;
                           return name;
                         });

struct Regrets {
  std::vector<double> sorted;
  std::uint32_t oscillations = 0;
  double within(double limit) const {
    const auto end = std::upper_bound(sorted.begin(), sorted.end(), limit);
    return static_cast<double>(end - sorted.begin()) / static_cast<double>(sorted.size());
  }
};

Regrets regrets(double noise_max, std::uint64_t count) {
  Regrets found;
  for (std::uint64_t seed = 1; seed <= count; ++seed) {
    const Scenario scenario = random_scenario(seed, noise_max);
    const Outcome ours = play_ours(scenario);
    found.sorted.push_back(ours.cost_per_sample() / play_oracle(scenario).cost_per_sample() - 1);
    found.oscillations += ours.oscillations;
  }
  std::sort(found.sorted.begin(), found.sorted.end());
  return found;
}

TEST(Scenarios, HardlyAnyCostsFivePercentMoreThanTheOraclesAndNoneOscillates) {
  const Regrets calm = regrets(0.1, 40), noisy = regrets(0.3, 40);
  EXPECT_GE(calm.within(0.05), 0.95);  // of 40; bench_overflow_sim counts 10,000
  EXPECT_GE(noisy.within(0.05), 0.92);
  EXPECT_EQ(calm.oscillations + noisy.oscillations, 0U);
}

TEST(Scenarios, TheSameSeedIsTheSameRun) {
  const Scenario scenario = random_scenario(7, 0.3);
  EXPECT_EQ(play_ours(scenario).bill.total(), play_ours(scenario).bill.total());
  EXPECT_NE(play_ours(scenario).bill.total(), play_ours(random_scenario(8, 0.3)).bill.total());
}

TEST(World, PaysStartUpAndMinimum) {
  WorldSpec spec{.prices = {.host_per_hour = 3.6, .worker_per_hour = 36},
                 .fleet = {.start_s = 10, .billed_s_min = 100, .size = 4}};
  spec.truth = {.local_cpu_s = 1e-3, .cores = 1, .demand = 3000, .worker_cores = 1};
  spec.truth.cuts = {{.ops_remote = 1, .worker_cpu_s = 1e-3}};
  World world(spec);
  for (int i = 0; i < 20; ++i) world.step({.cut = 0, .workers = 9, .cores = 1}, 1);
  EXPECT_NEAR(world.bill().workers, 4 * 20 * 0.01, 1e-9);  // no more than there are, paid while they start
  EXPECT_NEAR(world.bill().samples, 10 * 1000 + 10 * 3000, 1e-6);
  EXPECT_NEAR(world.bill().stall_s, 10 * 2. / 3, 1e-9);
  world.close();
  EXPECT_NEAR(world.bill().workers, 4 * 100 * 0.01, 1e-9);
}

TEST(World, ItsRatesAreThoseOfTheModelWhereNothingIsHidden) {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    Scenario scenario = random_scenario(seed, 0);
    scenario.world.scaling_loss = 0;
    const World world(scenario.world);
    const PlacementInputs& truth = scenario.world.truth;
    for (std::size_t cut = 0; cut < truth.cuts.size(); ++cut)
      for (const std::uint32_t workers : {1U, 5U, 40U})
        ASSERT_NEAR(world.rate({.cut = cut, .workers = workers, .cores = truth.cores}, workers) /
                        predict(truth, {}, {}, cut, workers).rate,
                    1, 1e-9)
            << seed;
  }
}

TEST(Oracle, IsTheBestConstantWhereNothingChanges) {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    Scenario scenario = random_scenario(seed, 0);
    scenario.events.clear();
    scenario.drift = {};
    scenario.world.scaling_loss = scenario.world.fleet.fails_per_hour = 0;
    World world(scenario.world);
    OraclePolicy oracle(world, scenario.horizon_s);
    const auto best = place(scenario.world.truth, scenario.world.prices, {.workers_max = 64});
    ASSERT_TRUE(best);
    const Running run = oracle.run();
    const Choice its = predict(scenario.world.truth, scenario.world.prices, {}, run.cut, run.workers);
    EXPECT_NEAR(its.cost_per_sample / best->choice.cost_per_sample, 1, 1e-6) << seed;
  }
}

const ShareRule kRule = share_rule(remote::client_shares);

TEST(FleetSimulation, CostsLessThanLocalAndNearlyTheLeastAndNobodyStarves) {
  const FleetResult fleet = run_fleet({.hosts = 60, .workers = 600, .minutes = 20, .users = 4}, kRule);
  EXPECT_LT(fleet.cost, 0.95 * fleet.cost_local);
  EXPECT_LT(fleet.cost, 1.03 * fleet.cost_best);
  EXPECT_GE(fleet.cost, fleet.cost_best);
  EXPECT_GE(fleet.cost_best, fleet.cost_best_money);
  EXPECT_GE(fleet.cost_best_jobs, fleet.cost_best);
  EXPECT_GE(fleet.cost, fleet.cost_best_jobs);
  EXPECT_EQ(fleet.starved_s, 0);
  EXPECT_GT(fleet.jobs, 90U);
  EXPECT_GT(fleet.jobs_kept, 20U);
  EXPECT_GT(fleet.jain, 0.98);
}

TEST(FleetSimulation, UsersHaveWorkersByWeight) {
  FleetOptions scarce{.hosts = 60, .workers = 80, .minutes = 20, .users = 4};
  const FleetResult fleet = run_fleet(scarce, kRule);
  EXPECT_GT(fleet.jain, 0.98);
  EXPECT_LT(fleet.starved_s, 300);
  EXPECT_LT(fleet.cost, 1.04 * fleet.cost_best);
  double hours = 0;
  for (const FleetUser& user : fleet.users) {
    hours += user.worker_hours;
    EXPECT_GT(user.worker_hours, 0.85 * user.part_hours);
    EXPECT_LT(user.worker_hours, 1.1 * user.part_hours);
  }
  EXPECT_NEAR(hours, fleet.workers_used / 3, 1e-6);
  scarce.by_weight = false;
  const FleetResult money = run_fleet(scarce, kRule);
  EXPECT_LT(money.jain, fleet.jain - 0.05) << "by money alone shares are no shares by weight";
}

TEST(FleetSimulation, NoMoreWorkersRunThanThereAre) {
  const FleetResult fleet = run_fleet({.hosts = 40, .workers = 50, .minutes = 5}, kRule);
  EXPECT_LE(fleet.workers_most, 50 + 1e-9);
  EXPECT_GE(fleet.workers_used, 20);
}

}  // namespace
}  // namespace carya::autotune::simulator
