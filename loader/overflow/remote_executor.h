#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "base/error.h"
#include "base/mutex.h"
#include "loader/overflow/late_limit.h"
#include "loader/overflow/result_verifier.h"
#include "loader/overflow/secret_dice.h"
#include "loader/overflow/work_encoder.h"
#include "loader/overflow/worker_table.h"
#include "loader/stream/executor.h"
#include "loader/stream/stream_scheduler.h"
#include "remote/pool/pool.h"

namespace carya::loader {

/// What an executor's workers have done so far.
struct RemoteTotals {
  std::uint64_t rows = 0;            ///< rows that came home
  std::uint64_t worker_ns = 0;       ///< thread time that workers of speed 1 would have needed for those rows
  std::uint64_t received_bytes = 0;  ///< bytes of results
  std::int64_t receiving_ns = 0;     ///< time in which some result was arriving
  std::int64_t host_ns = 0;          ///< CPU time of this machine for sending and receiving
  std::int64_t away_p99_ns = 0;      ///< time away of 99 in 100 chunks; 0: not known yet
  std::uint32_t used = 0;            ///< workers in use: they are there, and get chunks now or soon
  std::uint32_t ready = 0;           ///< workers in use that have the plan
  double worker_cores = 0;           ///< mean cores of the workers that ever came; 0: none did
  /// The speeds of workers that are there and known, the fastest first. A speed is relative to the fastest worker,
  /// were that one free of other hosts.
  std::vector<double> worker_speeds{};
  double link_out_bytes_per_s = 0;  ///< to all workers; 0: not known
};

struct RemoteExecutorOptions {
  std::vector<std::string> workers;               ///< "host:port", "unix:/path"
  remote::PoolOptions pool{};                     ///< the executor fills in its hello
  std::size_t lead = 2;                           ///< ready chunks that stay for the threads of this machine
  double verify = 0.01;                           ///< RemoteOptions::verify
  std::function<void(const std::string&)> log{};  ///< one line per event; from any thread
};

/// Gives chunks to workers over the network.
///
/// set_workers() says how many workers are used; those that other hosts use least come first. A chunk goes to the
/// worker that has room and returns it first, if it returns before the trainer wants the chunk. This machine computes
/// a chunk that is late (LateLimit). It also computes a chunk that the trainer waits for while this machine idles, once
/// the wait has lasted as long as computing it takes. Workers that die or refuse slow the stream and change nothing
/// else.
///
/// A worker has as many chunks at a time as keep it busy, with those on their way, and no more: this machine could
/// compute the others, and the batch would wait for them.
///
/// This machine also computes the first chunk of each connection, and compares, before the worker gets a second one.
/// Later it compares a share `verify` of the chunks; which ones is its secret. A worker whose bits differ is expelled
/// for good. This machine then computes what that worker has, and what it delivered of batches that are not published;
/// batches that were published are named.
///
/// Threads: as Executor says. It has three threads: one encodes, one sends and receives, one compares. While names are
/// unknown a fourth one looks them up, and may end after the executor.
class RemoteExecutor final : public Executor, private remote::PoolEvents {
 public:
  /// Make an executor that takes no work before set_plan(). Errors: kInvalidArgument (an address, TLS files, plain TCP
  /// to another machine, an unknown name), kUnsupported, kExhausted.
  static Result<std::shared_ptr<RemoteExecutor>> create(const RemoteExecutorOptions& options);
  ~RemoteExecutor() override;

  void begin(ChunkDone done, std::function<void()> wake) override;
  bool has_workers() const override { return has_workers_; }
  void offer(StreamScheduler& stream, Outbox& out) override;
  void stop() override;
  void end() override;

  /// Compute chunks that are taken from now on in two parts: workers run `plan`, whose number was not used before, and
  /// this machine runs `rest` (null: nothing is left to run). Errors: those of WorkerPlan::compile().
  Status set_plan(const RemotePlan& plan, std::shared_ptr<PlanInUse> rest);
  /// Connect to a worker from now on. Returns the worker's number. The call looks up a name, which may take seconds.
  /// Errors: as create().
  Result<std::uint64_t> add_worker(const std::string& address);
  /// Forget a worker. Its chunks are computed elsewhere.
  void remove_worker(std::uint64_t member);
  /// Give a worker no more chunks, or again some. What it has comes home; is_idle() says when all has.
  void set_retired(std::uint64_t member, bool retired);
  bool is_idle(std::uint64_t member);
  /// Use at most `workers` workers from now on.
  void set_workers(std::uint32_t workers);
  /// Say what one worker saves, in $ per hour. Workers share their time among the hosts of one user by these bids.
  void set_worth(double worth) { pool_->set_worth(worth); }
  /// Say what this stream weighs beside the streams of other users; at first 1.
  void set_weight(double weight) { pool_->set_weight(weight); }

  /// Statistics of all workers. Those of an expelled worker are as they were then, and give the reason.
  std::vector<remote::WorkerStats> figures() const;
  /// Returns the totals. Call it now and then: it also takes over the round trips and windows of the workers.
  RemoteTotals totals();
  std::size_t members() const;

