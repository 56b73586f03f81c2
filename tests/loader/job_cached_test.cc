// Records that lie in the page cache are read by the threads that compute them, and no bit depends on who read what.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "base/unique_fd.h"
#include "io/files/cached_read.h"
#include "loader/stream/executor.h"
#include "tests/io/tar_maker.h"
#include "tests/io/temp_dir.h"
#include "tests/loader/job_reading.h"
#include "tests/loader/photo_folder.h"

namespace carya::loader {
namespace {

constexpr int kCachedPhotos = 64, kCachedEpochs = 12;

/// Wants nothing: only so that the reading thread reads all.
class Idle : public Executor {
 public:
  void begin(ChunkDone, std::function<void()>) override {}
  void offer(StreamScheduler&, Outbox&) override {}
  void stop() override {}
  void end() override {}
};

void forget_pages(const std::string& path) {
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  ASSERT_TRUE(file);
  ASSERT_EQ(::fdatasync(file.get()), 0);
  ::posix_fadvise(file.get(), 0, 0, POSIX_FADV_DONTNEED);
}

class JobCached : public testing::Test {
 protected:
  void SetUp() override {
    if (io::cached_reading(folder.path().string()) == io::CachedReading::kNever)
      GTEST_SKIP() << folder.path() << " lies on a file system that is not known";
  }
  PhotoFolder folder{kCachedPhotos};
};

TEST_F(JobCached, WhoReadsDecidesNoBit) {
  const Opened opened = open_folder(folder.path(), kBatch4);
  const auto reading = start(opened, {.threads = 2}, std::make_shared<Idle>());
  const auto expected = drain_epochs(*reading, kCachedEpochs);
  EXPECT_EQ(reading->stats().scheduler.cached_reads, 0U);
  for (const std::uint32_t threads : {1, 2, 7}) {
    const auto job = start(opened, {.threads = threads});
    EXPECT_EQ(drain_epochs(*job, kCachedEpochs), expected) << threads;
    const SchedulerStats stats = job->stats().scheduler;
    EXPECT_GT(stats.cached_reads, 0U) << threads;
    EXPECT_LE(stats.cached_reads, stats.reads);
    EXPECT_LE(stats.cached_bytes, stats.bytes_read);
    EXPECT_GE(stats.reads, stats.samples) << "each record counts once or more";
  }
}

TEST_F(JobCached, WhatLeavesThePageCacheMeanwhileIsReadAllTheSame) {
  const Opened opened = open_folder(folder.path(), kBatch4);
  const auto expected = drain_epochs(*start(opened, {.threads = 2}, std::make_shared<Idle>()), kCachedEpochs);
  const auto job = start(opened, {.threads = 2});
  for (int epoch = 0; epoch < kCachedEpochs; ++epoch) {
    for (int record = epoch % 3; record < kCachedPhotos; record += 3)
      forget_pages(folder.file(record).string());
    EXPECT_EQ(drain(*job), expected[static_cast<std::size_t>(epoch)]) << epoch;
  }
}

TEST_F(JobCached, NothingIsReadThisWayWhereTheBudgetHasNoRoomForEachThread) {
  const Opened opened = open_folder(folder.path(), kBatch4);
  const auto job = start(opened, {.threads = 2, .read_ahead_bytes = 1});
  drain_epochs(*job, kCachedEpochs);
  EXPECT_EQ(job->stats().scheduler.cached_reads, 0U);
}

TEST_F(JobCached, ContainersToo) {
  io::TarMaker tar;
  for (int record = 0; record < kCachedPhotos; ++record)
    tar.file(std::to_string(record) + ".jpg", read_file(folder.file(record)))
        .file(std::to_string(record) + ".cls", "1");
  const io::TempDir tars;
  const std::string path = tars.write("t.tar", tar.finish());
  const Opened opened = open_source(R"({"type":"webdataset","tars":[")" + path +
                                    R"("],"fields":{"image":["jpg"]},"label":["cls"]})");
  const auto expected = drain_epochs(*start(opened, {.threads = 2}, std::make_shared<Idle>()), kCachedEpochs);
  const auto job = start(opened, {.threads = 2});
  EXPECT_EQ(drain_epochs(*job, kCachedEpochs), expected);
  EXPECT_GT(job->stats().scheduler.cached_reads, 0U);
}

TEST_F(JobCached, ABrokenFileIsFoundWhereItIs) {
  const Opened opened = open_folder(folder.path(), kBatch4);
  const auto job = start(opened, {.threads = 2, .on_error = transforms::OnError::kMask, .io_timeout_s = 0.1});
  drain_epochs(*job, kCachedEpochs);
  ASSERT_GT(job->stats().scheduler.cached_reads, 0U);
  EXPECT_TRUE(job->quarantine().empty());
  folder.remove(5);
  while (job->next(60'000)) {
  }
  ASSERT_TRUE(job->failure());
  EXPECT_EQ(job->failure()->error.code, Code::kIo);
  EXPECT_EQ(job->failure()->path, folder.file(5).string());
}

}  // namespace
}  // namespace carya::loader
