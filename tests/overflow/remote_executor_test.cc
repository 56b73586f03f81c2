// Workers behind sockets: whoever computes a chunk, and whoever dies meanwhile, the stream has the same bits.
#include "loader/overflow/remote_executor.h"

#include <gtest/gtest.h>

#include "loader/plan/stream_planner.h"
#include "tests/loader/job_reading.h"
#include "tests/loader/photo_folder.h"
#include "tests/overflow/photos.h"
#include "tests/overflow/scripted_worker.h"
#include "tests/overflow/worker.h"

namespace carya::loader {
namespace {

std::shared_ptr<RemoteExecutor> crew_at(const transforms::Pipeline& pipeline, std::uint64_t ops,
                                        const std::vector<std::string>& paths) {
  RemoteExecutorOptions options{.lead = 0};
  for (const std::string& path : paths) options.workers.push_back("unix:" + path);
  auto crew = RemoteExecutor::create(options);
  EXPECT_TRUE(crew) << crew.error().message;
  EXPECT_TRUE((*crew)->set_plan(remote_plan(pipeline, ops), rest_of(pipeline, ops)));
  return *crew;
}

TEST(RemoteExecutor, WorkersBehindSocketsGiveTheBitsOfTheHost) {
  const PhotoFolder folder(61);
  const Opened opened = open_photos(folder);
  const std::string path = folder.socket();
  const Worker worker(path);
  for (const std::uint64_t cut : {std::uint64_t{2}, kAllOps}) {
    const auto job = start(opened, {.threads = 1, .slots = 6}, crew_at(*opened.pipeline, cut, {path}));
    EXPECT_EQ(drain_until_remote(*job), alone(opened));
  }
  EXPECT_GT(worker.answered(), 0U);
}

TEST(RemoteExecutor, AWorkerThatDiesCostsNothingButTime) {
  const PhotoFolder folder(61);
  const Opened opened = open_photos(folder);
  const std::string path = folder.socket();
  auto worker = std::make_unique<Worker>(path);
  const auto job = start(opened, {.threads = 1, .slots = 6}, crew_at(*opened.pipeline, kAllOps, {path}));
  drain_until_remote(*job);
  for (int round = 0; round < 5; ++round) {
    ASSERT_TRUE(job->seek(0, 0));
    ASSERT_TRUE(job->next(120'000));
    worker.reset();
    ASSERT_TRUE(job->seek(0, 0));
    EXPECT_EQ(drain(*job), alone(opened));
    worker = std::make_unique<Worker>(path);
  }
}

TEST(RemoteExecutor, AChunkThatIsLostIsComputedHere) {
  const PhotoFolder folder(61);
  const Opened opened = open_photos(folder);
  const Rows expected = alone(opened);
  for (int round = 0; round < 3; ++round) {
    const std::string path = folder.socket();
    const auto script = std::make_shared<Script>([](std::uint64_t) { return Script::Fate::kDies; });
    const ScriptedWorker deserter(path, script);
    const auto job = start(opened, {.threads = 1, .slots = 6}, crew_at(*opened.pipeline, kAllOps, {path}));
    for (int epoch = 0; epoch < 3000 && script->given() == 0; ++epoch) {
      ASSERT_TRUE(job->seek(0, 0));
      ASSERT_EQ(drain(*job), expected);
    }
    EXPECT_GT(script->given(), 0U);
    ASSERT_TRUE(job->seek(0, 0));
    EXPECT_EQ(drain(*job), expected);
  }
}

TEST(RemoteExecutor, WorkersThatAreNotThereAreNotMissed) {
  const PhotoFolder folder(24);
  const Opened opened = open_photos(folder);
  const auto job = start(opened, {.threads = 1, .slots = 4},
                         crew_at(*opened.pipeline, kAllOps, {folder.path().string() + ".none"}));
  EXPECT_EQ(drain(*job), alone(opened));
}

TEST(RemoteExecutor, TwoHostsThatNeedAWorkerEachHaveOneEach) {
  const PhotoFolder folder(61), other(2);
  const Opened opened = open_photos(folder);
  const std::vector<std::string> paths{folder.socket(), other.socket()};
  const Worker workers[] = {Worker(paths[0]), Worker(paths[1])};
  std::vector<std::shared_ptr<RemoteExecutor>> crews;
  std::vector<std::shared_ptr<Job>> jobs;
  for (int i = 0; i < 2; ++i) {
    crews.push_back(crew_at(*opened.pipeline, kAllOps, paths));
    crews.back()->set_workers(1);
    jobs.push_back(start(opened, {.threads = 1, .slots = 6}, crews.back()));
    drain_until_remote(*jobs.back());
  }
  const auto answered = [&](std::size_t i) { return workers[i].answered(); };
  std::uint64_t before[] = {answered(0), answered(1)};
  for (int look = 0; look < 3000; ++look) {
    for (auto& crew : crews) crew->totals();
    for (auto& job : jobs) drain(*job);
    const bool both = answered(0) > before[0] && answered(1) > before[1];
    if (both && crews[0]->totals().ready == 1 && crews[1]->totals().ready == 1) return;
    before[0] = answered(0), before[1] = answered(1);
  }
  FAIL() << "they share one, and nobody has the other";
}

TEST(RemoteExecutor, WhatAWorkerHasThatIsRetiredComesHomeAndNoMoreGoes) {
  const PhotoFolder folder(61);
  const Opened opened = open_photos(folder);
  const std::string path = folder.socket();
  const Worker worker(path);
  const auto crew = crew_at(*opened.pipeline, kAllOps, {path});
  const auto job = start(opened, {.threads = 1, .slots = 6}, crew);
  const std::uint64_t member = crew->figures().at(0).member;
  for (int round = 0; round < 3; ++round) {
    crew->set_retired(member, false);
    ASSERT_TRUE(job->seek(0, 0));
    EXPECT_EQ(drain_until_remote(*job), alone(opened));
    ASSERT_TRUE(job->seek(0, 0));
    ASSERT_TRUE(job->next(120'000));  // in the middle
    crew->set_retired(member, true);
    while (!crew->is_idle(member)) std::this_thread::yield();
    const std::uint64_t rows = crew->totals().rows;
    ASSERT_TRUE(job->seek(0, 0));
    EXPECT_EQ(drain(*job), alone(opened));
    EXPECT_EQ(crew->totals().rows, rows);
    EXPECT_EQ(crew->figures().at(0).lost, 0U);
  }
}

TEST(RemoteExecutor, ALoaderThatClosesLeavesNothingBehind) {
  const PhotoFolder folder(61);
  const Opened opened = open_photos(folder);
  const std::string path = folder.socket();
  const Worker worker(path);
  for (int i = 0; i < 20; ++i) {
    const auto job = start(opened, {.threads = 1, .slots = 6}, crew_at(*opened.pipeline, kAllOps, {path}));
    ASSERT_TRUE(job->next(120'000));
  }
  EXPECT_TRUE(worker.becomes_idle());  // else it would serve nobody after a few loaders
}

}  // namespace
}  // namespace carya::loader