 private:
  struct Out {
    std::unique_ptr<ChunkWork> work;
    std::uint64_t member = 0;
    std::int64_t since_ns = 0;
    double home_ns = 0;                  // the predicted time away; 0: not known
    std::int64_t arriving_since_ns = 0;  // when the first byte of the result came; 0: none has come
  };

  explicit RemoteExecutor(const RemoteExecutorOptions& options);
  void note_taken(StreamScheduler& stream) REQUIRES(mutex_);
  void trace_away(const Out& one, std::uint64_t thread_ns, std::int64_t now_ns) REQUIRES(mutex_);
  std::size_t batches_ahead(const WorkerEntry& entry) const REQUIRES(mutex_);
  void encoded(std::unique_ptr<ChunkWork> work, bool encoded);
  bool submit(std::unique_ptr<ChunkWork>& work) REQUIRES(mutex_);
  void take_back_late(StreamScheduler& stream, Outbox& out) REQUIRES(mutex_);
  void take_back_waited_for(StreamScheduler& stream, Outbox& out) REQUIRES(mutex_);
  bool take_back(std::uint64_t request, StreamScheduler& stream, Outbox& out) REQUIRES(mutex_);
  void note_away(const Out& one) REQUIRES(mutex_);
  std::unique_ptr<ChunkWork> take_out(std::uint64_t request) REQUIRES(mutex_);
  void give_back(std::uint64_t request);
  void note_unread(std::uint64_t request, const std::string& why);
  void take_home(std::uint64_t request, std::uint64_t thread_ns);
  void checked(std::unique_ptr<ChunkWork> work, ResultVerifier::Verdict verdict, bool rows_are_ours);
  bool expel(std::uint64_t worker);
  void tell_what_went_out(std::uint64_t worker, const std::string& batches) REQUIRES(mutex_);

  Status admit(std::uint64_t member, const remote::Welcome& welcome) override;
  void down(std::uint64_t member, const Error& reason, bool parked) override;
  void registered(std::uint64_t member, std::uint64_t plan, Result<std::string> about) override;
  void room(std::uint64_t member) override;
  remote::ReceiveTarget place(std::uint64_t request, const std::string& about, std::uint64_t bytes) override;
  void done(std::uint64_t request, const std::string& about, bool placed) override;
  void failed(std::uint64_t request, const Error& error) override;
  void lost(std::uint64_t request, const Error& reason) override;

  RemoteExecutorOptions options_;
  std::atomic<bool> has_workers_{false};  // some are to be used
  const std::uint64_t number_;            // unique among the executors of this process
  ChunkDone done_;
  std::function<void()> wake_;

  mutable Mutex mutex_;  // taken under the engine's lock, never the other way round
  std::shared_ptr<const PlanCut> cut_ GUARDED_BY(mutex_);
  std::vector<std::uint64_t> plans_ GUARDED_BY(mutex_);  // plans that the pool knows, the present one last
  RemoteTotals totals_ GUARDED_BY(mutex_){};
  std::size_t receiving_ GUARDED_BY(mutex_) = 0;  // results whose bytes are on their way in
  std::int64_t receiving_since_ns_ GUARDED_BY(mutex_) = 0;
  WorkerTable workers_ GUARDED_BY(mutex_);
  SecretDice dice_ GUARDED_BY(mutex_);
  std::unordered_map<std::uint64_t, Out> out_ GUARDED_BY(mutex_);
  std::uint64_t requests_ GUARDED_BY(mutex_) = 0;
  // Addresses of all workers so far, for traces: how many of them the trace of that session knows.
  std::map<std::uint64_t, std::string> addresses_ GUARDED_BY(mutex_);
  std::uint64_t named_in_ GUARDED_BY(mutex_) = 0;
  std::size_t named_ GUARDED_BY(mutex_) = 0;
  LateLimit late_ GUARDED_BY(mutex_);
  double taken_samples_ GUARDED_BY(mutex_) = 0;  // by the trainer, at
  std::int64_t taken_at_ns_ GUARDED_BY(mutex_) = 0;
  double batch_ns_ GUARDED_BY(mutex_) = 0;               // between two of its batches; 0: not known
  const Step* waited_for_ GUARDED_BY(mutex_) = nullptr;  // as the scheduler has it, never looked into
  std::int64_t waited_since_ns_ GUARDED_BY(mutex_) = 0;
  std::vector<std::uint64_t> distrusted_
      GUARDED_BY(mutex_);  // workers of which the scheduler has not been told
  std::vector<remote::WorkerStats> expelled_ GUARDED_BY(mutex_);
  bool stopping_ GUARDED_BY(mutex_) = false;

  std::unique_ptr<ResultVerifier> check_;
  std::unique_ptr<WorkEncoder> encoder_;
  std::unique_ptr<remote::WorkerPool> pool_;
  std::thread thread_;
};

}  // namespace carya::loader
