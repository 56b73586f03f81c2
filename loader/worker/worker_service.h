#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/mutex.h"
#include "loader/wire/worker_plan.h"
#include "loader/worker/record_files.h"
#include "remote/server/server.h"

namespace carya::loader {

/// The limit of a plan's document, which contains lists of files. A longer one is refused.
inline constexpr std::uint64_t kPlanBytesMax = 16 << 20;
/// The memory that a byte of a document takes while it is parsed. Measured: 995 MiB for 14 MiB of hostile JSON.
inline constexpr std::uint64_t kParseBytesPerByte = 72;
/// The memory that a pixel of a row's largest picture takes: four pictures at a time, of three float32 each.
/// Measured: 744 MiB for 64 million pixels of uint8 with blurs, 12 B each.
inline constexpr std::uint64_t kRowBytesPerPixel = 48;
/// The limit that a pipeline itself has.
inline constexpr std::uint64_t kPixelsMax = transforms::PlanOptions{}.image_pixels_max;

struct WorkerOptions {
  std::uint32_t threads = 1;              ///< threads that compute
  std::uint64_t pixels_max = kPixelsMax;  ///< limit of one picture; a row with more is left to its host
  std::uint64_t plan_bytes_max = kPlanBytesMax;  ///< limit of a plan's document
  /// Limit for one chunk, checked between its rows and in them; a row that is sure to take more is left to its host.
  std::int64_t chunk_ms = 60'000;
  std::vector<std::string> roots{};               ///< folders, as RecordFiles::open() takes them
  std::uint64_t record_bytes_max = 1 << 30;       ///< limit of a record that is read here, per thread
  std::function<void(const std::string&)> log{};  ///< one line per event; may be called by any thread
};

/// Compiles plans and computes chunks, on threads of its own. It keeps nothing of one chunk for the next, so that a
/// chunk gives the same bits on every worker. Threads: as remote::ChunkHandler says.
class WorkerService final : public remote::ChunkHandler {
 public:
  explicit WorkerService(WorkerOptions options);
  ~WorkerService() override;

  /// Start the threads, before the server runs. Answers go to this server. Errors: kExhausted (threads); those of
  /// RecordFiles::open() for the roots.
  Status start(remote::ChunkServer& server);
  /// Stop the threads, after the server has ended. A row under way is given up in its middle; other chunks are not
  /// begun.
  void stop();

  Result<std::vector<remote::Fact>> admit(std::uint64_t connection, const remote::Hello& hello,
                                          const remote::ClientUser& user) override;
  void register_plan(remote::Asked asked) override;
  void compute(remote::Asked asked) override;
  void cancel(const remote::Ticket& ticket) override;
  void forget_plan(std::uint64_t connection, std::uint64_t plan) override;
  void gone(std::uint64_t connection, const std::string& peer, const Error& reason) override;
  void refused(const std::string& peer, const Error& reason) override;
  void not_renewed(const Error& reason) override;

 private:
  void drop(const std::function<bool(const remote::Ticket&)>& unwanted);
  using PlanKey = std::pair<std::uint64_t, std::uint64_t>;  // connection, number
  struct Job {
    remote::Asked asked;
    std::shared_ptr<const WorkerPlan> plan;  // null: the plan itself is asked for
  };

  /// What a thread computes, on its stack.
  struct Running {
    remote::Ticket ticket;
    std::atomic<bool> unwanted = false;
  };

  void work();
  void add(Job job);
  Result<remote::Answer> compile(const remote::Asked& asked);
  RemoteReady ready_for(const RemotePlan& plan) const;
  Result<remote::Answer> run(const Job& job, const Running& running, transforms::Scratch& scratch) const;

  WorkerOptions options_;
  remote::ChunkServer* server_ = nullptr;
  RecordFiles files_;  // since start()
  Mutex compiling_;    // one plan is parsed at a time: that takes more memory than anything else
  Mutex mutex_;
  Condition changed_;
  std::deque<Job> jobs_ GUARDED_BY(mutex_);
  std::vector<Running*> running_ GUARDED_BY(mutex_);  // at most one of each thread
  std::map<PlanKey, std::shared_ptr<const WorkerPlan>> plans_ GUARDED_BY(mutex_);
  std::vector<std::thread> threads_;
  std::atomic<bool> stopping_ = false;
  std::int64_t refusal_logged_ns_ = 0;  // the server's thread alone: a flood is one line a second
  std::uint64_t refusals_ = 0;          // since then
};

}  // namespace carya::loader
