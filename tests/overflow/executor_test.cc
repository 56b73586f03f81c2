// Which chunks an executor is given, and what it is told.
#include <gtest/gtest.h>

#include "tests/overflow/photos.h"
#include "tests/overflow/thread_executor.h"

namespace carya::loader {
namespace {

TEST(Executor, LeavesWhatIsDueFirstToTheHost) {
  const PhotoFolder folder(24);
  const Opened opened = open_photos(folder);
  const auto plan = WorkerPlan::compile(remote_plan(*opened.pipeline, kAllOps));
  ASSERT_TRUE(plan) << plan.error().message;
  const auto cut =
      std::make_shared<PlanCut>(PlanCut{.plan = 1, .outputs = (*plan)->outputs(), .rest = nullptr});
  const auto job =
      start(opened, {.threads = 1, .slots = 4},
            std::make_shared<ThreadExecutor>(cut, *plan, ThreadExecutor::Options{.keep_local = 1000}));
  EXPECT_EQ(drain(*job), alone(opened));
  EXPECT_EQ(job->stats().scheduler.remote_chunks, 0U);
}

/// Takes what it gets and keeps it until the trainer waits for it.
class KeepingExecutor final : public Executor {
 public:
  KeepingExecutor(std::shared_ptr<const PlanCut> cut, ChunkWanted wanted)
      : cut_(std::move(cut)), wanted_(wanted) {}
  void begin(ChunkDone done, std::function<void()>) override { done_ = std::move(done); }
  void offer(StreamScheduler& scheduler, Outbox& out) override {
    const std::lock_guard lock(mutex_);
    if (const Step* const step = scheduler.waited_for()) {
      const auto due =
          std::ranges::find_if(kept_, [&](const auto& work) { return work->chunk->step == step; });
      if (due == kept_.end()) return;
      ++waited_;
      const std::unique_ptr<ChunkWork> work = std::move(*due);
      kept_.erase(due);
      return scheduler.end_remote(*work, false, out);
    }
    while (!stopping_)
      if (auto work = scheduler.take_remote(cut_, wanted_))
        kept_.push_back(std::move(work)), most_ = std::max(most_, kept_.size());
      else
        return;
  }
  void stop() override {
    std::vector<std::unique_ptr<ChunkWork>> kept;
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
  ChunkWanted wanted_;
  ChunkDone done_;
  std::thread giving_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<ChunkWork>> kept_;
  std::size_t waited_ = 0, most_ = 0;
  bool stopping_ = false;
};

std::shared_ptr<KeepingExecutor> keeping(const Opened& opened, const ChunkWanted& wanted) {
  const auto plan = WorkerPlan::compile(remote_plan(*opened.pipeline, kAllOps));
  EXPECT_TRUE(plan) << plan.error().message;
  const PlanCut cut{.plan = 1, .outputs = (*plan)->outputs(), .rest = rest_of(*opened.pipeline, kAllOps)};
  return std::make_shared<KeepingExecutor>(std::make_shared<PlanCut>(cut), wanted);
}

TEST(Executor, IsToldWhatTheTrainerWaitsFor) {
  const PhotoFolder folder(61);
  const Opened opened = open_photos(folder);
  const auto crew = keeping(opened, {});
  const auto job = start(opened, {.threads = 1, .slots = 4}, crew);
  EXPECT_EQ(drain(*job), alone(opened));  // else it would never end
  EXPECT_GT(crew->waited(), 0U);
}

TEST(Executor, GetsNothingThatIsDueTooSoon) {
  const PhotoFolder folder(61);
  const Opened opened = open_photos(folder);
  const auto none = keeping(opened, {.min_batches_ahead = 1000});
  EXPECT_EQ(drain(*start(opened, {.threads = 1, .slots = 4}, none)), alone(opened));
  EXPECT_EQ(none->most(), 0U);
  const auto last = keeping(opened, {.min_batches_ahead = 1000, .allow_final = true});
  EXPECT_EQ(drain(*start(opened, {.threads = 1, .slots = 4}, last)), alone(opened));
  EXPECT_GT(last->most(), 0U);
}

}  // namespace
}  // namespace carya::loader
