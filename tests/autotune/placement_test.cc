#include "autotune/placement/placement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "autotune/placement/neighbours.h"

namespace carya::autotune {
namespace {

using ::testing::HasSubstr;

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// One core makes 1000 samples/s, a worker of one core as many at the last cut; the trainer takes 3500.
PlacementInputs four_cores_short() {
  PlacementInputs facts{.local_cpu_s = 1e-3, .cores = 1, .demand = 3500, .worker_cores = 1};
  facts.cuts = {{.ops_remote = 1, .host_cpu_s = 5e-4, .worker_cpu_s = 5e-4, .bytes_in = 6e5},
                {.ops_remote = 2, .host_cpu_s = 0, .worker_cpu_s = 1e-3, .bytes_in = 1.5e5}};
  return facts;
}
constexpr Prices kPrices{.host_per_hour = 5, .worker_per_hour = 0.5};

TEST(Placement, OnlyTheSurplusGoesToAsFewWorkersAsItTakes) {
  const auto best = place(four_cores_short(), kPrices, {});
  ASSERT_TRUE(best);
  EXPECT_EQ(best->choice.workers, 3U);
  EXPECT_EQ(best->choice.cut, 1U);
  EXPECT_DOUBLE_EQ(best->choice.rate, 3500);
  EXPECT_NEAR(best->choice.remote_share, 2500. / 3500, 1e-12);
  EXPECT_NEAR(best->choice.cores, 1, 1e-12);
  EXPECT_DOUBLE_EQ(best->choice.cost_per_sample, 6.5 / 3600 / 3500);
  EXPECT_EQ(best->choice.limit, Limit::kDemand);
}

TEST(Placement, NoWorkersWhereLocalCoresSufficeAndTheRestIsGivenBack) {
  PlacementInputs facts = four_cores_short();
  facts.cores = 8;
  const auto best = place(facts, kPrices, {});
  ASSERT_TRUE(best);
  EXPECT_EQ(best->choice.workers, 0U);
  EXPECT_FALSE(best->choice.cut);
  EXPECT_DOUBLE_EQ(best->choice.cores, 3.5);
}

TEST(Placement, ANarrowLinkTakesTheSmallerCutAndNamesItself) {
  PlacementInputs facts = four_cores_short();
  facts.cuts[1].host_cpu_s = 6e-4;  // now the first cut is the better one
  facts.worker_cores = 4;
  auto best = place(facts, kPrices, {});
  ASSERT_TRUE(best);
  EXPECT_EQ(best->choice.cut, 0U);
  facts.link_in_bytes_per_s = 1.5e8;  // 250 samples/s of the first cut, 1000 of the second
  best = place(facts, kPrices, {});
  ASSERT_TRUE(best);
  EXPECT_EQ(best->choice.cut, 1U);
  EXPECT_EQ(best->choice.workers, 1U);
  EXPECT_DOUBLE_EQ(best->choice.rate, 1400);
  EXPECT_EQ(best->choice.limit, Limit::kLinkIn);
}

TEST(Placement, PriceDecidesWhereTheTrainerCannotBeServedWhole) {
  PlacementInputs facts = four_cores_short();
  facts.demand = 100'000;
  facts.link_in_bytes_per_s = 1.5e5 * 10'000;
  EXPECT_EQ(place(facts, kPrices, {})->choice.workers, 10U);  // the link's 10,000 are worth their price
  // A tenth of the stream for half of the host's price is no bargain.
  EXPECT_EQ(place(facts, {.host_per_hour = 0.4, .worker_per_hour = 0.5}, {})->choice.workers, 0U);
}

TEST(Placement, GoalsBindAndAreNamed) {
  const PlacementInputs facts = four_cores_short();
  PlacementGoal goal{.workers_max = 2};
  EXPECT_EQ(place(facts, kPrices, goal)->choice.workers, 2U);
  EXPECT_EQ(place(facts, kPrices, goal)->choice.limit, Limit::kWorkersMax);
  goal = {.workers_max = 2, .workers_there = 1};
  EXPECT_EQ(place(facts, kPrices, goal)->choice.workers, 1U);
  EXPECT_EQ(place(facts, kPrices, goal)->choice.limit, Limit::kWorkersThere);
  goal = {.workers_cost_per_hour_max = 0.5};
  EXPECT_EQ(place(facts, kPrices, goal)->choice.workers, 1U);
  EXPECT_EQ(place(facts, kPrices, goal)->choice.limit, Limit::kWorkersCostMax);
  goal = {.objective = Objective::kCostAtTarget, .target = 1800};
  EXPECT_EQ(place(facts, kPrices, goal)->choice.workers, 1U);
  EXPECT_DOUBLE_EQ(place(facts, kPrices, goal)->choice.rate, 1800);
  goal = {.objective = Objective::kSpeed};
  EXPECT_EQ(place(facts, {.host_per_hour = 0, .worker_per_hour = 100}, goal)->choice.workers, 3U);
}

TEST(Placement, AWorkerThatIsAThirdAsFastIsNotPaidForWhereItBringsLess) {
  // 1000 samples/s here for $5 an hour; a worker for $0.5 must bring 100 a second or more.
  PlacementInputs facts{.local_cpu_s = 1e-3, .cores = 1, .worker_cores = 1};
  facts.cuts = {{.ops_remote = 1, .worker_cpu_s = 5e-3, .bytes_in = 1}};  // 200 a second
  const PlacementGoal goal{.workers_max = 2};
  EXPECT_EQ(place(facts, kPrices, goal)->choice.workers, 2U);
  facts.worker_speeds = {1, 0.33};
  EXPECT_EQ(place(facts, kPrices, goal)->choice.workers, 1U);
  EXPECT_NEAR(predict(facts, kPrices, goal, 0, 2).rate, 1266, 1);
  facts.worker_speeds = {1, 0.8};
  EXPECT_EQ(place(facts, kPrices, goal)->choice.workers, 2U);
}

TEST(Placement, TwoPercentOfWaitingAreAcceptedForCost) {
  PlacementInputs facts = four_cores_short();
  facts.demand = 3030;  // 3000 with two workers: 1 % of waiting
  EXPECT_EQ(place(facts, kPrices, {})->choice.workers, 2U);
  EXPECT_EQ(place(facts, kPrices, {.objective = Objective::kSpeed})->choice.workers, 3U);
}

// The stream's rate as a linear program: samples made here and there, its corners tried one by one.
struct Corner {
  double rate = 0, remote = 0;
};
Corner brute_rate(const PlacementInputs& facts, double wanted, const RemoteCut& cut, std::size_t workers) {
  const std::vector<double>& speeds = facts.worker_speeds;
  double all = 0, speed = 0;
  for (const double one : speeds) all += one;
  for (std::size_t i = 0; i < workers; ++i)
    speed += i < speeds.size() ? speeds[i] : speeds.empty() ? 1 : all / static_cast<double>(speeds.size());
  struct Line {
    double local, remote, most;
  };
  const std::vector<Line> lines = {{facts.local_cpu_s, cut.host_cpu_s, facts.cores},
                                   {0, cut.worker_cpu_s, speed * facts.worker_cores},
                                   {0, cut.bytes_in, facts.link_in_bytes_per_s},
                                   {0, cut.bytes_out, facts.link_out_bytes_per_s},
                                   {facts.source_bytes, facts.source_bytes, facts.source_bytes_per_s},
                                   {1, 1, wanted},
                                   {-1, 0, 0},
                                   {0, -1, 0}};
  Corner best;
  for (const Line& a : lines)
    for (const Line& b : lines) {
      const double det = a.local * b.remote - b.local * a.remote;
      if (std::abs(det) < 1e-30 || !std::isfinite(a.most) || !std::isfinite(b.most)) continue;
      const double local = (a.most * b.remote - b.most * a.remote) / det;
      const double remote = (a.local * b.most - b.local * a.most) / det;
      const bool fits = std::all_of(lines.begin(), lines.end(), [&](const Line& line) {
        return line.local * local + line.remote * remote <=
               line.most + 1e-9 * (std::abs(line.most) + std::abs(line.local * local));
      });
      if (!fits) continue;
      const double rate = local + remote;
      if (rate > best.rate * (1 + 1e-9) || (rate > best.rate * (1 - 1e-9) && remote < best.remote))
        best = {rate, remote};
    }
  return best;
}

PlacementInputs random_facts(std::mt19937_64& random) {
  std::uniform_real_distribution<double> share(0, 1);
  const auto between = [&](double low, double high) {
    return low * std::exp(share(random) * std::log(high / low));
  };
  PlacementInputs facts{.local_cpu_s = between(1e-4, 1e-2),
                        .cores = between(0.5, 16),
                        .demand = between(50, 50'000),
                        .worker_cores = between(0.5, 16),
                        .link_in_bytes_per_s = between(1e7, 1e10),
                        .link_out_bytes_per_s = between(1e7, 1e10),
                        .source_bytes = between(1e3, 1e6),
                        .source_bytes_per_s = between(1e7, 1e11)};
  for (std::size_t cut = 1 + random() % 4; cut > 0; --cut)
    facts.cuts.push_back({.ops_remote = facts.cuts.size() + 1,
                          .host_cpu_s = facts.local_cpu_s * 1.1 * share(random),
                          .worker_cpu_s = facts.local_cpu_s * (0.1 + share(random)),
                          .bytes_in = between(1e3, 1e6),
                          .bytes_out = random() % 2 ? 0 : facts.source_bytes});
  for (std::size_t known = random() % 6; known > 0; --known) facts.worker_speeds.push_back(between(0.1, 1));
  return facts;
}

TEST(Placement, TheModelIsTheBestCornerOfTheLinearProgram) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 3000; ++i) {
    const PlacementInputs facts = random_facts(random);
    for (std::size_t cut = 0; cut < facts.cuts.size(); ++cut)
      for (const std::uint32_t workers : {1U, 3U, 20U}) {
        const Choice said = predict(facts, kPrices, {}, cut, workers);
        const Corner brute = brute_rate(facts, facts.demand, facts.cuts[cut], workers);
        ASSERT_NEAR(said.rate / brute.rate, 1, 1e-6) << "case " << i;
        ASSERT_NEAR(said.remote_share, brute.remote / brute.rate, 1e-5) << "case " << i;
      }
  }
}

TEST(Placement, TheSearchIsTheBestOfAllByTryingAll) {
  std::mt19937_64 random(2);
  int with_workers = 0, without = 0;
  for (int i = 0; i < 600; ++i) {
    const PlacementInputs facts = random_facts(random);
    const Prices prices{.host_per_hour = 5,
                        .worker_per_hour = 0.05 + static_cast<double>(random() % 100) / 50};
    const PlacementGoal goal{.workers_max = 60};
    // Least cost among those that serve the trainer, or among all; the corners' rates, not the model's.
    double least = kInf, least_fitting = kInf;
    for (const RemoteCut& cut : facts.cuts)
      for (int workers = 0; workers <= 60; ++workers) {
        const double rate = brute_rate(facts, facts.demand, cut, workers).rate;
        const double cost = (prices.host_per_hour + workers * prices.worker_per_hour) / 3600 / rate;
        least = std::min(least, cost);
        if (rate >= facts.demand * (1 - kStallMax - 1e-9)) least_fitting = std::min(least_fitting, cost);
      }
    const auto best = place(facts, prices, goal);
    ASSERT_TRUE(best);
    const double wanted = std::isfinite(least_fitting) ? least_fitting : least;
    ASSERT_NEAR(best->choice.cost_per_sample / wanted, 1, 1e-6) << "case " << i;
    (best->choice.workers > 0 ? with_workers : without) += 1;
  }
  EXPECT_GT(with_workers, 50);  // the drawn cases try both answers
  EXPECT_GT(without, 50);
}

TEST(Placement, WhatIsUnknownLimitsNothing) {
  PlacementInputs facts = four_cores_short();
  const auto plain = place(facts, kPrices, {});
  for (const double unknown : {0.0, -1.0, kNan, kInf, -kInf}) {
    facts.link_in_bytes_per_s = facts.link_out_bytes_per_s = facts.source_bytes_per_s = unknown;
    facts.source_bytes = unknown > 0 ? 1 : unknown;
    const auto best = place(facts, kPrices, {});
    ASSERT_TRUE(best);
    EXPECT_EQ(best->choice.workers, plain->choice.workers);
    facts.demand = unknown;
    const auto open = place(facts, kPrices, {.workers_max = 7});
    ASSERT_TRUE(open);
    EXPECT_EQ(open->choice.workers, 7U);  // it takes all there is
    EXPECT_EQ(open->choice.limit, Limit::kWorkersMax);
    facts.demand = 3500;
  }
}

TEST(Placement, NumbersThatCannotBeAreNamed) {
  const auto said = [](const auto& result) {
    return result ? std::string("accepted") : result.error().message;
  };
  for (const double bad : {kNan, -1.0, kInf}) {
    PlacementInputs facts = four_cores_short();
    facts.local_cpu_s = bad;
    EXPECT_THAT(said(place(facts, kPrices, {})), HasSubstr("local_cpu_s is"));
    facts = four_cores_short();
    facts.cores = bad;
    EXPECT_THAT(said(place(facts, kPrices, {})), HasSubstr("cores is"));
    facts = four_cores_short();
    facts.cuts[1].worker_cpu_s = bad;
    EXPECT_THAT(said(place(facts, kPrices, {})), HasSubstr("the cut after 2 ops: worker_cpu_s is"));
    facts = four_cores_short();
    facts.cuts[0].bytes_in = bad;
    EXPECT_THAT(said(place(facts, kPrices, {})), HasSubstr("the cut after 1 ops: bytes_in is"));
    facts = four_cores_short();
    EXPECT_THAT(said(place(facts, {.host_per_hour = 1, .worker_per_hour = bad}, {})),
                HasSubstr("prices: worker"));
  }
  EXPECT_THAT(said(place(four_cores_short(), kPrices, {.workers_max = kAnyWorkersMax + 1})),
              HasSubstr("max_workers"));
  EXPECT_THAT(said(place(four_cores_short(), kPrices, {.workers_cost_per_hour_max = kNan})),
              HasSubstr("max_cost_per_hour"));
  EXPECT_THAT(said(place(four_cores_short(), kPrices, {.target = kNan})), HasSubstr("target"));
}

TEST(Neighbours, SayWhatTheyCostAndWhyTheyLost) {
  const PlacementInputs facts = four_cores_short();
  const auto best = place(facts, kPrices, {});
  ASSERT_TRUE(best);
  const auto beside = neighbours(facts, kPrices, {}, best->choice, best->reachable);
  const auto named = [&](const std::string& name) {
    const auto at =
        std::find_if(beside.begin(), beside.end(), [&](const auto& it) { return it.name == name; });
    return at == beside.end() ? std::string("missing") : at->why;
  };
  EXPECT_EQ(named("one worker more"), "7.69 % more per sample");
  EXPECT_EQ(named("one worker less"), "the trainer would wait 14.3 % of the time");
  EXPECT_EQ(named("no workers"), "the trainer would wait 71.4 % of the time");
  EXPECT_EQ(named("all remote"), "7.69 % more per sample");  // four workers
  EXPECT_THAT(named("cut after 1 op"), HasSubstr("the trainer would wait"));
  EXPECT_THAT(choice_text(facts, best->choice),
              HasSubstr("3 workers, cut after 2 ops, 71.4 % of the samples; 1 cores here; 3500 samples/s"));
}

TEST(Neighbours, NoWorkerIsOfferedThatThereCannotBe) {
  const PlacementInputs facts = four_cores_short();
  const auto offered = [&](const PlacementGoal& goal) {
    std::string why = "nothing";
    for (const Neighbour& beside :
         neighbours(facts, kPrices, goal, predict(facts, kPrices, goal, 1, 2), false)) {
      EXPECT_LE(beside.choice.workers, 3U) << beside.name;
      if (beside.name == "one worker more") why = beside.why;
    }
    return why;
  };
  EXPECT_EQ(offered({.workers_there = 2}), "nothing");
  EXPECT_THAT(offered({.workers_max = 2, .workers_there = 3}), HasSubstr(", beyond max_workers"));
  EXPECT_THAT(offered({.workers_there = 3, .workers_cost_per_hour_max = 1}),
              HasSubstr(", beyond max_cost_per_hour"));
}

TEST(Neighbours, NoInfinityIsEverSaid) {
  std::mt19937_64 random(4);
  for (int i = 0; i < 500; ++i) {
    PlacementInputs facts = random_facts(random);
    if (i % 4 == 0) facts.source_bytes_per_s = 1e-300;  // nothing can be made here
    const Prices prices{.host_per_hour = i % 2 * 5.0, .worker_per_hour = i % 3 * 0.5};
    const PlacementGoal goal{.objective = static_cast<Objective>(random() % 3), .workers_max = 40};
    const auto best = place(facts, prices, goal);
    ASSERT_TRUE(best);
    for (const Choice& chosen : {best->choice, Choice{}})  // also beside one that makes nothing
      for (const Neighbour& beside : neighbours(facts, prices, goal, chosen, best->reachable))
        for (const std::string& said : {beside.why, choice_text(facts, beside.choice)})
          for (const char* word : {"inf", "nan"})
            ASSERT_EQ(said.find(word), std::string::npos) << said << " case " << i;
  }
}

TEST(Neighbours, NoneIsBetterThanTheBest) {
  std::mt19937_64 random(3);
  for (int i = 0; i < 500; ++i) {
    const PlacementInputs facts = random_facts(random);
    const PlacementGoal goal{.objective = static_cast<Objective>(random() % 3), .workers_max = 40};
    const auto best = place(facts, kPrices, goal);
    ASSERT_TRUE(best);
    for (const Neighbour& beside : neighbours(facts, kPrices, goal, best->choice, best->reachable))
      if (beside.choice.workers <= 40 && !beside.choice.all_remote) {
        ASSERT_FALSE(better(goal, beside.choice, best->choice, best->reachable))
            << beside.name << " case " << i;
      }
  }
}

}  // namespace
}  // namespace carya::autotune
