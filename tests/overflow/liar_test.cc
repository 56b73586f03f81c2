// Workers that give other bits than this machine: they are found, and what they did is undone.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <optional>

#include "loader/overflow/remote_executor.h"
#include "loader/stream/scheduler.h"
#include "remote/server/server.h"
#include "tests/overflow/photos.h"
#include "tests/overflow/worker.h"

namespace carya::loader {
namespace {

// A worker that computes right, and then changes a bit of some chunks.
class Liar final : public remote::ChunkHandler {
 public:
  /// It changes chunks from `from` on, but for each `honest_every`-th of all.
  Liar(const std::string& path, std::uint64_t from, std::uint64_t honest_every = 0)
      : from_(from), honest_every_(honest_every) {
    auto server = remote::ChunkServer::create({.listen = "unix:" + path}, *this);
    EXPECT_TRUE(server) << server.error().message;
    server_ = std::move(*server);
    thread_ = std::thread([this] { server_->run(); });
  }
  ~Liar() override {
    server_->stop();
    thread_.join();
  }

  Result<std::vector<remote::Fact>> admit(std::uint64_t, const remote::Hello& hello) override {
    return hello.facts;
  }
  void register_plan(remote::Asked asked) override {
    const auto document = decode_remote<RemotePlan>(asked.payload->span());
    EXPECT_TRUE(document);
    plan_ = *WorkerPlan::compile(*document);
    server_->answer(asked.ticket, remote::Answer{});
  }
  void compute(remote::Asked asked) override {
    const auto chunk = decode_remote<RemoteChunk>(std::as_bytes(std::span(asked.about)));
    const std::shared_ptr<std::byte[]> rows(new std::byte[asked.result_bytes]);
    const std::span<std::byte> out(rows.get(), asked.result_bytes);
    const auto made = plan_->compute(*chunk, asked.payload->span(), scratch_, out);
    EXPECT_TRUE(made);
    const std::uint64_t number = chunks_++;
    if (number >= from_ && (honest_every_ == 0 || number % honest_every_ != 0)) out.back() ^= std::byte{1};
    server_->answer(asked.ticket, remote::Answer{encode_remote(*made), {{out}, rows}});
  }
  void forget_plan(std::uint64_t, std::uint64_t) override {}
  void gone(std::uint64_t, const std::string&, const Error&) override {}

 private:
  const std::uint64_t from_, honest_every_;
  std::uint64_t chunks_ = 0;
  std::shared_ptr<const WorkerPlan> plan_;
  transforms::Scratch scratch_;
  std::unique_ptr<remote::ChunkServer> server_;
  std::thread thread_;
};

std::shared_ptr<PoolCrew> crew_at(const Opened& opened, const std::string& path, double verify) {
  auto crew = PoolCrew::create({.workers = {"unix:" + path}, .lead = 0, .verify = verify});
  EXPECT_TRUE(crew) << crew.error().message;
  EXPECT_TRUE((*crew)->set_plan(remote_plan(*opened.pipeline, kAllOps), nullptr));
  return *crew;
}

bool is_expelled(const PoolCrew& crew) {
  const auto all = crew.figures();
  return all.size() == 1 && all[0].state == remote::WorkerFigures::State::kExpelled &&
         all[0].reason.find("bits differ") != std::string::npos;
}

TEST(Liars, AWorkerWhoseFirstChunkDiffersIsNeverBelieved) {
  const PhotoFolder folder(61);
  const Opened opened = open_photos(folder);
  const std::string path = folder.socket();
  const Liar liar(path, 0);
  const auto crew = crew_at(opened, path, 0.001);
  const auto job = start(opened, {.threads = 1, .slots = 6, .crew = crew});
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
  const Liar liar(path, 5);
  const auto crew = crew_at(opened, path, 0.3);
  const auto job = start(opened, {.threads = 1, .slots = 6, .crew = crew});
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
  std::optional<Liar> worker(std::in_place, path, UINT64_MAX);
  const auto job = start(opened, {.threads = 1, .slots = 6, .crew = crew});
  const Rows expected = alone(opened);
  ASSERT_EQ(drain_until_remote(*job), expected);
  for (int epoch = 0; epoch < 3000 && crew->figures().at(0).results < 2; ++epoch) drain(*job);
  EXPECT_FALSE(is_expelled(*crew)) << "an honest one, whose first chunk was the same";
  worker.reset();
  std::filesystem::remove(path);
  worker.emplace(path, 0);
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
  const Liar liar(path, 0, kEvery);
  const auto crew = crew_at(opened, path, 1.0 / kEvery);
  const auto job = start(opened, {.threads = 1, .slots = 6, .crew = crew});
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
class LyingCrew final : public Crew {
 public:
  explicit LyingCrew(std::shared_ptr<const PlanCut> cut) : cut_(std::move(cut)) {}
  ~LyingCrew() override { end(); }

  void begin(RemoteDone done, std::function<void()> wake) override {
    done_ = std::move(done);
    wake_ = std::move(wake);
    thread_ = std::thread([this] { deliver(); });
  }
  void feed(Production& production, Outbox& out) override {
    const std::lock_guard lock(mutex_);
    if (stopping_) return;
    ++idle_;
    if (kept_ && kept_->chunk->step->dropped) {  // it holds back nothing any more
      production.end_remote(*kept_, false, out);
      kept_.reset();
      lies_ = 0;
    }
    if (kept_ && waiting_.empty() && out_ == 0 && (lies_ == kLies || idle_ > kIdleMax)) undo(production, out);
    while (lies_ < kLies) {
      auto work = production.take_remote(cut_, {});
      if (!work) return;
      idle_ = 0;
      work->worker = worker_;
      if (!kept_) {
        kept_ = std::move(work);
      } else if (work->chunk->order < kept_->chunk->order) {
        production.end_remote(*work, false, out);
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

  void undo(Production& production, Outbox& out) {
    if (lies_ > 0) production.distrust(worker_, out);
    production.end_remote(*kept_, false, out);
    kept_.reset();
    undone_ += lies_;
    lies_ = 0;
    ++worker_;
  }

  void deliver() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [&] { return stopping_ || !waiting_.empty(); });
      std::unique_ptr<RemoteWork> work;
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
  RemoteDone done_;
  std::function<void()> wake_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::unique_ptr<RemoteWork>> waiting_;
  std::unique_ptr<RemoteWork> kept_;
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
    const auto crew = std::make_shared<LyingCrew>(std::make_shared<PlanCut>(
        PlanCut{.plan = 1, .outputs = (*plan)->outputs(), .rest = rest_of(*opened.pipeline, cut)}));
    const auto job = start(opened, {.threads = 2, .slots = 6, .crew = crew});
    for (int epoch = 0; epoch < 1000 && (epoch < 3 || crew->undone() < 20); ++epoch) {
      ASSERT_TRUE(job->seek(0, 0));
      ASSERT_EQ(drain(*job), expected) << "cut " << cut << ", epoch " << epoch;
    }
    EXPECT_GE(crew->undone(), 20U);
  }
}

}  // namespace
}  // namespace carya::loader
