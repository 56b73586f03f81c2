#pragma once

#include <unistd.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "base/poller.h"
#include "io/read/read_engine.h"
#include "loader/engine/band_crew.h"
#include "loader/engine/guests.h"
#include "loader/engine/turns.h"
#include "loader/host/host.h"
#include "loader/host/nodes.h"
#include "loader/read/read_scheduler.h"
#include "loader/stream/stream_scheduler.h"

namespace carya::loader {

/// The threads of a process that produce batches. All jobs of the process share them.
///
/// One thread reads; it owns the io engine. One thread sleeps on the doorbells of the rings and looks for reads that
/// storage does not answer; it never waits for storage itself. One thread maintains: it writes decode indexes and
/// profiles, and plans anew. The others compute. Their number is the sum of the jobs' threads, but not more than the
/// larger of the number of cores and the threads of the largest job.
///
/// One lock guards all scheduling state; a thread holds it for microseconds per chunk. All threads are niced, block
/// signals, and never touch Python. Threads: thread-safe. A forked child must call nothing; destruction in a child
/// leaves everything alone.
class Engine {
 public:
  /// Returns the process's engine for this kind of reads, and makes it if there is none. Errors: those of
  /// io::ReadEngine::create; kExhausted (threads, descriptors).
  static Result<std::shared_ptr<Engine>> shared(io::ReadEngineOptions::Kind kind, bool beneath = false);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  /// Run `fn` under the lock that guards all scheduling state, and return its result.
  template <typename Fn>
  auto locked(Fn fn) const {
    const MutexLock lock(mutex_);
    return fn();
  }
  ReadBufferPool& pool() { return pool_; }
  /// Whether this is a forked child's copy of the parent's engine: its threads are not here.
  bool forked() const { return getpid() != pid_; }
  /// "io_uring", or "pread (io_uring: why not)".
  std::string io_name() const { return io_name_; }

  /// Run the stream from now on, in the turns of its job. This process may use `cores` of the machine. Errors:
  /// kExhausted (threads, descriptors).
  Status add(std::shared_ptr<StreamScheduler> stream, std::uint32_t cores, const Turn& turn = {});
  /// Stop the stream and wait until none of its chunks is being computed. Its reads may end later; until then the
  /// engine's threads and memory outlive the engine's last user.
  void remove(const std::shared_ptr<StreamScheduler>& stream);
  /// This process may use `cores` of the machine from now on. A stream whose number of threads changes with it is
  /// told before this call. Errors: kExhausted (threads).
  Status set_cores(std::uint32_t cores);
  /// Begin what may be begun, start reads, wake threads. Call it inside of locked().
  void pump(StreamScheduler& stream);
  /// A guest takes turns with the streams, from its first report until it leaves. Errors: kExhausted.
  Result<GuestTurn> hear(std::uint64_t guest, const GuestReport& report);
  void leave(std::uint64_t guest) {
    const MutexLock lock(mutex_);
    guests_.leave(guest);
  }

 private:
  /// The cores that one compute thread may ask for while it has a large picture.
  class Spare;

  struct Task;

