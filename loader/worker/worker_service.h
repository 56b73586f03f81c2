#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"
#include "loader/wire/worker_plan.h"
#include "loader/worker/record_files.h"
#include "remote/server/server.h"

namespace carya::loader {

/// A plan's document that has more is refused. Lists of files are in it.
inline constexpr std::uint64_t kPlanBytesMax = 16 << 20;
/// What a byte of a document takes while it is parsed. Measured: 995 MiB for 14 MiB of hostile JSON.
inline constexpr std::uint64_t kParseBytesPerByte = 72;
/// What a pixel of the largest picture of a row takes: four pictures on their way, of three float32 each.
/// Measured: 744 MiB for 64 million pixels of uint8 with blurs, 12 B each.
inline constexpr std::uint64_t kRowBytesPerPixel = 48;
/// What a pipeline itself allows.
inline constexpr std::uint64_t kPixelsMax = transforms::PlanOptions{}.image_pixels_max;

struct WorkerOptions {
  std::uint32_t threads = 1;                      ///< that compute
  std::uint64_t pixels_max = kPixelsMax;          ///< of one picture; a row with more is left to its host
  std::uint64_t plan_bytes_max = kPlanBytesMax;   ///< of a plan's document
  std::int64_t chunk_ms = 60'000;                 ///< for one chunk, looked at between its rows and in them
  std::vector<std::string> roots{};               ///< as RecordFiles::open() takes them
  std::uint64_t record_bytes_max = 1 << 30;       ///< of one that is read here, per thread
  std::function<void(const std::string&)> log{};  ///< one line per event; may be called by any thread
};

/// A worker's work: compiles plans and computes chunks, on threads of its own. Keeps nothing of one chunk for
/// the next: the same chunk gives the same bits on every worker. Threads: as remote::ChunkHandler says.
class WorkerService final : public remote::ChunkHandler {
 public:
  explicit WorkerService(WorkerOptions options);
  ~WorkerService() override;

  /// Answers go to this server from now on; before it runs. Errors: kExhausted (threads); of the roots, those
  /// of RecordFiles::open().
  Status start(remote::ChunkServer& server);
  /// What is being computed ends after its present row, what waits is not begun. After the server has ended.
  void stop();

  Result<std::vector<remote::Fact>> admit(std::uint64_t connection, const remote::Hello& hello) override;
  void register_plan(remote::Asked asked) override;
  void compute(remote::Asked asked) override;
  void cancel(const remote::Ticket& ticket) override;
  void forget_plan(std::uint64_t connection, std::uint64_t plan) override;
  void gone(std::uint64_t connection, const std::string& peer, const Error& reason) override;
  void refused(const std::string& peer, const Error& reason) override;

 private:
  void drop(const std::function<bool(const remote::Ticket&)>& unwanted);
  using PlanKey = std::pair<std::uint64_t, std::uint64_t>;  // connection, number
  struct Job {
    remote::Asked asked;
    std::shared_ptr<const WorkerPlan> plan;  // null: the plan itself is asked for
  };

  void work();
  void add(Job job);
  Result<remote::Answer> compile(const remote::Asked& asked);
  RemoteReady ready_for(const RemotePlan& plan) const;
  Result<remote::Answer> run(const Job& job, transforms::Scratch& scratch) const;

  WorkerOptions options_;
  remote::ChunkServer* server_ = nullptr;
  RecordFiles files_;     // since start()
  std::mutex compiling_;  // one plan is parsed at a time: that takes more memory than anything else
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Job> jobs_;
  std::map<PlanKey, std::shared_ptr<const WorkerPlan>> plans_;
  std::vector<std::thread> threads_;
  std::atomic<bool> stopping_ = false;
  std::int64_t refusal_logged_ns_ = 0;  // the server's thread alone: a flood is one line a second
  std::uint64_t refusals_ = 0;          // since then
};

}  // namespace carya::loader
