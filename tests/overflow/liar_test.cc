// Workers that give other bits than this machine: they are found, and what they did is undone.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <optional>

#include "loader/overflow/remote_executor.h"
#include "loader/stream/stream_scheduler.h"
#include "tests/overflow/photos.h"
#include "tests/overflow/scripted_worker.h"
#include "tests/overflow/worker.h"

namespace carya::loader {
namespace {

/// Computes right, and then changes a bit of some chunks: from `from` on, but for each `honest_every`-th of all.
std::shared_ptr<Script> liar(std::uint64_t from, std::uint64_t honest_every = 0) {
  return std::make_shared<Script>([=](std::uint64_t number) {
    const bool lies = number >= from && (honest_every == 0 || number % honest_every != 0);
    return lies ? Script::Fate::kWrong : Script::Fate::kComputed;
  });
}

std::shared_ptr<RemoteExecutor> crew_at(const Opened& opened, const std::string& path, double verify) {
  auto crew = RemoteExecutor::create({.workers = {"unix:" + path}, .lead = 0, .verify = verify});
  EXPECT_TRUE(crew) << crew.error().message;
  EXPECT_TRUE((*crew)->set_plan(remote_plan(*opened.pipeline, kAllOps), nullptr));
  return *crew;
}

bool is_expelled(const RemoteExecutor& crew) {
  const auto all = crew.figures();
  return all.size() == 1 && all[0].state == remote::WorkerStats::State::kExpelled &&
         all[0].reason.find("bits differ") != std::string::npos;
}

TEST(Liars, AWorkerWhoseFirstChunkDiffersIsNeverBelieved) {
  const PhotoFolder folder(61);
  const Opened opened = open_photos(folder);
  const std::string path = folder.socket();
  const ScriptedWorker worker(path, liar(0));
  const auto crew = crew_at(opened, path, 0.001);
  const auto job = start(opened, {.threads = 1, .slots = 6}, crew);
  const Rows expected = alone(opened);
  for (int epoch = 0; epoch < 3000 && !is_expelled(*crew); ++epoch) {
    ASSERT_TRUE(job->seek(0, 0));
    ASSERT_EQ(drain(*job), expected);
  }
  EXPECT_TRUE(is_expelled(*crew));
}

TEST(Liars, AWorkerThatLiesLaterIsFoundAndExpelled) {
  const PhotoFolder folder(61);
  const Opened opened = open_photos(folder);
  const std::string path = folder.socket();
  const ScriptedWorker worker(path, liar(5));
  const auto crew = crew_at(opened, path, 0.3);
  const auto job = start(opened, {.threads = 1, .slots = 6}, crew);
  for (int epoch = 0; epoch < 3000 && !is_expelled(*crew); ++epoch) drain(*job);
  ASSERT_TRUE(is_expelled(*crew));
  ASSERT_TRUE(job->seek(0, 0));
  EXPECT_EQ(drain(*job), alone(opened)) << "nothing of it is left";
}

// Whoever listens at an address after a reconnect may be another one.
TEST(Liars, TheFirstChunkAfterAReconnectIsComparedAgain) {
  const PhotoFolder folder(61);
  const Opened opened = open_photos(folder);
  const std::string path = folder.socket();
  const auto crew = crew_at(opened, path, 0);  // none is compared by chance
  std::optional<ScriptedWorker> worker(std::in_place, path, liar(UINT64_MAX));
  const auto job = start(opened, {.threads = 1, .slots = 6}, crew);
  const Rows expected = alone(opened);
  ASSERT_EQ(drain_until_remote(*job), expected);
  for (int epoch = 0; epoch < 3000 && crew->figures().at(0).results < 2; ++epoch) drain(*job);
  EXPECT_FALSE(is_expelled(*crew)) << "an honest one, whose first chunk was the same";
  worker.reset();
  std::filesystem::remove(path);
  worker.emplace(path, liar(0));
  for (int epoch = 0; epoch < 3000 && !is_expelled(*crew); ++epoch) {
    ASSERT_TRUE(job->seek(0, 0));
    ASSERT_EQ(drain(*job), expected);
  }
  EXPECT_TRUE(is_expelled(*crew));
}

TEST(Liars, OneThatIsHonestAtEachNthResultIsFoundAllTheSame) {
  const PhotoFolder folder(61);
  const Opened opened = open_photos(folder);
  const std::string path = folder.socket();
  constexpr std::uint64_t kEvery = 5;
  const ScriptedWorker worker(path, liar(0, kEvery));
  const auto crew = crew_at(opened, path, 1.0 / kEvery);
  const auto job = start(opened, {.threads = 1, .slots = 6}, crew);
  for (int epoch = 0; epoch < 3000 && !is_expelled(*crew); ++epoch) drain(*job);
  ASSERT_TRUE(is_expelled(*crew));
  std::string reason;
  for (int i = 0; i < 2000 && reason.find("went out") == std::string::npos; ++i) {
    drain(*job);
    reason = crew->figures().at(0).reason;
  }
  EXPECT_NE(reason.find("went out"), std::string::npos) << reason;
  ASSERT_TRUE(job->seek(0, 0));
  EXPECT_EQ(drain(*job), alone(opened)) << "nothing of it is left";
}

TEST(SecretDice, FallAsOftenAsTheyShouldAndNotInARhythm) {
  SecretDice dice, others;
  int falls = 0, alike = 0;
  for (int i = 0; i < 100'000; ++i) {
    const bool fell = dice.roll(0.25);
    falls += fell ? 1 : 0;
    alike += fell == others.roll(0.25) ? 1 : 0;
  }
  EXPECT_NEAR(falls, 25'000, 1000) << "7 standard deviations";
  EXPECT_NEAR(alike, 62'500, 1100) << "two of them say the same as often as strangers do";
  EXPECT_FALSE(dice.roll(0));
  EXPECT_TRUE(dice.roll(1));
}

// Keeps one chunk, so that no batch from there on is published; delivers others with wrong rows; then
// distrusts who did. Whatever the stream shows is right all the same.
class LyingExecutor final : public Executor {
 public:
  explicit LyingExecutor(std::shared_ptr<const PlanCut> cut) : cut_(std::move(cut)) {}
  ~LyingExecutor() override { end(); }

  void begin(ChunkDone done, std::function<void()> wake) override {
    done_ = std::move(done);
    wake_ = std::move(wake);
    thread_ = std::thread([this] { deliver(); });
  }
  void offer(StreamScheduler& scheduler, Outbox& out) override {
    const std::lock_guard lock(mutex_);
    if (stopping_) return;
    ++idle_;
    if (kept_ && kept_->chunk->step->dropped) {  // it holds back nothing any more
      scheduler.end_remote(*kept_, false, out);
      kept_.reset();
      lies_ = 0;
    }
    if (kept_ && waiting_.empty() && out_ == 0 && (lies_ == kLies || idle_ > kIdleMax)) undo(scheduler, out);
    while (lies_ < kLies) {
      auto work = scheduler.take_remote(cut_, {});
      if (!work) return;
      idle_ = 0;
      work->worker = worker_;
      if (!kept_) {
        kept_ = std::move(work);
      } else if (work->chunk->order < kept_->chunk->order) {
        scheduler.end_remote(*work, false, out);
      } else {
        ++lies_;
        waiting_.push_back(std::move(work));
        changed_.notify_one();
      }
    }
  }
  void stop() override {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    changed_.notify_one();
  }
  void end() override {
    stop();
    if (thread_.joinable()) thread_.join();
  }
  std::size_t undone() const { return undone_; }

 private:
  static constexpr std::size_t kLies = 5;
  static constexpr int kIdleMax = 50;  // then there are no more chunks to be had

  void undo(StreamScheduler& scheduler, Outbox& out) {
    if (lies_ > 0) scheduler.distrust(worker_, out);
    scheduler.end_remote(*kept_, false, out);
    kept_.reset();
    undone_ += lies_;
    lies_ = 0;
    ++worker_;
  }

  void deliver() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [&] { return stopping_ || !waiting_.empty(); });
      std::unique_ptr<ChunkWork> work;
      if (!waiting_.empty()) {
        work = std::move(waiting_.front());
        waiting_.pop_front();
      } else if (kept_) {
        work = std::move(kept_);
      } else {
        return;
      }
      const bool lies = !stopping_;
      ++out_;
      lock.unlock();
      for (const std::span<std::byte> place : work->places) std::ranges::fill(place, std::byte{0xEE});
      done_(std::move(work), lies);
      lock.lock();
      --out_;
      lock.unlock();
      wake_();
      lock.lock();
    }
  }

