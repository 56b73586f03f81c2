// A stream that overflows by decision: whatever is decided, and whenever, it has the bits of the host.
#include "loader/overflow/placement_loop.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "loader/job/local_stream.h"
#include "tests/loader/photo_folder.h"
#include "tests/overflow/worker.h"

namespace carya::loader {
namespace {

using Json = nlohmann::json;

RemoteOptions workers_at(const std::string& path) {
  return {.workers = {"unix:" + path},
          .prices = {.host_per_hour = 5, .worker_per_hour = 0.5},
          .look_every_s = 0.02};
}

TEST(Overflow, WorkersThatAreFixedGiveTheBitsOfTheHostAtEveryCut) {
  const PhotoFolder folder(61);
  const Opened opened = open_photos(folder);
  const std::string path = folder.socket();
  const Worker worker(path);
  for (const std::uint64_t cut : {std::uint64_t{2}, kAllOps}) {
    RemoteOptions remote = workers_at(path);
    remote.workers_fixed = 1;
    remote.cut_fixed = cut;
    const auto job = start(opened, {.threads = 1, .slots = 6, .remote = remote});
    EXPECT_EQ(drain_until_remote(*job), alone(opened));
    const Json report = Json::parse(job->stats().placement);
    EXPECT_EQ(report["phase"], "fixed");
    EXPECT_EQ(report["running"]["ops_remote"], cut);
  }
}

TEST(Overflow, DecidesWhileItRunsAndChangesNoBit) {
  const PhotoFolder folder(61);
  const Opened opened = open_photos(folder);
  const std::string path = folder.socket();
  const Worker worker(path);
  const Rows expected = alone(opened);
  const auto job = start(opened, {.threads = 2, .slots = 6, .remote = workers_at(path)});
  Json report;
  for (int epoch = 0; epoch < 20'000 && !report.contains("choice"); ++epoch) {
    ASSERT_TRUE(job->seek(0, 0));
    ASSERT_EQ(drain(*job), expected);
    report = Json::parse(job->stats().placement);
  }
  ASSERT_TRUE(report.contains("choice"));
  EXPECT_EQ(report["workers"][0]["state"], "up");
  EXPECT_GT(report["local_us"], 0);
  EXPECT_EQ(report["cuts"].back()["ops_remote"], kAllOps);
  EXPECT_EQ(report["trouble"], "");
}

TEST(Overflow, AsksNobodyWhereAllIsToStayHere) {
  const PhotoFolder folder(61);
  const Opened opened = open_photos(folder);
  const std::string path = folder.socket();
  const Worker worker(path);
  RemoteOptions remote = workers_at(path);
  remote.workers_fixed = 0;
  const auto job = start(opened, {.threads = 1, .slots = 6, .remote = remote});
  for (int epoch = 0; epoch < 5; ++epoch) {
    ASSERT_TRUE(job->seek(0, 0));
    EXPECT_EQ(drain(*job), alone(opened));
  }
  EXPECT_EQ(worker.answered(), 0U);
  EXPECT_EQ(job->stats().scheduler.remote_chunks, 0U);
}

TEST(Overflow, RefusesPricesThatCannotBe) {
  const PhotoFolder folder(24);
  const Opened opened = open_photos(folder);
  RemoteOptions remote = workers_at(folder.path().string() + ".none");
  remote.prices.host_per_hour = -1;
  const auto job = Job::create(opened.pipeline, opened.dataset, {.threads = 1, .remote = remote});
  ASSERT_FALSE(job);
  EXPECT_EQ(job.error().code, Code::kInvalidArgument);
}

}  // namespace
}  // namespace carya::loader
