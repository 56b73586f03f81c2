#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "loader/overflow/work_encoder.h"
#include "loader/stream/executor.h"
#include "loader/stream/stream_scheduler.h"
#include "loader/wire/worker_plan.h"
#include "tests/overflow/script.h"

namespace carya::loader {

/// An executor whose workers are threads of this process: what they are given and give is bytes, as over a wire. What
/// they do with each chunk is the script's choice; a worker that lied is distrusted at once, and another one comes.
class ThreadExecutor final : public Executor {
 public:
  struct Options {
    std::size_t workers = 2;
    std::size_t keep_local = 0;
    std::size_t out_max = 4;
    std::shared_ptr<Script> script = std::make_shared<Script>();
    std::function<void(const ChunkWork&)> seen = [](const ChunkWork&) {};  ///< what is computed
  };

  ThreadExecutor(std::shared_ptr<const PlanCut> cut, std::shared_ptr<const WorkerPlan> plan, Options options)
      : cut_(std::move(cut)), plan_(std::move(plan)), options_(std::move(options)) {}
  ~ThreadExecutor() override { end(); }
  void end() override {
    stop();
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }

  void begin(ChunkDone done, std::function<void()> wake) override {
    done_ = std::move(done);
    wake_ = std::move(wake);
    for (std::size_t i = 0; i < options_.workers; ++i) threads_.emplace_back([this] { work(); });
  }
  void offer(StreamScheduler& scheduler, Outbox& out) override {
    const std::lock_guard lock(mutex_);
    if (stopping_) return;
    for (const std::uint64_t liar : std::exchange(distrusted_, {})) scheduler.distrust(liar, out);
    while (out_ < options_.out_max) {
      auto work = scheduler.take_remote(cut_, {.keep_local = options_.keep_local});
      if (!work) return;
      work->worker = worker_;
      work->sent = encode_work(*work, scheduler.parts(), false);
      ++out_;
      queue_.push_back(std::move(work));
      changed_.notify_one();
    }
  }
  void stop() override {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  /// Workers that lied and were distrusted.
  std::uint64_t distrusted() const { return worker_ - 1; }

 private:
  using Fate = Script::Fate;

  void work() {
    transforms::Scratch scratch;
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [&] { return stopping_ || !queue_.empty(); });
      if (queue_.empty()) return;
      std::unique_ptr<ChunkWork> work = std::move(queue_.front());
      queue_.pop_front();
      const bool asked = !stopping_;
      lock.unlock();
      const Fate fate = asked ? options_.script->next() : Fate::kFails;
      options_.seen(*work);
      const bool computed = compute(*work, fate, scratch);
      if (fate == Fate::kWrong) {
        distrust(work->worker);
        wake_();  // the scheduler is told before it has the rows
      }
      done_(std::move(work), computed);
      lock.lock();
      --out_;
    }
  }

  void distrust(std::uint64_t worker) {
    const std::lock_guard lock(mutex_);
    if (worker == worker_) distrusted_.push_back(worker_++);  // else it is distrusted already
  }

  // A worker that fails may have written anything by then.
  bool compute(ChunkWork& work, Fate fate, transforms::Scratch& scratch) const {
    std::vector<std::byte> payload = work.sent->table;
    for (const auto& part : work.sent->parts) payload.insert(payload.end(), part.begin(), part.end());
    std::vector<std::byte> result(work.result_bytes(), std::byte{0xEE});
    bool computed = fate != Fate::kFails;
    if (computed) {
      const auto made = plan_->compute(work.sent->head, payload, scratch, result);
      computed = made && made->broken.empty();
    }
    if (fate == Fate::kWrong) std::ranges::fill(result, std::byte{0xEE});
    std::size_t at = 0;
    for (const std::span<std::byte> place : work.places) {
      std::copy_n(result.begin() + static_cast<std::ptrdiff_t>(at), place.size(), place.begin());
      at += place.size();
    }
    return computed;
  }

  std::shared_ptr<const PlanCut> cut_;
  std::shared_ptr<const WorkerPlan> plan_;
  Options options_;
  ChunkDone done_;
  std::function<void()> wake_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::unique_ptr<ChunkWork>> queue_;
  std::vector<std::thread> threads_;
  std::vector<std::uint64_t> distrusted_;  // the scheduler has not been told of them
  std::atomic<std::uint64_t> worker_{1};   // the one that gets chunks now
  std::size_t out_ = 0;
  bool stopping_ = false;
};

}  // namespace carya::loader
