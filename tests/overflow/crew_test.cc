// Whoever computes a chunk, the stream has the same bits.
#include <gtest/gtest.h>

#include "tests/overflow/photos.h"
#include "tests/overflow/thread_crew.h"

namespace carya::loader {
namespace {

using Fate = ThreadCrew::Fate;

std::shared_ptr<Crew> crew_of(const transforms::Pipeline& pipeline, std::uint64_t ops,
                              ThreadCrew::Options options) {
  const auto plan = WorkerPlan::compile(remote_plan(pipeline, ops));
  EXPECT_TRUE(plan) << plan.error().message;
  auto cut = std::make_shared<PlanCut>(
      PlanCut{.plan = 1, .outputs = (*plan)->outputs(), .rest = rest_of(pipeline, ops)});
  return std::make_shared<ThreadCrew>(std::move(cut), *plan, std::move(options));
}

TEST(Crew, HasTheBitsOfTheHostAtEveryCut) {
  const PhotoFolder folder(61);
  const Opened opened = open_photos(folder);
  const Rows expected = alone(opened);
  for (std::uint64_t cut = 2; cut <= kAllOps; ++cut)
    for (const bool narrow : {false, true}) {
      const auto job = start(
          opened,
          {.threads = 2, .slots = 6, .label_int32 = narrow, .crew = crew_of(*opened.pipeline, cut, {})});
      const Rows rows = drain(*job);
      EXPECT_EQ(rows, narrow ? alone(opened, {.label_int32 = true}) : expected) << "cut " << cut;
      drain(*job);
      EXPECT_GT(job->stats().production.remote_chunks, 0U);
      EXPECT_GT(job->stats().production.remote_bytes, 0U);
    }
}

TEST(Crew, ChunksThatAreLostAreComputedHere) {
  const PhotoFolder folder(61);
  const Opened opened = open_photos(folder);
  const Rows expected = alone(opened);
  for (const std::uint64_t cut : {std::uint64_t{3}, kAllOps})
    for (const auto& fate : std::vector<std::function<Fate(std::size_t)>>{
             [](std::size_t) { return Fate::kLost; },
             [](std::size_t n) {
               return n % 3 == 0 ? Fate::kLost : n % 3 == 1 ? Fate::kBroken : Fate::kComputed;
             }}) {
      const auto job =
          start(opened, {.threads = 1, .slots = 4, .crew = crew_of(*opened.pipeline, cut, {.fate = fate})});
      for (int epoch = 0; epoch < 3; ++epoch) {
        const Rows rows = drain(*job);
        if (epoch == 0) {
          EXPECT_EQ(rows, expected);
        }
      }
    }
}

TEST(Crew, BrokenRecordsHaveTheHostsVerdict) {
  const PhotoFolder folder(40);
  for (const int record : {3, 7, 8, 21, 39}) folder.spoil(record);
  const Opened opened = open_photos(folder);
  for (const auto policy : {transforms::OnError::kMask, transforms::OnError::kReplace})
    for (const std::uint64_t cut : {std::uint64_t{2}, kAllOps}) {
      const auto plain = start(opened, {.on_error = policy});
      const Rows expected = drain(*plain);
      const auto job = start(
          opened, {.threads = 2, .slots = 5, .on_error = policy, .crew = crew_of(*opened.pipeline, cut, {})});
      EXPECT_EQ(drain(*job), expected);
      EXPECT_EQ(job->quarantine().size(), plain->quarantine().size());
    }
}

TEST(Crew, SeeksAndClosesWhileChunksAreOut) {
  const PhotoFolder folder(24);
  const Opened opened = open_photos(folder);
  const Rows expected = alone(opened);
  const Rows second = alone(opened, {.epoch = 1});
  for (std::uint64_t position = 0; position < 24; position += 4) {
    const auto job = start(
        opened,
        {.threads = 1, .slots = 4, .position = position, .crew = crew_of(*opened.pipeline, kAllOps, {})});
    ASSERT_TRUE(job->next(120'000));
    ASSERT_TRUE(job->seek(1, 0));
    EXPECT_EQ(drain(*job), second);
    ASSERT_TRUE(job->seek(0, position));
    EXPECT_EQ(drain(*job), Rows(expected.begin() + static_cast<long>(position), expected.end()));
  }
}

TEST(Crew, LeavesWhatIsDueFirstToTheHost) {
  const PhotoFolder folder(24);
  const Opened opened = open_photos(folder);
  const auto job =
      start(opened, {.threads = 1, .slots = 4, .crew = crew_of(*opened.pipeline, kAllOps, {.lead = 1000})});
  EXPECT_EQ(drain(*job), alone(opened));
  EXPECT_EQ(job->stats().production.remote_chunks, 0U);
}

}  // namespace
}  // namespace carya::loader
