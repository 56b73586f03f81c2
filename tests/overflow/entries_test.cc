// Decode index entries on their way to workers: as far as they are known here, whatever they say.
#include <gtest/gtest.h>

#include <atomic>

#include "tests/overflow/photos.h"
#include "tests/overflow/thread_executor.h"

namespace carya::loader {
namespace {

DecodeIndexOptions index_in(const PhotoFolder& folder, std::uint64_t verify_every) {
  return {.wanted = true,
          .cache_dir = (folder.path() / "cache").string(),
          .spacing = 0,
          .verify_every = verify_every};
}

std::shared_ptr<Executor> crew_of(const Opened& opened, ThreadExecutor::Options options) {
  const auto plan = WorkerPlan::compile(remote_plan(*opened.pipeline, kAllOps));
  EXPECT_TRUE(plan) << plan.error().message;
  const auto cut = std::make_shared<PlanCut>(
      PlanCut{.plan = 1, .outputs = (*plan)->outputs(), .rest = nullptr, .compiled = *plan});
  return std::make_shared<ThreadExecutor>(cut, *plan, std::move(options));
}

TEST(Entries, GoWithTheirRecordsAndChangeNoBit) {
  const PhotoFolder folder(61);
  const Opened opened = open_photos(folder);
  const Rows expected = alone(opened);
  const auto first = start(opened, {.decode_index = index_in(folder, 0)});  // makes them
  for (int epoch = 0; epoch < 3; ++epoch) drain(*first);
  first->close();
  std::atomic<std::size_t> entries = 0;
  const auto seen = [&entries](const ChunkWork& work) {
    entries += work.sent->parts.size() - 3 * work.sent->head.rows;  // a photo, its slack, a label
  };
  const auto job = start(opened, {.threads = 1, .slots = 6, .decode_index = index_in(folder, 0)},
                         crew_of(opened, {.seen = seen}));
  EXPECT_EQ(drain(*job), expected);
  for (int epoch = 0; epoch < 3000 && entries == 0; ++epoch) drain(*job);
  EXPECT_GT(entries, 0U);
}

TEST(Entries, ThoseThatAreDueForVerificationStayHere) {
  const PhotoFolder folder(24);
  const Opened opened = open_photos(folder);
  const auto job =
      start(opened, {.threads = 1, .slots = 6, .decode_index = index_in(folder, 1)}, crew_of(opened, {}));
  EXPECT_EQ(drain(*job), alone(opened));
  EXPECT_EQ(job->stats().scheduler.remote_chunks, 0U);
}

}  // namespace
}  // namespace carya::loader
