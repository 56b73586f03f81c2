#include "autotune/sharing/sharing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <string>

namespace carya::autotune {
namespace {

Claim claim(double demand, double host_price, double local_ms = 1, double cores = 1) {
  Claim made{.facts = {.local_cpu_s = local_ms * 1e-3, .cores = cores, .demand = demand},
             .prices = {.host_per_hour = host_price, .worker_per_hour = 0.5}};
  made.facts.cuts = {{.ops_remote = 1, .worker_cpu_s = local_ms * 1e-3, .bytes_in = 1}};
  return made;
}

Claim local_claim(double demand, double host_price) {
  Claim made = claim(demand, host_price);
  made.goal.workers_max = 0;
  return made;
}

TEST(Sharing, ThreadsGoWhereTheySaveMost) {
  const std::vector<Claim> jobs = {local_claim(4000, 1), local_claim(4000, 20), local_claim(500, 5)};
  // Two of six are each job's right; what the last one leaves saves most on the dear host.
  EXPECT_EQ(share_threads(jobs, 6).value(), (std::vector<std::uint32_t>{2, 3, 1}));
  // A right to 2.33: the third core is one that turns decide about.
  EXPECT_EQ(share_threads(jobs, 7).value(), (std::vector<std::uint32_t>{3, 4, 1}));
}

Claim weighted(double demand, double weight) {
  Claim made = local_claim(demand, 5);
  made.weight = weight;
  return made;
}

TEST(Sharing, ThreadsAreSharedByWeight) {
  const double all = 1e6;
  EXPECT_EQ(share_threads(std::vector{weighted(all, 3), weighted(all, 1)}, 8).value(),
            (std::vector<std::uint32_t>{6, 2}));
  EXPECT_EQ(share_threads(std::vector{weighted(all, 0.03), weighted(all, 0.01)}, 2).value(),
            (std::vector<std::uint32_t>{2, 1}))
      << "a right to one and a half";
  EXPECT_EQ(share_threads(std::vector{weighted(1900, 3), weighted(all, 1)}, 8).value(),
            (std::vector<std::uint32_t>{2, 6}))
      << "who needs less leaves the rest";
  EXPECT_EQ(share_threads(std::vector{weighted(all, 100), weighted(all, 0.01)}, 4).value(),
            (std::vector<std::uint32_t>{4, 1}))
      << "nobody starves";
  for (const double weight : {0.0, -1.0, std::numeric_limits<double>::infinity(), std::nan("")}) {
    const auto wrong = share_threads(std::vector{weighted(all, 1), weighted(all, weight)}, 4);
    ASSERT_FALSE(wrong);
    EXPECT_NE(wrong.error().message.find("claim 1: weight"), std::string::npos);
  }
}

TEST(Sharing, ACoreIsWorthMoreWhereNoWorkersCome) {
  const std::vector<Claim> jobs = {claim(8000, 5), local_claim(8000, 5), local_claim(100, 5)};
  const auto given = share_threads(jobs, 12).value();  // the last one leaves three of its four
  EXPECT_EQ(given, (std::vector<std::uint32_t>{4, 7, 1}));
}

TEST(Sharing, ThreadsGoToWhoNeedsThem) {
  const std::vector<Claim> jobs = {local_claim(500, 5), local_claim(100'000, 5)};  // a slow trainer
  EXPECT_EQ(share_threads(jobs, 8).value(), (std::vector<std::uint32_t>{1, 7}));
}

TEST(Sharing, CoresThatSaveAWorkerTogetherAreGiven) {
  std::vector<Claim> jobs = {claim(6000, 5), claim(500, 5)};  // six cores and less than one
  jobs[0].facts.worker_cores = 4;
  // The second core sends one of its two workers away; the third to fifth alone save nothing, with the sixth the other.
  EXPECT_EQ(share_threads(jobs, 8).value(), (std::vector<std::uint32_t>{6, 2}));
  EXPECT_EQ(share_threads(jobs, 6).value(), (std::vector<std::uint32_t>{3, 3}))
      << "there is no sixth core for it";
}

TEST(Sharing, AJobAloneMayUseAllThreads) {
  EXPECT_EQ(share_threads(std::vector<Claim>{claim(500, 5)}, 16).value(), std::vector<std::uint32_t>{16});
  EXPECT_EQ(share_threads(std::vector<Claim>{claim(500, 5), claim(500, 5)}, 7).value(),
            (std::vector<std::uint32_t>{4, 3}));  // what saves nobody money goes to who has fewest
}

TEST(Sharing, AWorkerIsWorthWhatTheLastOneSaves) {
  const Claim host = claim(2500, 5);  // 1000 a second here, 1000 from each worker
  EXPECT_NEAR(worth_of_worker(host, 1), 2 * 5 - 5.5, 1e-9);
  EXPECT_EQ(worth_of_worker(host, 0), worth_of_worker(host, 1));
  EXPECT_NEAR(worth_of_worker(host, 2), 1.25 * 5.5 - 6, 1e-9);  // half of it
  EXPECT_EQ(worth_of_worker(host, 3), 0);
}

TEST(Sharing, EveryJobHasAThreadAndWhatItNeedsOfItsRight) {
  std::mt19937_64 random(7);
  for (std::uint32_t trial = 0; trial < 200; ++trial) {
    std::vector<Claim> jobs;
    const std::size_t count = 1 + random() % 12;
    double weights = 0;
    for (std::size_t i = 0; i < count; ++i) {
      jobs.push_back(
          local_claim(static_cast<double>(1 + random() % 20'000), static_cast<double>(1 + random() % 30)));
      jobs.back().weight = std::ldexp(1 + static_cast<double>(random() % 8), -3);
      weights += jobs.back().weight;
    }
    const auto cores = static_cast<std::uint32_t>(1 + random() % 32);
    const std::vector<std::uint32_t> given = share_threads(jobs, cores).value();
    const auto sum = std::accumulate(given.begin(), given.end(), std::size_t{0});
    EXPECT_GE(sum, std::max<std::size_t>(cores, count)) << trial;
    EXPECT_LE(sum, std::max<std::size_t>(cores, count) + 2 * count) << trial;
    for (std::size_t i = 0; i < count; ++i) {
      const double needed = jobs[i].facts.demand * jobs[i].facts.local_cpu_s;
      const double right = cores * jobs[i].weight / weights;
      EXPECT_GE(given[i] + 1e-6, std::max(1.0, std::min(std::ceil(needed), right)))
          << trial << ", job " << i << " of demand " << jobs[i].facts.demand;
    }
  }
}

TEST(Sharing, WorkersThatNobodyNeedsAreGivenToNobody) {
  const auto workers = share_workers(std::vector<Claim>{claim(900, 5), claim(2500, 5)}, 64);
  ASSERT_TRUE(workers);
  EXPECT_EQ(*workers, (std::vector<std::uint32_t>{0, 2}));
}

TEST(Sharing, WhoGainsByAWorkerGetsOne) {
  std::vector<Claim> hosts = {claim(50'000, 50), claim(3000, 2)};
  EXPECT_EQ(share_workers(hosts, 10).value(), (std::vector<std::uint32_t>{8, 2})) << "all that it gains by";
  hosts[1].weight = 0.01;
  EXPECT_EQ(share_workers(hosts, 10).value(), (std::vector<std::uint32_t>{9, 1}));
  EXPECT_EQ(share_workers(hosts, 1).value(), (std::vector<std::uint32_t>{1, 0})) << "there is one";
}

TEST(Sharing, WorkersAreSharedByWeight) {
  const double all = 1e6;
  const auto shared = [](std::vector<Claim> hosts, std::vector<double> weights, std::uint32_t workers) {
    for (std::size_t i = 0; i < hosts.size(); ++i) hosts[i].weight = weights[i];
    return share_workers(hosts, workers).value();
  };
  const std::vector<Claim> dear_and_cheap = {claim(all, 5), claim(all, 50)};
  EXPECT_EQ(shared(dear_and_cheap, {3, 1}, 8), (std::vector<std::uint32_t>{6, 2}));
  EXPECT_EQ(shared(dear_and_cheap, {0.03, 0.01}, 8), (std::vector<std::uint32_t>{6, 2}));
  EXPECT_EQ(shared(dear_and_cheap, {1, 1}, 9), (std::vector<std::uint32_t>{4, 5}))
      << "the odd one goes by money";
  EXPECT_EQ(shared({claim(2900, 5), claim(all, 5), claim(all, 5)}, {4, 1, 3}, 10),
            (std::vector<std::uint32_t>{2, 2, 6}))
      << "what one leaves goes to the others by weight";
  EXPECT_EQ(shared({claim(all, 5), claim(all, 5)}, {100, 0.01}, 5), (std::vector<std::uint32_t>{4, 1}));
}

TEST(Sharing, ClaimsOfOneOwnerShareWhatTheirWeightsGive) {
  std::vector<Claim> hosts = {claim(1e6, 5), claim(3900, 50), claim(1e6, 5)};
  hosts[0].owner = hosts[1].owner = 7;
  hosts[0].weight = hosts[1].weight = 0.5;
  // Four of eight are each owner's: three of the first one's save more on the dear host.
  EXPECT_EQ(share_workers(hosts, 8).value(), (std::vector<std::uint32_t>{1, 3, 4}));
  hosts[2].owner = 7;
  hosts[2].weight = 1;
  EXPECT_EQ(share_workers(hosts, 5).value(), (std::vector<std::uint32_t>{1, 3, 1}))
      << "money alone decides in it";
}

TEST(Sharing, AnOwnerHasTheWorkersOfItsRightThatSaveMoney) {
  std::mt19937_64 random(11);
  for (std::uint32_t trial = 0; trial < 200; ++trial) {
    std::vector<Claim> hosts;
    const std::size_t count = 1 + random() % 12, owners = 1 + random() % 4;
    std::vector<double> weight(owners), wanted(owners), given(owners);
    double weights = 0;
    for (std::size_t i = 0; i < count; ++i) {
      hosts.push_back(
          claim(static_cast<double>(1 + random() % 20'000), static_cast<double>(1 + random() % 30)));
      hosts[i].weight = std::ldexp(1 + static_cast<double>(random() % 8), -3);
      hosts[i].owner = static_cast<std::uint32_t>(random() % owners);
      weights += hosts[i].weight;
    }
    const auto alone = share_workers(hosts, 100'000).value();
    const auto workers = static_cast<std::uint32_t>(random() % 100);
    const auto shared = share_workers(hosts, workers).value();
    std::uint32_t sum = 0, gain = 0;
    for (std::size_t i = 0; i < count; ++i) {
      weight[*hosts[i].owner] += hosts[i].weight, wanted[*hosts[i].owner] += alone[i];
      given[*hosts[i].owner] += shared[i];
      sum += shared[i], gain += alone[i] > 0 ? 1 : 0;
      EXPECT_LE(shared[i], alone[i]) << trial;
    }
    EXPECT_EQ(sum, std::min(workers, std::accumulate(alone.begin(), alone.end(), 0U))) << trial;
    if (gain > workers) continue;
    for (std::size_t i = 0; i < count; ++i) EXPECT_EQ(shared[i] > 0, alone[i] > 0) << trial;
    for (std::size_t owner = 0; owner < owners; ++owner) {
      // What all first ones take is not shared by weight.
      const double right = std::floor((workers - gain) * weight[owner] / weights);
      EXPECT_GE(given[owner], std::min(wanted[owner], right)) << trial << ", owner " << owner;
    }
  }
}

// What all pay per hour of their own work, by the model.
double bill(const std::vector<Claim>& hosts, const std::vector<std::uint32_t>& given) {
  double total = 0;
  for (std::size_t i = 0; i < hosts.size(); ++i)
    total += predict(hosts[i].facts, hosts[i].prices, {}, 0, given[i]).cost_per_sample *
             hosts[i].facts.demand * 3600;
  return total;
}

TEST(Sharing, WorkersAreSharedAsTryingAllWaysWould) {
  std::mt19937_64 random(7);
  std::uniform_real_distribution<double> share(0, 1);
  for (int trial = 0; trial < 200; ++trial) {
    std::vector<Claim> hosts;
    for (int i = 0; i < 3; ++i) {
      hosts.push_back(claim(1000 + 6000 * share(random), 3 + 10 * share(random), 0.5 + share(random)));
      hosts.back().owner = 1;
    }
    const auto given = share_workers(hosts, 7);
    ASSERT_TRUE(given);
    double least = 1e300;
    std::vector<std::uint32_t> way(3);
    for (way[0] = 0; way[0] <= 7; ++way[0])
      for (way[1] = 0; way[0] + way[1] <= 7; ++way[1])
        for (way[2] = 0; way[0] + way[1] + way[2] <= 7; ++way[2]) {
          const bool starves = std::any_of(way.begin(), way.end(), [&](const std::uint32_t& one) {
            const auto i = static_cast<std::size_t>(&one - way.data());
            return one == 0 && given->at(i) > 0;
          });
          if (!starves) least = std::min(least, bill(hosts, way));
        }
    // Ours counts savings at each host's own rate, the bill at its whole demand: near, not equal.
    EXPECT_LE(bill(hosts, *given), 1.1 * least) << trial;
  }
}

TEST(Sharing, NumbersThatCannotBeAreNamed) {
  std::vector<Claim> jobs = {claim(1, 1), claim(1, 1)};
  jobs[1].facts.local_cpu_s = -1;
  const auto wrong = share_workers(jobs, 4);
  ASSERT_FALSE(wrong);
  EXPECT_NE(wrong.error().message.find("claim 1: placement: local_cpu_s"), std::string::npos);
  EXPECT_FALSE(share_threads(jobs, 4));
  jobs[1] = claim(1, 1);
  jobs[1].weight = 0;
  EXPECT_NE(share_workers(jobs, 4).error().message.find("claim 1: weight is 0"), std::string::npos);
  EXPECT_FALSE(share_threads(std::vector<Claim>{claim(1, 1)}, 0));
  EXPECT_TRUE(share_threads(std::vector<Claim>{}, 4)->empty());
}

}  // namespace
}  // namespace carya::autotune
