#include "loader/daemon/core_shares.h"

#include "loader/daemon/host_shares.h"

#include <gtest/gtest.h>

namespace carya::loader {
namespace {

using Shares = std::vector<CoreShares::Share>;

// Threads, where nobody has workers.
Shares threads(std::initializer_list<std::uint32_t> of_each) {
  Shares shares;
  for (const std::uint32_t one : of_each) shares.push_back({.threads = one});
  return shares;
}

// One stream: samples of a millisecond, a trainer that takes so many a second.
CoreShares::Bidder stream(const int& who, double demand) {
  return {&who,
          {.facts = {.local_cpu_s = 1e-3, .cuts = {}, .demand = demand},
           .prices = {},
           .goal = {.workers_max = 0}}};
}

// The same, which workers may compute as fast.
CoreShares::Bidder remote_stream(const int& who, double demand, std::uint32_t workers) {
  CoreShares::Bidder bidder = stream(who, demand);
  bidder.claim.facts.cuts = {{.ops_remote = 1, .host_cpu_s = 1e-5, .worker_cpu_s = 1e-3, .bytes_in = 1000}};
  bidder.claim.facts.worker_cores = 1;
  bidder.claim.prices = {.host_per_hour = 5, .worker_per_hour = 0.4};
  bidder.claim.goal = {};
  bidder.workers = workers;
  return bidder;
}

TEST(CoreShares, AStreamAloneHasAllAndTheOtherItsPartAtOnce) {
  const int a = 0, b = 0;
  CoreShares shares;
  EXPECT_EQ(shares.look({stream(a, 500)}, 8), threads({8}));
  EXPECT_EQ(shares.look({stream(a, 500)}, 8), std::nullopt);
  EXPECT_EQ(shares.look({stream(a, 500), stream(b, 0)}, 8), threads({1, 7})) << "it wants all it can get";
  EXPECT_EQ(shares.look({stream(b, 0)}, 8), threads({8}));
  EXPECT_EQ(shares.look({}, 8), threads({}));
}

TEST(CoreShares, FollowWhatLastsAndNoNoise) {
  const int a = 0, b = 0;
  CoreShares shares;
  const std::vector<CoreShares::Bidder> slow{stream(a, 500), stream(b, 0)};
  const std::vector<CoreShares::Bidder> fast{stream(a, 2500), stream(b, 0)};
  EXPECT_EQ(shares.look(slow, 8), threads({1, 7}));
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(shares.look(fast, 8), std::nullopt);
    EXPECT_EQ(shares.look(slow, 8), std::nullopt);
  }
  for (int i = 1; i < CoreShares::kSame; ++i) EXPECT_EQ(shares.look(fast, 8), std::nullopt);
  EXPECT_EQ(shares.look(fast, 8), threads({3, 5}));
  EXPECT_EQ(shares.look(fast, 8), std::nullopt);
  EXPECT_EQ(shares.look(fast, 4), threads({2, 2})) << "the machine has fewer cores";
}

TEST(CoreShares, WhatCannotBeMeasuredChangesNothing) {
  const int a = 0;
  CoreShares shares;
  EXPECT_EQ(shares.look({stream(a, 500)}, 4), threads({4}));
  CoreShares::Bidder wrong = stream(a, 500);
  wrong.claim.facts.local_cpu_s = -1;
  EXPECT_EQ(shares.look({wrong}, 4), std::nullopt);
}

TEST(CoreShares, WorkersGoWhereTheySaveMostAndNobodyStarves) {
  const int a = 0, b = 0, c = 0;
  CoreShares shares;
  using Share = CoreShares::Share;
  EXPECT_EQ(shares.look({remote_stream(a, 500, 8)}, 1), (Shares{{1, 8}})) << "alone it may use all";
  const auto both = shares.look({remote_stream(a, 1900, 8), remote_stream(b, 7500, 8)}, 2).value();
  EXPECT_EQ(both[0].workers + both[1].workers, 8U);
  EXPECT_GE(both[0].workers, 1U);
  EXPECT_GE(both[1].workers, 6U) << "its trainer waits most";
  EXPECT_EQ(shares.look({remote_stream(a, 9000, 1), remote_stream(b, 9000, 1), stream(c, 9000)}, 3),
            (Shares{Share{1, 1}, Share{1, 1}, Share{1, 0}}));
}

TEST(CoreShares, WorkersGoByWeight) {
  const int a = 0, b = 0, c = 0;
  for (const auto kind : {CoreShares::Workers::kShared, CoreShares::Workers::kCounted}) {
    std::vector<CoreShares::Bidder> jobs = {remote_stream(a, 1e6, 12), remote_stream(b, 1e6, 12),
                                            remote_stream(c, 1e6, 12)};
    jobs[0].claim.weight = 2;
    jobs[1].claim.weight = jobs[2].claim.weight = 0.5;  // two ranks of one job
    jobs[1].claim.owner = jobs[2].claim.owner = 1;
    const auto found = CoreShares(kind).look(jobs, 3).value();
    EXPECT_EQ(found[0].workers, 8U);
    EXPECT_EQ(found[1].workers + found[2].workers, 4U);
  }
}

TEST(CoreShares, CountedWorkersAreNeverMoreThanThereAre) {
  const int a = 0, b = 0, c = 0;
  for (const std::uint32_t workers : {0U, 1U, 2U, 3U, 9U}) {
    CoreShares shares(CoreShares::Workers::kCounted);
    const auto found = shares
                           .look({remote_stream(a, 9000, workers), remote_stream(b, 2000, workers),
                                  remote_stream(c, 9000, workers)},
                                 3)
                           .value();
    EXPECT_EQ(found[0].workers + found[1].workers + found[2].workers, workers);
  }
}

TEST(WorkersAllowed, AreSoManyAsTheNumberAndTheMoneyAllow) {
  RemoteOptions remote;
  remote.goal.workers_max = 9;
  EXPECT_EQ(workers_allowed(remote), 9U) << "no limit of money";
  remote.prices.worker_per_hour = 0.5;
  remote.goal.workers_cost_per_hour_max = 2.4;
  EXPECT_EQ(workers_allowed(remote), 4U);
  remote.goal.workers_cost_per_hour_max = 1e9;
  EXPECT_EQ(workers_allowed(remote), 9U);
  remote.prices.worker_per_hour = 0.1;
  remote.goal.workers_cost_per_hour_max = 0.3;
  EXPECT_EQ(workers_allowed(remote), 3U) << "0.3 / 0.1 is less than 3 in binary";
  remote.goal.workers_cost_per_hour_max = 0;
  EXPECT_EQ(workers_allowed(remote), 0U);
}

}  // namespace
}  // namespace carya::loader
