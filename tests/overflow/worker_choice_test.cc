#include "loader/overflow/worker_selection.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace carya::loader {
namespace {

std::vector<bool> used(const std::vector<WorkerSeen>& workers) {
  std::vector<bool> out;
  for (const WorkerSeen& worker : workers) out.push_back(worker.used);
  return out;
}

TEST(WorkerChoice, WhoWorksGoesOnAndMoreAreThoseWithMostRoom) {
  std::vector<WorkerSeen> workers{{32, 1}, {64, 9}, {16, 2, true}, {64, 3}};
  choose_workers(workers, 2, false);
  EXPECT_EQ(used(workers), (std::vector{false, false, true, true}));
  choose_workers(workers, 3, false);
  EXPECT_EQ(used(workers), (std::vector{false, true, true, true}));
  choose_workers(workers, 2, false);
  EXPECT_EQ(used(workers), (std::vector{false, true, false, true})) << "who has least room goes first";
  choose_workers(workers, 9, false);
  EXPECT_EQ(used(workers), (std::vector{true, true, true, true}));
  choose_workers(workers, 0, true);
  EXPECT_EQ(used(workers), (std::vector{false, false, false, false}));
}

TEST(WorkerChoice, OneThatOthersUseIsLeftForOneThatNobodyDoes) {
  std::vector<WorkerSeen> workers{{32, 1, true}, {63, 2}, {64, 3}};
  choose_workers(workers, 1, false);
  EXPECT_EQ(used(workers), (std::vector{true, false, false}));
  choose_workers(workers, 1, true);
  EXPECT_EQ(used(workers), (std::vector{false, false, true}));
  choose_workers(workers, 1, true);
  EXPECT_EQ(used(workers), (std::vector{false, false, true})) << "nobody has twice the room";
}

// What a worker tells: its window, shared by those that ask and the one that it tells.
TEST(WorkerChoice, HostsSpreadOverAFleet) {
  constexpr std::size_t kHosts = 8, kWorkers = 16, kEach = 2;
  std::mt19937_64 random(5);
  std::vector<std::vector<WorkerSeen>> hosts(kHosts, std::vector<WorkerSeen>(kWorkers));
  for (auto& host : hosts)
    for (WorkerSeen& worker : host) worker.order = random();
  const auto users = [&](std::size_t worker) {
    return std::ranges::count_if(hosts, [&](const auto& host) { return host[worker].used; });
  };
  int looks = 0;
  const auto shared = [&] {
    std::size_t most = 0;
    for (std::size_t worker = 0; worker < kWorkers; ++worker)
      most = std::max<std::size_t>(most, static_cast<std::size_t>(users(worker)));
    return most > 1;
  };
  do {
    std::vector<std::int64_t> asking;
    for (std::size_t worker = 0; worker < kWorkers; ++worker) asking.push_back(users(worker));
    for (auto& host : hosts) {  // all at once
      for (std::size_t worker = 0; worker < kWorkers; ++worker)
        host[worker].room = 64.0 / static_cast<double>(asking[worker] + (host[worker].used ? 0 : 1));
      choose_workers(host, kEach, random() % 4 == 0);
    }
  } while (shared() && ++looks < 1000);
  EXPECT_LT(looks, 100);
}

}  // namespace
}  // namespace carya::loader
