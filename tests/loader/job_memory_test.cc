// Fault loops: the 1st, 2nd, 3rd ... allocation of the engine's threads fails, until none is left.
#include <gtest/gtest.h>

#include <new>
#include <optional>
#include <thread>
#include <vector>

#include "job_reading.h"
#include "loader/job/job.h"
#include "photo_folder.h"
#include "short_memory.h"
#include "transforms/kernels/resize/resize.h"

namespace carya::loader {
namespace {

using Kind = io::ReadEngineOptions::Kind;

/// Rows until the epoch's end, or the error that ended the stream.
std::optional<Error> drain_or_fail(Job& job, std::vector<std::uint64_t>& rows) {
  while (true) {
    Result<Batch> batch = job.next(120'000);
    if (!batch) return batch.error();
    const auto hashes = row_hashes(job, *batch);
    rows.insert(rows.end(), hashes.begin(), hashes.end());
    if (batch->last) return std::nullopt;
  }
}

void fail_each_allocation(const Opened& opened, const JobOptions& options) {
  const auto expected = drain(*start(opened, options));
  int stopped = 0;
  for (std::int64_t nth = 1;; ++nth) {
    std::vector<std::uint64_t> rows;
    std::optional<Error> error;
    bool failed = false;
    std::shared_ptr<Job> job;
    {
      const ShortMemory memory(nth);
      job = start(opened, options);
      error = drain_or_fail(*job, rows);
      failed = memory.failed();
    }
    if (!error) {
      ASSERT_EQ(rows, expected) << nth << ": what is delivered is right";
      if (!failed) break;
      continue;
    }
    ++stopped;
    ASSERT_EQ(error->code, Code::kExhausted) << nth << ": " << error->message;
    ASSERT_EQ(rows, std::vector<std::uint64_t>(expected.begin(),
                                               expected.begin() + static_cast<std::ptrdiff_t>(rows.size())))
        << nth;
    ASSERT_TRUE(job->seek(0, 0));
    rows.clear();
    error = drain_or_fail(*job, rows);
    ASSERT_FALSE(error) << nth << ": with memory again it goes on: " << error->message;
    ASSERT_EQ(rows, expected) << nth;
  }
  EXPECT_GT(stopped, 10) << "the faults hit the scheduling";
}

TEST(JobMemory, RunningOutOfItAnywhereStopsTheStreamAndNothingElse) {
  if (!ShortMemory::possible()) GTEST_SKIP() << "the sanitizer has an operator new of its own";
  const PhotoFolder folder(10);
  const Opened opened = open_folder(folder.path(), kBatch4);
  for (const Kind kind : {Kind::kUring, Kind::kPread})
    fail_each_allocation(opened,
                         {.epochs = 1, .threads = 2, .slots = 2, .io_timeout_s = 60, .io_engine = kind});
}

TEST(JobMemory, RunningOutOfItWhileBrokenRowsAreReplaced) {
  if (!ShortMemory::possible()) GTEST_SKIP() << "the sanitizer has an operator new of its own";
  const PhotoFolder folder(10);
  folder.spoil(3);
  folder.spoil(7);
  const Opened opened = open_folder(folder.path(), kBatch4);
  for (const auto policy : {transforms::OnError::kReplace, transforms::OnError::kMask})
    fail_each_allocation(opened,
                         {.epochs = 1, .threads = 1, .slots = 2, .on_error = policy, .io_timeout_s = 60});
}

// Reads that take long want more threads, and one that is cancelled a stand-in.
TEST(JobMemory, AReadEngineWithoutMemoryForMoreThreadsGoesOnWithThoseItHas) {
  if (!ShortMemory::possible()) GTEST_SKIP() << "the sanitizer has an operator new of its own";
  const auto engine = io::ReadEngine::create({.kind = Kind::kPread, .depth = 64, .pread_threads = 2});
  ASSERT_TRUE(engine);
  {
    const ShortMemoryHere memory(1);
    (*engine)->widen(8);
    EXPECT_TRUE(ShortMemoryHere::failed());
  }
  EXPECT_EQ((*engine)->lanes(), 2u);
  (*engine)->widen(8);
  EXPECT_EQ((*engine)->lanes(), 8u);
}

TEST(JobMemory, AResizeThatRanOutOfItLeavesNothingHalfBehind) {
  if (!ShortMemory::possible()) GTEST_SKIP() << "the sanitizer has an operator new of its own";
  using transforms::Resizer;
  using transforms::ResizeSpec;
  std::vector<std::uint8_t> pixels(std::size_t{90} * 70 * 3);
  for (std::size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<std::uint8_t>(i * 31 + i / 270);
  const auto resized = [&](Resizer& resizer, std::int64_t width) {
    const ResizeSpec spec{.out_height = 30, .out_width = width};
    std::vector<std::uint8_t> out(static_cast<std::size_t>(30 * width * 3));
    resizer.resize({pixels.data(), 70, 90, 3, 90 * 3}, spec, {out.data(), 30, width, 3, width * 3});
    return out;
  };
  // The wide kernels (6 pixels) and the narrow ones (40).
  for (const std::int64_t width : {std::int64_t{6}, std::int64_t{40}}) {
    Resizer fresh;
    const auto expected = resized(fresh, width);
    for (std::int64_t nth = 1;; ++nth) {
      Resizer resizer;
      bool failed = false;
      bool thrown = false;
      {
        const ShortMemory memory(nth);
        std::thread([&] {
          try {
            resized(resizer, width);
          } catch (const std::bad_alloc&) {
            thrown = true;
          }
        }).join();
        failed = memory.failed();
      }
      EXPECT_EQ(resized(resizer, width), expected) << width << ", allocation " << nth;
      if (!failed) break;
      EXPECT_TRUE(thrown);
    }
  }
}

}  // namespace
}  // namespace carya::loader
