// What a job does at the edges: policies that change, bounds, limits of the system, forks at bad moments.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <limits>
#include <span>
#include <thread>

#include "job_reading.h"
#include "loader/job/job.h"
#include "loader/read/read_buffer.h"
#include "loader/stream/chunk_inputs.h"
#include "photo_folder.h"
#include "tests/jpeg_writer.h"

namespace carya::loader {
namespace {

using std::chrono::milliseconds;

/// Until everything that may be prefetched is.
void wait_until_prefetched(const Job& job) {
  std::uint64_t before = UINT64_MAX;
  for (int i = 0; i < 200; ++i) {
    const auto stats = job.stats();
    if (stats.scheduler.batches == before && stats.ring.filling == 0) return;
    before = stats.scheduler.batches;
    std::this_thread::sleep_for(milliseconds(50));
  }
}

TEST(JobLimits, NewPolicyHoldsFromTheNextBatchOnWhateverWasPrefetched) {
  const PhotoFolder folder(18);
  folder.spoil(7);
  const Opened opened = open_folder(folder.path(), kBatch4);
  const auto masked = drain(*start(opened, {.on_error = transforms::OnError::kMask}));

  const auto job = start(opened, {.slots = 8});
  wait_until_prefetched(*job);
  ASSERT_TRUE(job->set_on_error(transforms::OnError::kMask));
  EXPECT_EQ(drain(*job), masked) << "the failure that was prefetched belongs to the old policy";

  wait_until_prefetched(*job);
  ASSERT_TRUE(job->set_on_error(transforms::OnError::kRaise));
  Result<Batch> batch = job->next(120'000);
  while (batch && !batch->last) batch = job->next(120'000);
  ASSERT_FALSE(batch) << "a batch that was prefetched with masked rows was delivered";
  EXPECT_EQ(batch.error().code, Code::kCorrupt);
}

TEST(JobLimits, QuarantineShowsWhatWasDeliveredAndNothingElse) {
  const PhotoFolder folder(18);
  folder.spoil(7);
  const Opened opened = open_folder(folder.path(), kBatch4);
  const auto job = start(opened, {.slots = 8, .on_error = transforms::OnError::kMask});
  wait_until_prefetched(*job);
  ASSERT_TRUE(job->seek(1, 0));
  EXPECT_TRUE(job->quarantine().empty());
  drain(*job);
  ASSERT_EQ(job->quarantine().size(), 1u);
  EXPECT_EQ(job->quarantine()[0].epoch, 1u);
}

TEST(JobLimits, QuarantineIsBoundedAndCountsTheRest) {
  const PhotoFolder folder(40);
  for (int record = 0; record < 40; ++record) folder.spoil(record);
  const Opened opened = open_folder(
      folder.path(), R"({"batch_size":40,"global_size":null,"drop_last":false,"pad_last":false})");
  const auto job = start(opened, {.on_error = transforms::OnError::kMask});
  const std::size_t batches = kQuarantineMax / 40 + 3;
  for (std::size_t i = 0; i < batches; ++i) ASSERT_TRUE(job->next(120'000));
  EXPECT_EQ(job->quarantine().size(), kQuarantineMax);
  EXPECT_EQ(job->stats().quarantine_left_out, batches * 40 - kQuarantineMax);
}

TEST(JobLimits, QuarantineIsInTheOrderOfPositionsWhicheverChunkEndsFirst) {
  const PhotoFolder folder(40);
  for (int record = 0; record < 40; ++record) folder.spoil(record);
  const Opened opened = open_folder(
      folder.path(), R"({"batch_size":40,"global_size":null,"drop_last":false,"pad_last":false})");
  const auto job = start(opened, {.threads = 4, .on_error = transforms::OnError::kMask});
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(job->next(120'000));
  const auto entries = job->quarantine();
  ASSERT_EQ(entries.size(), 800u);
  for (std::size_t i = 0; i < entries.size(); ++i) ASSERT_EQ(entries[i].position, i % 40) << "entry " << i;
}

TEST(JobLimits, RecordThatClaimsATerabyteIsBrokenAndNeverRead) {
  const PhotoFolder folder(8);
  std::filesystem::resize_file(folder.file(3), std::uint64_t{1} << 40);  // sparse
  const Opened opened = open_folder(folder.path(), kBatch4);
  const auto job = start(opened, {.on_error = transforms::OnError::kMask});
  EXPECT_EQ(drain(*job).size(), 8u);
  ASSERT_EQ(job->quarantine().size(), 1u);
  EXPECT_EQ(job->quarantine()[0].record, 3u);
  EXPECT_EQ(job->quarantine()[0].stage, "read");
  EXPECT_LT(job->stats().scheduler.buffered_bytes_max, 1u << 30);
}

TEST(JobLimits, ReadAheadIsBoundedInBytes) {
  const PhotoFolder folder(40);
  std::uint64_t largest = 0;
  for (int i = 0; i < 40; ++i) largest = std::max(largest, std::filesystem::file_size(folder.file(i)));
  const Opened opened = open_folder(folder.path(), kBatch4);
  const auto job = start(opened, {.epochs = 1, .threads = 3, .read_ahead_bytes = 1});
  EXPECT_EQ(drain(*job).size(), 40u);
  EXPECT_LE(job->stats().scheduler.buffered_bytes_max, 4 * ReadBufferPool::rounded(buffer_room(largest)))
      << "one record ahead, and one for each thread";
}

// Whichever thread finds one first, it is the first of the batch that is told.
TEST(JobLimits, OfSeveralBrokenRecordsTheFirstIsTold) {
  const PhotoFolder folder(32);
  std::string paths, labels;
  for (int i = 0; i < 32; ++i) {
    paths += (i == 0 ? "\"" : ",\"") + folder.file(i).string() + "\"";
    labels += i == 0 ? "0" : ",0";
  }
  const auto large = write_jpeg(3000, 3000, 3, 90, [](std::size_t y, std::span<unsigned char> row) {
    for (std::size_t x = 0; x < row.size(); ++x) row[x] = static_cast<unsigned char>(x * 7 + y * x / 3);
  });
  std::ofstream(folder.file(0), std::ios::binary)  // it takes long until the chunk's last row is looked at
      .write(reinterpret_cast<const char*>(large.data()), static_cast<std::streamsize>(large.size()));
  folder.spoil(7);
  folder.spoil(8);
  auto pipeline = transforms::Pipeline::parse(
      R"({"version":1,"source":{"type":"files","paths":[)" + paths + R"(],"labels":[)" + labels +
      R"(]},"views":[],"shuffle":null,"ops":[{"op":"decode_image"},{"op":"resize","size":[16,16]}],)"
      R"("batch":{"batch_size":32,"global_size":null,"drop_last":false,"pad_last":false}})");
  ASSERT_TRUE(pipeline) << pipeline.error().message;
  const Opened opened{*pipeline, *Dataset::open(**pipeline, {})};
  for (int i = 0; i < 3; ++i) {
    const auto job = start(opened, {.threads = 2});
    ASSERT_FALSE(job->next(120'000));
    EXPECT_EQ(job->failure()->record, 7u);
  }
}

TEST(JobLimits, CloseEndsAWaitOfAnyLength) {
  const PhotoFolder folder(8);
  const Opened opened = open_folder(folder.path(), kBatch4);
  const auto job = start(opened, {.epochs = 1});
  drain(*job);
  std::thread closer([&] {
    std::this_thread::sleep_for(milliseconds(50));
    job->close();
  });
  const Result<Batch> batch = job->next(3'600'000);
  closer.join();
  EXPECT_EQ(batch.error().code, Code::kClosed);
}

TEST(JobLimits, OptionsThatCannotBeAreRefused) {
  const PhotoFolder folder(8);
  const Opened opened = open_folder(folder.path(), kBatch4);
  const auto refused = [&](const JobOptions& options) {
    const auto job = Job::create(opened.pipeline, opened.dataset, options);
    return !job && job.error().code == Code::kInvalidArgument;
  };
  EXPECT_TRUE(refused({.threads = kThreadsMax + 1}));
  EXPECT_TRUE(refused({.slots = 1}));
  EXPECT_TRUE(refused({.slots = 100'000}));
  EXPECT_TRUE(refused({.io_timeout_s = -1}));
  EXPECT_TRUE(refused({.io_timeout_s = std::numeric_limits<double>::quiet_NaN()}));
}

TEST(JobLimits, WithoutATimeoutAReadIsTriedUntilTheFileIsBack) {
  const PhotoFolder folder(8);
  const Opened opened = open_folder(folder.path(), kBatch4);
  const auto aside = folder.path() / "aside";
  std::filesystem::rename(folder.file(3), aside);
  const auto job = start(opened, {.io_timeout_s = std::numeric_limits<double>::infinity()});
  while (job->stats().scheduler.read_retries < 3) std::this_thread::sleep_for(milliseconds(5));
  std::filesystem::rename(aside, folder.file(3));
  EXPECT_EQ(drain(*job).size(), 8u);
}

TEST(JobLimits, FolderThatVanishedIsAnIoErrorAndNoHang) {
  const PhotoFolder folder(8);
  const Opened opened = open_folder(folder.path(), kBatch4);
  const std::filesystem::path aside = folder.path().string() + "-aside";
  std::filesystem::rename(folder.path(), aside);
  const Result<Batch> batch = start(opened, {.io_timeout_s = 0.05})->next(120'000);
  std::filesystem::rename(aside, folder.path());
  ASSERT_FALSE(batch);
  EXPECT_EQ(batch.error().code, Code::kIo);
}

/// The child's verdict: 0, or what it exits with; a hang ends by its alarm.
template <typename Run>
int in_child(Run run) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(300);
    _exit(run());
  }
  int status = 0;
  waitpid(child, &status, 0);
  return status;
}

TEST(JobLimits, RunningOutOfDescriptorsIsAnErrorAtEveryPoint) {
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
  GTEST_SKIP() << "the sanitizer's own look at memory goes through a pipe and fails without descriptors";
#endif
#endif
  constexpr int kNoDescriptors = 11;  // no exit status of a sanitizer
  const PhotoFolder folder(8);
  const Opened opened = open_folder(folder.path(), kBatch4);
  const int first_free = dup(0);
  close(first_free);
  int done = 0;
  for (int more = 0; more < 64 && done < 3; ++more) {
    const int status = in_child([&] {
      const rlimit limit{static_cast<rlim_t>(first_free + more), static_cast<rlim_t>(first_free + more)};
      setrlimit(RLIMIT_NOFILE, &limit);
      const auto job = Job::create(opened.pipeline, opened.dataset, {.threads = 2, .io_timeout_s = 0.1});
      if (!job) return job.error().code == Code::kExhausted ? kNoDescriptors : 2;
      for (int step = 0; step < 2; ++step) {
        const auto batch = (*job)->next(120'000);
        if (!batch) return batch.error().code == Code::kIo ? kNoDescriptors : 3;
      }
      return 0;
    });
    ASSERT_TRUE(status == 0 || (WIFEXITED(status) && WEXITSTATUS(status) == kNoDescriptors))
        << more << ": " << status;
    done += status == 0;
  }
  EXPECT_EQ(done, 3) << "with enough descriptors it runs";
}

TEST(JobLimits, ForkedChildMayAskForFiguresWhateverTheParentsThreadsHold) {
  const PhotoFolder folder(12);
  const Opened opened = open_folder(folder.path(), kBatch4);
  const auto job = start(opened, {.threads = 3, .slots = 8});
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(job->next(120'000));
    const int status = in_child([&] {
      static_cast<void>(job->stats());
      return job->quarantine().empty() && !job->failure() && !job->next(0) ? 0 : 1;
    });
    ASSERT_EQ(status, 0);
  }
}

}  // namespace
}  // namespace carya::loader