  const std::shared_ptr<const PlanCut> cut_;
  ChunkDone done_;
  std::function<void()> wake_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::unique_ptr<ChunkWork>> waiting_;
  std::unique_ptr<ChunkWork> kept_;
  std::uint64_t worker_ = 1;
  std::size_t lies_ = 0, out_ = 0;
  std::atomic<std::size_t> undone_{0};
  int idle_ = 0;
  bool stopping_ = false;
  std::thread thread_;
};

TEST(Liars, WhatTheyDeliveredOfBatchesThatAreNotPublishedIsComputedAgain) {
  const PhotoFolder folder(61);
  const Opened opened = open_photos(folder);
  const Rows expected = alone(opened);
  for (const std::uint64_t cut : {std::uint64_t{2}, kAllOps}) {
    const auto plan = WorkerPlan::compile(remote_plan(*opened.pipeline, cut));
    ASSERT_TRUE(plan) << plan.error().message;
    const auto crew = std::make_shared<LyingExecutor>(std::make_shared<PlanCut>(
        PlanCut{.plan = 1, .outputs = (*plan)->outputs(), .rest = rest_of(*opened.pipeline, cut)}));
    const auto job = start(opened, {.threads = 2, .slots = 6}, crew);
    for (int epoch = 0; epoch < 1000 && (epoch < 3 || crew->undone() < 20); ++epoch) {
      ASSERT_TRUE(job->seek(0, 0));
      ASSERT_EQ(drain(*job), expected) << "cut " << cut << ", epoch " << epoch;
    }
    EXPECT_GE(crew->undone(), 20U);
  }
}

}  // namespace
}  // namespace carya::loader
