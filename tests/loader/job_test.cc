#include "loader/job/job.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

#include "job_reading.h"
#include "photo_folder.h"

namespace carya::loader {
namespace {

TEST(Job, StreamIsTheSameForAnyThreadsSlotsReadAheadAndEngine) {
  const PhotoFolder folder(37);
  const Opened opened = open_folder(folder.path(), kBatch4);
  const auto expected = drain(*start(opened, {.threads = 1}));
  EXPECT_EQ(expected.size(), 37u);
  using Kind = io::ReadEngineOptions::Kind;
  for (const std::uint32_t threads : {1u, 2u, 3u, 7u})
    for (const std::uint32_t slots : {2u, 5u})
      for (const Kind kind : {Kind::kAuto, Kind::kPread}) {
        const auto job = start(
            opened,
            {.threads = threads, .slots = slots, .read_ahead_bytes = threads * 4096, .io_engine = kind});
        EXPECT_EQ(drain(*job), expected) << threads << " threads, " << slots << " slots";
      }
}

TEST(Job, RanksTogetherGiveTheSingleStream) {
  const PhotoFolder folder(21);
  const Opened opened =
      open_folder(folder.path(), R"({"batch_size":null,"global_size":8,"drop_last":true,"pad_last":false})");
  const auto expected = drain(*start(opened, {}));
  for (const std::uint64_t world : {2u, 4u}) {
    std::vector<std::vector<std::uint64_t>> parts;
    for (std::uint64_t rank = 0; rank < world; ++rank)
      parts.push_back(drain(*start(opened, {.rank = rank, .world_size = world})));
    std::vector<std::uint64_t> joined;
    const std::uint64_t rows = 8 / world;
    for (std::uint64_t step = 0; step < 2; ++step)
      for (const auto& part : parts)
        joined.insert(joined.end(), part.begin() + static_cast<long>(step * rows),
                      part.begin() + static_cast<long>((step + 1) * rows));
    EXPECT_EQ(joined, expected);
  }
}

TEST(Job, StreamsOfKeptRecordsHaveTheirRowsOfTheWholeStream) {
  const PhotoFolder folder(21);
  const Opened opened = open_folder(folder.path(), kBatch4);
  auto expected = drain(*start(opened, {}));
  std::vector<std::uint64_t> kept, others;
  for (std::uint64_t record = 0; record < 21; ++record) (record % 3 == 1 ? kept : others).push_back(record);
  std::vector<std::uint64_t> rows;
  for (const auto& records : {kept, others}) {
    const auto chosen = opened.dataset->keep(records);
    ASSERT_TRUE(chosen);
    const auto job = start({opened.pipeline, *chosen}, {.threads = 2});
    EXPECT_EQ(job->shape().records, records.size());
    const auto part = drain(*job);
    EXPECT_EQ(part.size(), records.size());
    rows.insert(rows.end(), part.begin(), part.end());
  }
  std::ranges::sort(rows);
  std::ranges::sort(expected);
  EXPECT_EQ(rows, expected);
}

TEST(Job, RankWithoutPositionsInTheLastStepGetsPaddingWhenNothingFollows) {
  const PhotoFolder folder(13);
  const Opened opened =
      open_folder(folder.path(), R"({"batch_size":null,"global_size":4,"drop_last":false,"pad_last":true})");
  // The last step has no slot when it is begun, and nothing comes after it that could publish it.
  const auto job = start(opened, {.rank = 3, .world_size = 4, .epochs = 1, .threads = 1, .slots = 2});
  std::vector<std::uint64_t> rows;
  for (int step = 0; step < 4; ++step) {
    Result<Batch> batch = job->next(120'000);
    ASSERT_TRUE(batch) << "step " << step << ": " << batch.error().message;
    rows.push_back(batch->rows);
  }
  EXPECT_EQ(rows, (std::vector<std::uint64_t>{1, 1, 1, 1}));
}

TEST(Job, ResumesAtAnyStepWithTheSameRows) {
  const PhotoFolder folder(18);
  const Opened opened = open_folder(folder.path(), kBatch4);
  const auto expected = drain(*start(opened, {}));
  for (std::uint64_t position = 0; position < 18; ++position) {
    const auto rest = drain(*start(opened, {.position = position}));
    EXPECT_EQ(rest,
              std::vector<std::uint64_t>(expected.begin() + static_cast<long>(position), expected.end()));
  }
}

TEST(Job, SeekThrowsAwayWhatWasPrefetchedAndGoesOnThere) {
  const PhotoFolder folder(18);
  const Opened opened = open_folder(folder.path(), kBatch4);
  const auto second = drain(*start(opened, {.epoch = 1}));
  const auto job = start(opened, {.threads = 3});
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(job->next(120'000));
    ASSERT_TRUE(job->seek(1, 0));
    EXPECT_EQ(drain(*job), second);
    ASSERT_TRUE(job->seek(0, 4));
  }
}

TEST(Job, GoesOnIntoTheNextEpochOrParksAtItsEnd) {
  const PhotoFolder folder(9);
  const Opened opened = open_folder(folder.path(), kBatch4);
  const auto second = drain(*start(opened, {.epoch = 1}));
  const auto running = start(opened, {});
  drain(*running);
  EXPECT_EQ(drain(*running), second);
  const auto parked = start(opened, {.prefetch_epochs = false});
  drain(*parked);
  EXPECT_EQ(parked->next(50).error().code, Code::kTimeout);
  ASSERT_TRUE(parked->seek(1, 0));
  EXPECT_EQ(drain(*parked), second);
}

TEST(Job, BrokenRecordRaisesMasksOrIsReplacedWithoutMovingAnyOther) {
  const PhotoFolder folder(18);
  const Opened whole = open_folder(folder.path(), kBatch4);
  const auto expected = drain(*start(whole, {}));
  folder.spoil(7);
  const Opened opened = open_folder(folder.path(), kBatch4);

  const auto raising = start(opened, {});
  Result<Batch> batch = raising->next(120'000);
  while (batch && !batch->last) batch = raising->next(120'000);
  ASSERT_FALSE(batch);
  EXPECT_EQ(batch.error().code, Code::kCorrupt);
  EXPECT_EQ(raising->next(0).error().code, Code::kCorrupt) << "again, until the policy changes";
  ASSERT_TRUE(raising->failure());
  EXPECT_EQ(raising->failure()->record, 7u);
  ASSERT_TRUE(raising->set_on_error(transforms::OnError::kMask));
  EXPECT_TRUE(raising->next(120'000)) << "goes on under another policy";

  for (const auto policy : {transforms::OnError::kMask, transforms::OnError::kReplace}) {
    const auto job = start(opened, {.on_error = policy});
    const auto rows = drain(*job);
    ASSERT_EQ(rows.size(), expected.size());
    int different = 0;
    for (std::size_t i = 0; i < rows.size(); ++i) different += rows[i] != expected[i];
    EXPECT_EQ(different, 1);
    ASSERT_EQ(job->quarantine().size(), 1u);
    EXPECT_EQ(job->quarantine()[0].record, 7u);
    EXPECT_EQ(job->quarantine()[0].substitute >= 0, policy == transforms::OnError::kReplace);
    EXPECT_EQ(drain(*start(opened, {.threads = 3, .on_error = policy})), rows);
  }
}

TEST(Job, VanishedFileIsAnIoErrorUnderEveryPolicyAfterRetries) {
  const PhotoFolder folder(8);
  const Opened opened = open_folder(folder.path(), kBatch4);
  folder.remove(3);
  const auto job = start(opened, {.on_error = transforms::OnError::kMask, .io_timeout_s = 0.05});
  Result<Batch> batch = job->next(120'000);
  while (batch && !batch->last) batch = job->next(120'000);
  ASSERT_FALSE(batch);
  EXPECT_EQ(batch.error().code, Code::kIo);
  EXPECT_EQ(job->failure()->record, 3u);
  EXPECT_GT(job->stats().scheduler.read_retries, 0u);
  EXPECT_TRUE(job->quarantine().empty());
}

TEST(Job, LeasesOutliveTheJobAndItsEngine) {
  const PhotoFolder folder(8);
  const Opened opened = open_folder(folder.path(), kBatch4);
  auto job = start(opened, {});
  Result<Batch> batch = job->next(120'000);
  ASSERT_TRUE(batch);
  const auto before = row_hashes(*job, *batch);
  const Batch kept = std::move(*batch);
  const auto layout = job->layout();
  job.reset();
  std::uint64_t sum = 0;
  for (std::uint64_t i = 0; i < layout.tensors()[0].bytes(); ++i)
    sum += static_cast<std::uint64_t>(kept.lease.data()[layout.tensors()[0].offset + i]);
  EXPECT_GT(sum, 0u);
}

TEST(Job, HeldBatchesStopProductionAndItsReleaseStartsIt) {
  const PhotoFolder folder(40);
  const Opened opened = open_folder(folder.path(), kBatch4);
  const auto job = start(opened, {.slots = 3});
  std::vector<Batch> held;
  for (int i = 0; i < 3; ++i) held.push_back(std::move(*job->next(120'000)));
  EXPECT_EQ(job->held(), 3u);
  EXPECT_EQ(job->next(100).error().code, Code::kTimeout);
  held.erase(held.begin());
  EXPECT_TRUE(job->next(120'000));
}

TEST(Job, CloseEndsAReaderThatWaits) {
  const PhotoFolder folder(8);
  const Opened opened = open_folder(folder.path(), kBatch4);
  const auto job = start(opened, {.epochs = 1});
  drain(*job);
  std::thread closer([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    job->close();
  });
  Result<Batch> batch = job->next(300);
  while (!batch && batch.error().code == Code::kTimeout) batch = job->next(300);
  closer.join();
  EXPECT_EQ(batch.error().code, Code::kClosed);
}

TEST(Job, ForkedChildIsToldAndMayHaveItsOwnAndTheParentGoesOn) {
  const PhotoFolder folder(18);
  const Opened opened = open_folder(folder.path(), kBatch4);
  auto job = start(opened, {});
  ASSERT_TRUE(job->next(120'000));
  const pid_t child = fork();
  if (child == 0) {
    const bool told = !job->next(100) && job->next(100).error().code == Code::kForked;
    job.reset();
    const auto own = Job::create(opened.pipeline, opened.dataset, {});
    _exit(told && own && (*own)->next(120'000) ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(drain(*job).size(), 14u);
}

TEST(Job, ManyJobsShareOneEngine) {
  const PhotoFolder folder(18);
  const Opened opened = open_folder(folder.path(), kBatch4);
  const auto expected = drain(*start(opened, {}));
  std::vector<std::shared_ptr<Job>> jobs;
  for (int i = 0; i < 6; ++i) jobs.push_back(start(opened, {.threads = 2}));
  std::vector<std::thread> readers;
  std::vector<std::vector<std::uint64_t>> rows(jobs.size());
  for (std::size_t i = 0; i < jobs.size(); ++i) readers.emplace_back([&, i] { rows[i] = drain(*jobs[i]); });
  for (std::thread& reader : readers) reader.join();
  for (const auto& seen : rows) EXPECT_EQ(seen, expected);
}

}  // namespace
}  // namespace carya::loader
