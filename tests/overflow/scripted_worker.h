#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "loader/wire/chunk_message.h"
#include "loader/wire/worker_plan.h"
#include "remote/server/server.h"
#include "tests/overflow/script.h"

namespace carya::loader {

/// A worker of this process behind a Unix socket, with two threads, that does with its chunks what a script says.
class ScriptedWorker final : public remote::ChunkHandler {
 public:
  ScriptedWorker(const std::string& path, std::shared_ptr<Script> script) : script_(std::move(script)) {
    auto server = remote::ChunkServer::create({.listen = "unix:" + path}, *this);
    EXPECT_TRUE(server) << server.error().message;
    server_ = std::move(*server);
    for (int i = 0; i < 2; ++i) threads_.emplace_back([this] { work(); });
    threads_.emplace_back([this] { server_->run(); });
  }
  ~ScriptedWorker() override {
    script_->release();
    server_->stop();
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  Result<std::vector<remote::Fact>> admit(std::uint64_t, const remote::Hello& hello,
                                          const remote::ClientUser&) override {
    return hello.facts;
  }
  void register_plan(remote::Asked asked) override {
    const auto document = decode_remote<RemotePlan>(asked.payload->span());
    EXPECT_TRUE(document);
    {
      const std::lock_guard lock(mutex_);
      plan_ = *WorkerPlan::compile(*document);
    }
    server_->answer(asked.ticket, remote::Answer{});
  }
  void compute(remote::Asked asked) override {
    {
      const std::lock_guard lock(mutex_);
      waiting_.push_back(std::move(asked));
    }
    changed_.notify_one();
  }
  void forget_plan(std::uint64_t, std::uint64_t) override {}
  void gone(std::uint64_t, const std::string&, const Error&) override {}

 private:
  void work() {
    transforms::Scratch scratch;
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [&] { return stopping_ || !waiting_.empty(); });
      if (waiting_.empty()) return;
      const remote::Asked asked = std::move(waiting_.front());
      waiting_.pop_front();
      const std::shared_ptr<const WorkerPlan> plan = plan_;
      lock.unlock();
      answer(asked, *plan, script_->next(), scratch);
      lock.lock();
    }
  }

  void answer(const remote::Asked& asked, const WorkerPlan& plan, Script::Fate fate,
              transforms::Scratch& scratch) {
    if (fate == Script::Fate::kDies) return server_->stop();
    if (fate == Script::Fate::kFails)
      return server_->answer(asked.ticket, fail(Code::kIo, "the script says that it fails"));
    const auto chunk = decode_remote<RemoteChunk>(std::as_bytes(std::span(asked.about)));
    const std::shared_ptr<std::byte[]> rows(new std::byte[asked.result_bytes]);
    const std::span<std::byte> out(rows.get(), asked.result_bytes);
    const auto made = plan.compute(*chunk, asked.payload->span(), scratch, out);
    EXPECT_TRUE(made);
    if (fate == Script::Fate::kWrong) out.back() ^= std::byte{1};
    server_->answer(asked.ticket, remote::Answer{encode_remote(*made), {{out}, rows}});
  }

  const std::shared_ptr<Script> script_;
  std::unique_ptr<remote::ChunkServer> server_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<remote::Asked> waiting_;
  std::shared_ptr<const WorkerPlan> plan_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace carya::loader
