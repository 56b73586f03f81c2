// How many of its threads a stream uses: those that its reader needs.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <thread>

#include "loader/host/host.h"
#include "tests/loader/job_reading.h"
#include "tests/loader/photo_folder.h"

namespace carya::loader {
namespace {

constexpr char kBatch2[] = R"({"batch_size":2,"global_size":null,"drop_last":true,"pad_last":false})";

/// Reads a batch after each pause until that many threads are used, asked after every so many batches; false:
/// they never are.
bool reaches(Job& job, std::uint32_t cores, std::chrono::milliseconds pause, int batches) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(120);
  while (job.stats().scheduler.cores != cores) {
    if (std::chrono::steady_clock::now() > end) return false;
    for (int i = 0; i < batches; ++i) {
      if (!job.next(60'000)) return false;
      std::this_thread::sleep_for(pause);
    }
  }
  return true;
}

TEST(JobCores, FollowTheReaderDownAndUp) {
  const PhotoFolder folder(64);
  const Opened opened = open_folder(folder.path(), kBatch2);
  const auto job = start(opened, {.threads = 4});
  ASSERT_EQ(job->stats().scheduler.cores, 4U);
  EXPECT_TRUE(reaches(*job, 1, std::chrono::milliseconds(50), 1));
  EXPECT_TRUE(reaches(*job, 4, {}, 500));
  EXPECT_EQ(job->stats().threads, 4U);
}

std::uint32_t compute_threads() {
  std::uint32_t count = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task"))
    count += read_file(task.path() / "comm") == "carya-compute\n" ? 1 : 0;
  return count;
}

/// Threads of a stream before stay in the folder for a moment after they have been joined.
bool settle_at(std::uint32_t threads) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (compute_threads() != threads) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::yield();
  }
  return true;
}

TEST(JobCores, JobsThatSayHowManyThreadsTheyWantHaveThemAll) {
  const PhotoFolder folder(16);
  const Opened opened = open_folder(folder.path(), kBatch2);
  const auto one = start(opened, {.threads = 1}), other = start(opened, {.threads = 1});
  const std::uint32_t cores = auto_threads(read_host_info());
  while (compute_threads() < std::min(2U, cores)) std::this_thread::yield();  // they name themselves
  const auto third = start(opened, {.threads = 1});
  for (const auto& job : {one, other, third}) EXPECT_TRUE(job->next(60'000));
  EXPECT_TRUE(settle_at(std::min(3U, cores))) << compute_threads();
}

}  // namespace
}  // namespace carya::loader
