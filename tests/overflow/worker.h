#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "loader/worker/worker_service.h"
#include "tests/loader/job_reading.h"
#include "tests/overflow/photos.h"

namespace carya::loader {

/// A worker of this process that listens at a Unix socket.
class Worker {
 public:
  explicit Worker(const std::string& path, std::uint32_t threads = 2, std::vector<std::string> roots = {})
      : service_({.threads = threads, .roots = std::move(roots), .log = {}}) {
    auto server = remote::ChunkServer::create({.listen = "unix:" + path}, service_);
    EXPECT_TRUE(server) << server.error().message;
    server_ = std::move(*server);
    EXPECT_TRUE(service_.start(*server_));
    thread_ = std::thread([this] { server_->run(); });
  }
  ~Worker() { stop(); }

  void stop() {
    if (!thread_.joinable()) return;
    server_->stop();
    thread_.join();
    service_.stop();
  }
  void drain() { server_->drain(); }
  std::uint64_t answered() const { return server_->stats().answered; }
  /// Chunks that it has begun, whoever asked for them, all come to an end.
  bool becomes_idle() const {
    for (int i = 0; i < 60'000 && server_->stats().handling > 0; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return server_->stats().handling == 0;
  }

 private:
  WorkerService service_;
  std::unique_ptr<remote::ChunkServer> server_;
  std::thread thread_;
};

/// Epochs until workers have computed something: they may come late.
inline Rows drain_until_remote(Job& job) {
  const Rows first = drain(job);
  for (int epoch = 0; epoch < 3000 && job.stats().scheduler.remote_chunks == 0; ++epoch) drain(job);
  EXPECT_GT(job.stats().scheduler.remote_chunks, 0U);
  return first;
}

}  // namespace carya::loader
