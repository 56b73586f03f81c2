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

/// Takes what it gets and keeps it until the trainer waits for it.
class KeepingCrew final : public Crew {
 public:
  KeepingCrew(std::shared_ptr<const PlanCut> cut, RemoteWanted wanted)
      : cut_(std::move(cut)), wanted_(wanted) {}
  void begin(RemoteDone done, std::function<void()>) override { done_ = std::move(done); }
  void feed(Production& production, Outbox& out) override {
    const std::lock_guard lock(mutex_);
    if (const Step* const step = production.waited_for()) {
      const auto due =
          std::ranges::find_if(kept_, [&](const auto& work) { return work->chunk->step == step; });
      if (due == kept_.end()) return;
      ++waited_;
      const std::unique_ptr<RemoteWork> work = std::move(*due);
      kept_.erase(due);
      return production.end_remote(*work, false, out);
    }
    while (!stopping_)
      if (auto work = production.take_remote(cut_, wanted_))
        kept_.push_back(std::move(work)), most_ = std::max(most_, kept_.size());
      else
        return;
  }
  void stop() override {
    std::vector<std::unique_ptr<RemoteWork>> kept;
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
      kept.swap(kept_);
    }
    giving_ = std::thread([this, kept = std::move(kept)]() mutable {  // not inside of stop()
      for (auto& work : kept) done_(std::move(work), false);
    });
  }
  void end() override {
    if (giving_.joinable()) giving_.join();
  }
  std::size_t waited() const { return waited_; }
  std::size_t most() const { return most_; }

 private:
  std::shared_ptr<const PlanCut> cut_;
  RemoteWanted wanted_;
  RemoteDone done_;
  std::thread giving_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<RemoteWork>> kept_;
  std::size_t waited_ = 0, most_ = 0;
  bool stopping_ = false;
};

std::shared_ptr<KeepingCrew> keeping(const Opened& opened, const RemoteWanted& wanted) {
  const auto plan = WorkerPlan::compile(remote_plan(*opened.pipeline, kAllOps));
  EXPECT_TRUE(plan) << plan.error().message;
  const PlanCut cut{.plan = 1, .outputs = (*plan)->outputs(), .rest = rest_of(*opened.pipeline, kAllOps)};
  return std::make_shared<KeepingCrew>(std::make_shared<PlanCut>(cut), wanted);
}

TEST(Crew, IsToldWhatTheTrainerWaitsFor) {
  const PhotoFolder folder(61);
  const Opened opened = open_photos(folder);
  const auto crew = keeping(opened, {});
  const auto job = start(opened, {.threads = 1, .slots = 4, .crew = crew});
  EXPECT_EQ(drain(*job), alone(opened));  // else it would never end
  EXPECT_GT(crew->waited(), 0U);
}

TEST(Crew, GetsNothingThatIsDueTooSoon) {
  const PhotoFolder folder(61);
  const Opened opened = open_photos(folder);
  const auto none = keeping(opened, {.batches_before = 1000});
  EXPECT_EQ(drain(*start(opened, {.threads = 1, .slots = 4, .crew = none})), alone(opened));
  EXPECT_EQ(none->most(), 0U);
  const auto last = keeping(opened, {.batches_before = 1000, .or_last = true});
  EXPECT_EQ(drain(*start(opened, {.threads = 1, .slots = 4, .crew = last})), alone(opened));
  EXPECT_GT(last->most(), 0U);
}

}  // namespace
}  // namespace carya::loader
