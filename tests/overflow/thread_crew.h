#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "loader/stream/executor.h"
#include "loader/stream/scheduler.h"
#include "loader/wire/worker_plan.h"

namespace carya::loader {

/// A crew whose workers are threads of this process: what they are given and give is bytes, as over a wire.
class ThreadCrew final : public Crew {
 public:
  /// What becomes of the n-th chunk.
  enum class Fate { kComputed, kLost, kBroken };
  struct Options {
    std::size_t workers = 2;
    std::size_t lead = 0;
    std::size_t out_max = 4;
    std::function<Fate(std::size_t)> fate = [](std::size_t) { return Fate::kComputed; };
    std::function<void(const RemoteWork&)> seen = [](const RemoteWork&) {};  ///< what is computed
  };

  ThreadCrew(std::shared_ptr<const PlanCut> cut, std::shared_ptr<const WorkerPlan> plan, Options options)
      : cut_(std::move(cut)), plan_(std::move(plan)), options_(std::move(options)) {}
  ~ThreadCrew() override { end(); }
  void end() override {
    stop();
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }

  void begin(RemoteDone done, std::function<void()>) override {
    done_ = std::move(done);
    for (std::size_t i = 0; i < options_.workers; ++i) threads_.emplace_back([this] { work(); });
  }
  void feed(Production& production, Outbox&) override {
    const std::lock_guard lock(mutex_);
    while (!stopping_ && out_ < options_.out_max) {
      auto work = production.take_remote(cut_, {.lead = options_.lead});
      if (!work) return;
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

 private:
  void work() {
    transforms::Scratch scratch;
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [&] { return stopping_ || !queue_.empty(); });
      if (queue_.empty()) return;
      std::unique_ptr<RemoteWork> work = std::move(queue_.front());
      queue_.pop_front();
      const Fate fate = stopping_ ? Fate::kLost : options_.fate(count_++);
      lock.unlock();
      options_.seen(*work);
      const bool computed = compute(*work, fate, scratch);
      done_(std::move(work), computed);
      lock.lock();
      --out_;
    }
  }

  // A worker that is lost may have written anything by then.
  bool compute(RemoteWork& work, Fate fate, transforms::Scratch& scratch) const {
    std::vector<std::byte> payload = work.sent->table;
    for (const auto& part : work.sent->parts) payload.insert(payload.end(), part.begin(), part.end());
    std::vector<std::byte> result(work.result_bytes(), std::byte{0xEE});
    bool computed = fate != Fate::kLost;
    if (computed) {
      const auto made = plan_->compute(work.sent->head, payload, scratch, result);
      computed = made && made->broken.empty() && fate == Fate::kComputed;
    }
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
  RemoteDone done_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::unique_ptr<RemoteWork>> queue_;
  std::vector<std::thread> threads_;
  std::size_t out_ = 0;
  std::size_t count_ = 0;
  bool stopping_ = false;
};

}  // namespace carya::loader