  explicit Engine(std::unique_ptr<io::ReadEngine> reader);
  Status open();
  static void retire(Engine* engine);
  void stop();
  /// Wait a moment for the reads under way. Returns whether all have ended.
  bool wait_for_reads();
  Status start_thread(void (Engine::*loop)());
  void spread_over_nodes() REQUIRES(mutex_);
  std::size_t compute_limit() const REQUIRES(mutex_);
  Status start_compute_threads() REQUIRES(mutex_);
  void pump_locked(StreamScheduler& stream) REQUIRES(mutex_);
  void pump_unrung(StreamScheduler& stream) REQUIRES(mutex_);
  void start_reads(Outbox& out) REQUIRES(mutex_);
  void dispatch(Outbox& out) REQUIRES(mutex_);
  std::uint32_t take_runnable_count() REQUIRES(mutex_);
  std::optional<std::size_t> next_chunk(Task& task) REQUIRES(mutex_);
  std::size_t index_of(const StreamScheduler* stream) const REQUIRES(mutex_);
  bool has(const StreamScheduler* stream) const REQUIRES(mutex_) {
    return index_of(stream) < streams_.size();
  }
  void end_remote(StreamScheduler& stream, ChunkWork& work, bool computed);
  void wake(StreamScheduler& asked);
  /// What is to be planned, with what was measured, and the samples that are to be looked after (null: none).
  struct AskedPlan {
    std::shared_ptr<StreamPlanner> planner;
    std::shared_ptr<StreamCache> cache;
    PlanProfile measured;
    StreamCache::Seen seen{};
  };
  void end_task(Task& task) REQUIRES(mutex_);
  bool take_task(Task& task, MutexLock& lock) REQUIRES(mutex_);
  void leave_core(std::size_t guest, MutexLock& lock) REQUIRES(mutex_);
  void ring_work(std::uint32_t runnable);
  void compute_loop();
  bool lend(Spare& borrower);
  bool may_keep();
  void take_back(Spare& borrower);
  void read_loop();
  void bell_loop();
  /// The bell that says that samples have come from files; null: the stream has none.
  static std::shared_ptr<const FetchBell> bell_of(const StreamScheduler& stream) {
    return stream.parts().cache ? stream.parts().cache->bell() : nullptr;
  }
  Status watch(const StreamScheduler& stream) {
    if (const auto bell = bell_of(stream)) TRY(bells_->watch(bell->fd(), stream.number()));
    return bells_->watch(stream.parts().ring->event_fd(), stream.number());
  }
  void unwatch(const StreamScheduler& stream) {
    bells_->forget(stream.parts().ring->event_fd());
    if (const auto bell = bell_of(stream)) bells_->forget(bell->fd());
  }
  void keep_loop();
  int look_for_overdue() REQUIRES(mutex_);
  void let_go_quiet() REQUIRES(mutex_);
  bool is_asked() const REQUIRES(mutex_);
  bool is_urgent() const REQUIRES(mutex_);
  std::vector<std::shared_ptr<DecodeIndex>> asked_indexes() const REQUIRES(mutex_);
  std::vector<AskedPlan> asked_plans() const REQUIRES(mutex_);
  static std::shared_ptr<PlanInUse> look_at(const AskedPlan& asked);
  void turn_to(const StreamPlanner* planner, const std::shared_ptr<PlanInUse>& plan) REQUIRES(mutex_);

  const pid_t pid_ = getpid();
  mutable Mutex mutex_;
  Condition work_;      // compute threads wait for chunks
  Condition finished_;  // remove() waits for running chunks, retire() for the reading thread
  Condition keep_;      // the maintenance thread waits for something to do
  bool stopping_ GUARDED_BY(mutex_) = false;
  bool reading_over_ GUARDED_BY(mutex_) = false;  // nothing is in flight, and nothing will be
  bool watching_ GUARDED_BY(mutex_) = false;      // the bell thread looks for overdue reads now and then
  std::vector<std::shared_ptr<StreamScheduler>> streams_ GUARDED_BY(mutex_);
  std::vector<std::shared_ptr<StreamScheduler>> leaving_ GUARDED_BY(mutex_);  // removed, with reads under way
  Turns turns_ GUARDED_BY(mutex_);                                            // of streams_, by index
  Guests guests_ GUARDED_BY(mutex_){turns_};
  ReadBufferPool pool_{64 << 20};  // under mutex_, also by the streams

  Outbox outbox_ GUARDED_BY(mutex_);  // reused

  std::unique_ptr<ReadScheduler> reader_;  // some of its functions under mutex_, some by the reading thread
  std::string io_name_;

  std::optional<Poller> bells_;       // the rings' bells, each with its stream's number; made by open()
  std::vector<std::thread> threads_;  // made by open(), then under mutex_; joined by the destructor
  std::size_t compute_threads_ GUARDED_BY(mutex_) = 0;
  std::size_t computing_ GUARDED_BY(mutex_) = 0;
  std::size_t helping_ GUARDED_BY(mutex_) = 0;           // threads beside them that help with large pictures
  std::vector<const Spare*> spares_ GUARDED_BY(mutex_);  // of each compute thread
  const std::vector<Node> nodes_ = read_nodes();
  std::vector<std::size_t> node_of_
      GUARDED_BY(mutex_);  // of each compute thread, by index; none on a machine of one node
  std::uint32_t cores_ GUARDED_BY(mutex_) = cores_allowed();
  bool keeps_ GUARDED_BY(mutex_) = false;  // the maintenance thread was started
};

}  // namespace carya::loader
