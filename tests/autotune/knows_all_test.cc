#include "autotune/simulator/knows_all.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace carya::autotune::simulator {
namespace {

constexpr Prices kPrices{.host_per_hour = 5, .worker_per_hour = 0.5};

PlacementInputs facts(double demand, double local_s = 1e-3) {
  PlacementInputs made{.local_cpu_s = local_s, .cores = 4, .demand = demand, .worker_cores = 4};
  made.cuts = {{.ops_remote = 1, .host_cpu_s = 2e-4, .worker_cpu_s = 8e-4},
               {.ops_remote = 2, .host_cpu_s = 5e-5, .worker_cpu_s = 1e-3}};
  return made;
}

struct Point {
  double hours, dollars;  // of a sample
};
/// If others use what the job leaves of its workers.
Point by_use(double demand, std::size_t cut, std::uint32_t workers, double loss = 0) {
  PlacementInputs all = facts(demand);
  if (workers > 0) all.cuts[cut].worker_cpu_s *= 1 + loss * (workers - 1);
  const Choice choice = predict(all, kPrices, {}, cut, workers);
  const double used = choice.remote_share * choice.rate * all.cuts[cut].worker_cpu_s / all.worker_cores;
  return {used / choice.rate / 3600,
          (kPrices.host_per_hour + used * kPrices.worker_per_hour) / choice.rate / 3600};
}

TEST(LeastCost, OfOneJobIsThatOfTheBestMixtureOfTwoWays) {
  std::vector<Point> ways;
  for (std::size_t cut = 0; cut < 2; ++cut)
    for (std::uint32_t n = 0; n <= 64; ++n) ways.push_back(by_use(20'000, cut, n, 0.03));
  const Work work(1, facts(20'000), kPrices, 0.03, 64);  // each further worker brings less
  for (int step = 1; step < 20; ++step) {
    const double hours = 4.0 / 20'000 / 3600 * step / 20;  // of the four workers or so that it wants
    double least = 1e300;
    for (const Point& a : ways)
      for (const Point& b : ways) {
        if (a.hours > hours || b.hours < hours) continue;
        const double part = b.hours > a.hours ? (hours - a.hours) / (b.hours - a.hours) : 0;
        least = std::min(least, (1 - part) * a.dollars + part * b.dollars);
      }
    for (const Point& a : ways)
      if (a.hours <= hours) least = std::min(least, a.dollars);
    EXPECT_NEAR(least_cost(std::vector{work}, hours), least, 1e-9 * least) << step;
  }
}

TEST(LeastCost, IsThatOfTheBestPlacementWhereThereAreWorkersEnough) {
  for (const double demand : {1000.0, 9000.0, 50'000.0}) {
    const Work work(1e6, facts(demand), kPrices, 0, 64);
    double least = 1e300;
    for (std::size_t cut = 0; cut < 2; ++cut)
      for (std::uint32_t n = 0; n <= 64; ++n) least = std::min(least, by_use(demand, cut, n).dollars);
    EXPECT_NEAR(least_cost(std::vector{work}, 1e9), 1e6 * least, 1e-9) << demand;
  }
}

TEST(LeastCost, NoPlanIsBelowItAndMixturesReachIt) {
  std::mt19937_64 random(3);
  std::uniform_real_distribution<double> share(0, 1);
  for (int trial = 0; trial < 50; ++trial) {
    std::vector<PlacementInputs> jobs;
    std::vector<Work> work;
    for (int i = 0; i < 3; ++i) {
      jobs.push_back(facts(2000 + 30'000 * share(random), 1e-3 * (0.5 + share(random))));
      work.emplace_back(1e6, jobs.back(), kPrices, 0, 64);
    }
    for (int plan = 0; plan < 50; ++plan) {  // each job makes its samples in two ways
      double dollars = 0, hours = 0;
      for (const PlacementInputs& job : jobs)
        for (const double part : {0.3, 0.7}) {
          const auto workers = static_cast<std::uint32_t>(random() % 20);
          const Choice way = predict(job, kPrices, {}, random() % 2, workers);
          dollars += part * 1e6 * way.cost_per_sample;
          hours += part * 1e6 / way.rate / 3600 * workers;
        }
      EXPECT_LE(least_cost(work, hours), dollars * (1 + 1e-9)) << trial;
    }
    // What is cheapest at a price of worker-hours is the least for as many.
    double dollars = 0, hours = 0;
    for (const Work& one : work) {
      dollars += one.samples() * one.cheapest(0.7).dollars;
      hours += one.samples() * one.cheapest(0.7).worker_hours;
    }
    EXPECT_NEAR(least_cost(work, hours), dollars, 1e-6 * dollars) << trial;
    EXPECT_GE(least_cost(work, hours / 2), dollars);
  }
}

TEST(LeastCost, WorkersThatSlowEachOtherCostMore) {
  const double free = least_cost(std::vector{Work(1e6, facts(20'000), kPrices, 0, 64)}, 1e9);
  EXPECT_GT(least_cost(std::vector{Work(1e6, facts(20'000), kPrices, 0.01, 64)}, 1e9), 1.005 * free);
}

TEST(LeastCost, TheRestOfALastWorkerIsForOthers) {
  const Work half(1e6, facts(6500), kPrices, 0, 64);  // 4,000 of them are the host's
  const Work::Way& way = half.cheapest(0);
  EXPECT_GT(way.worker_hours, 0);
  EXPECT_LT(way.worker_hours, 0.9 / 6500 / 3600);
}

TEST(ByWeight, GivesTheSameForEachWeightButForBounds) {
  using Shares = std::vector<double>;
  const auto shares = [](const Shares& weights, const Shares& least, const Shares& most, double total) {
    Shares given = by_weight(weights, least, most, total);
    for (double& one : given) one = std::round(one * 1e6) / 1e6;
    return given;
  };
  EXPECT_EQ(shares({1, 2}, {0, 0}, {100, 100}, 9), (Shares{3, 6}));
  EXPECT_EQ(shares({1, 2}, {0, 0}, {100, 4}, 9), (Shares{5, 4})) << "what one leaves is the others'";
  EXPECT_EQ(shares({1, 2, 1}, {5, 0, 0}, {9, 9, 9}, 11), (Shares{5, 4, 2}));
  EXPECT_EQ(shares({1, 2}, {0, 0}, {3, 4}, 9), (Shares{3, 4}));
  EXPECT_EQ(shares({1, 2}, {6, 6}, {9, 9}, 9), (Shares{6, 6})) << "there is less than the least";
}

TEST(Jain, IsOneWhereAllAreEqualAndOneInAllWhereOneHasAll) {
  EXPECT_DOUBLE_EQ(jain_index(std::vector<double>{2, 2, 2}), 1);
  EXPECT_DOUBLE_EQ(jain_index(std::vector<double>{5, 0, 0, 0}), 0.25);
  EXPECT_DOUBLE_EQ(jain_index(std::vector<double>{1, 2, 3}), 36. / 42);
}

}  // namespace
}  // namespace carya::autotune::simulator
