// How much of a batch is one chunk: by what was measured, here and in earlier streams.
#include <gtest/gtest.h>

#include "base/clock.h"
#include "loader/plan/profile_file.h"
#include "tests/io/temp_dir.h"
#include "tests/loader/job_reading.h"
#include "tests/loader/photo_folder.h"

namespace carya::loader {
namespace {

constexpr char kBatch32[] = R"({"batch_size":32,"global_size":null,"drop_last":true,"pad_last":false})";

std::uint64_t chunk_rows(const Job& job) {
  return job.stats().scheduler.flow.chunk_rows;
}

/// Leaves a profile in `cache` by which a sample takes so long.
void keep_cost(const Opened& opened, const std::string& cache, std::uint64_t ns) {
  PlanProfile profile;
  profile.orders.push_back({.order = {0, 1, 2}, .measured_at_s = unix_s()});
  for (std::uint32_t op = 0; op < 3; ++op)
    profile.orders[0].stages.push_back({.name = "a stage",
                                        .samples = 3200,
                                        .timed_samples = 100,
                                        .cpu_ns = 100 * ns / 3,
                                        .bytes_in = 100,
                                        .bytes_out = 100,
                                        .ops = {op}});
  const std::string path = profile_path(cache, *opened.pipeline, ProfileMachine::here());
  ASSERT_TRUE(store_profile(path, profile, ProfileMachine::here()));
}

TEST(JobFlow, BeginsWithWhatEarlierStreamsMeasured) {
  const PhotoFolder folder(64);
  const Opened opened = open_folder(folder.path(), kBatch32);
  const auto rows_at = [&](std::uint64_t ns) {
    const io::TempDir cache;
    keep_cost(opened, cache.path(), ns);
    return chunk_rows(*start(opened, {.threads = 1, .cache_dir = cache.path()}));
  };
  EXPECT_EQ(chunk_rows(*start(opened, {.threads = 1})), 8U) << "nobody measured it";
  EXPECT_EQ(rows_at(50'000'000), 1U);
  EXPECT_EQ(rows_at(2'000'000), 4U);
  EXPECT_EQ(rows_at(20'000), 25U);  // half a millisecond
}

TEST(JobFlow, FollowsWhatItMeasuresAndChangesNoBit) {
  const PhotoFolder folder(64);
  const Opened opened = open_folder(folder.path(), kBatch32);
  const auto plain = start(opened, {.threads = 2});
  const io::TempDir cache;
  keep_cost(opened, cache.path(), 50'000'000);  // no machine is so slow
  const auto job = start(opened, {.threads = 2, .cache_dir = cache.path()});
  ASSERT_EQ(chunk_rows(*job), 1U);
  for (int epoch = 0; epoch < 12; ++epoch) EXPECT_EQ(drain(*job), drain(*plain)) << epoch;
  EXPECT_GT(chunk_rows(*job), 1U);
}

}  // namespace
}  // namespace carya::loader
