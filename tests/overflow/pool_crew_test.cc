// Workers behind sockets: whoever computes a chunk, and whoever dies meanwhile, the stream has the same bits.
#include "loader/overflow/pool_crew.h"

#include <gtest/gtest.h>

#include "loader/stream_planner.h"
#include "loader/worker/worker_service.h"
#include "tests/loader/job_reading.h"
#include "tests/loader/photo_folder.h"
#include "tests/overflow/photos.h"

namespace carya::loader {
namespace {

// A worker of this process that listens at a Unix socket.
class Worker {
 public:
  explicit Worker(const std::string& path, std::uint32_t threads = 2)
      : service_({.threads = threads, .log = {}}) {
    auto server = remote::ChunkServer::create({.listen = "unix:" + path}, service_);
    EXPECT_TRUE(server) << server.error().message;
    server_ = std::move(*server);
    EXPECT_TRUE(service_.start(*server_));
    thread_ = std::thread([this] { server_->run(); });
  }
  ~Worker() { stop(); }

  void stop() {
    if (!thread_.joinable()) return;
    server_->stop();
    thread_.join();
    service_.stop();
  }
  void drain() { server_->drain(); }
  std::uint64_t answered() const { return server_->figures().answered; }
  // Chunks that it has begun, whoever asked for them, all come to an end.
  bool becomes_idle() const {
    for (int i = 0; i < 60'000 && server_->figures().handling > 0; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return server_->figures().handling == 0;
  }

 private:
  WorkerService service_;
  std::unique_ptr<remote::ChunkServer> server_;
  std::thread thread_;
};

std::shared_ptr<PoolCrew> crew_at(const transforms::Pipeline& pipeline, std::uint64_t ops,
                                  const std::vector<std::string>& paths) {
  PoolCrewOptions options{.lead = 0};
  for (const std::string& path : paths) options.workers.push_back("unix:" + path);
  auto crew = PoolCrew::create(options);
  EXPECT_TRUE(crew) << crew.error().message;
  EXPECT_TRUE((*crew)->set_plan(remote_plan(pipeline, ops), rest_of(pipeline, ops)));
  return *crew;
}

// Epochs until workers have computed something: they may come late.
Rows drain_until_remote(Job& job) {
  const Rows first = drain(job);
  for (int epoch = 0; epoch < 3000 && job.stats().production.remote_chunks == 0; ++epoch) drain(job);
  EXPECT_GT(job.stats().production.remote_chunks, 0U);
  return first;
}

TEST(PoolCrew, WorkersBehindSocketsGiveTheBitsOfTheHost) {
  const PhotoFolder folder(61);
  const Opened opened = open_photos(folder);
  const std::string path = folder.path().string() + ".worker";
  const Worker worker(path);
  for (const std::uint64_t cut : {std::uint64_t{2}, kAllOps}) {
    const auto job =
        start(opened, {.threads = 1, .slots = 6, .crew = crew_at(*opened.pipeline, cut, {path})});
    EXPECT_EQ(drain_until_remote(*job), alone(opened));
  }
  EXPECT_GT(worker.answered(), 0U);
}

TEST(PoolCrew, AWorkerThatDiesCostsNothingButTime) {
  const PhotoFolder folder(61);
  const Opened opened = open_photos(folder);
  const std::string path = folder.path().string() + ".worker";
  auto worker = std::make_unique<Worker>(path);
  const auto job =
      start(opened, {.threads = 1, .slots = 6, .crew = crew_at(*opened.pipeline, kAllOps, {path})});
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

TEST(PoolCrew, WorkersThatAreNotThereAreNotMissed) {
  const PhotoFolder folder(24);
  const Opened opened = open_photos(folder);
  const auto job =
      start(opened, {.threads = 1,
                     .slots = 4,
                     .crew = crew_at(*opened.pipeline, kAllOps, {folder.path().string() + ".none"})});
  EXPECT_EQ(drain(*job), alone(opened));
}

TEST(PoolCrew, ALoaderThatClosesLeavesNothingBehind) {
  const PhotoFolder folder(61);
  const Opened opened = open_photos(folder);
  const std::string path = folder.path().string() + ".worker";
  const Worker worker(path);
  for (int i = 0; i < 20; ++i) {
    const auto job =
        start(opened, {.threads = 1, .slots = 6, .crew = crew_at(*opened.pipeline, kAllOps, {path})});
    ASSERT_TRUE(job->next(120'000));
  }
  EXPECT_TRUE(worker.becomes_idle());  // else it would serve nobody after a few loaders
}

}  // namespace
}  // namespace carya::loader
