#pragma once

#include <unistd.h>

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/unique_fd.h"
#include "io/read/read_engine.h"
#include "loader/read/read_scheduler.h"
#include "loader/stream/scheduler.h"

namespace carya::loader {

/// The threads of a process that produce batches, shared by all its jobs: one reads (the io engine's owner),
/// one sleeps on the rings' bells and looks for reads that storage does not answer (it never waits for
/// storage itself), some compute, and one keeps: it writes decode indexes and profiles, and plans anew. Those
/// that compute are as many as the jobs' threads together, where the cores are more than that; else as many
/// as the cores, or as the job with the most. One lock guards all scheduling state; it is held for
/// microseconds per chunk. Threads are niced once, block all signals, and never touch Python. Threads:
/// thread-safe. A forked child must not call anything; what it destroys is left alone.
class Engine {
 public:
  /// The process's engine for this kind of reads; made when there is none. Errors: those of
  /// io::ReadEngine::create; kExhausted (threads, descriptors).
  static Result<std::shared_ptr<Engine>> shared(io::ReadEngineOptions::Kind kind, bool beneath = false);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  std::mutex& mutex() { return mutex_; }
  ReadBufferPool& pool() { return pool_; }
  /// Whether this is a forked child's copy of the parent's engine: its threads are not here.
  bool forked() const { return getpid() != pid_; }
  /// "io_uring", or "pread (io_uring: why not)".
  std::string io_name() const { return io_name_; }

  /// `cores`: of the machine that this process may use. Errors: kExhausted (threads, descriptors).
  Status add(std::shared_ptr<Production> production, std::uint32_t cores);
  /// Stop it and wait until none of its chunks is being computed; its reads may still end later, and with
  /// them the engine, whose threads and memory outlive its last user then.
  void remove(const std::shared_ptr<Production>& production);
  /// The machine has got more or fewer cores for us; a job with another number of threads for that is told
  /// first. Errors: kExhausted (threads).
  Status set_cores(std::uint32_t cores);
  /// Work of a crew of this production has come back. May wait for mutex().
  void end_remote(Production& production, RemoteWork& work, bool computed);
  /// A crew of this production has room; it may have left. May wait for mutex().
  void wake(const Production& asked);
  /// Begin what may be begun, start reads, wake threads. Under mutex().
  void pump(Production& production);

 private:
  explicit Engine(std::unique_ptr<io::ReadEngine> reader);
  Status open();
  static void retire(Engine* engine);
  void stop();
  Status start_thread(void (Engine::*loop)());
  std::size_t compute_limit() const;
  Status start_compute_threads();
  void dispatch(Outbox& out);
  Chunk* next_chunk();
  void compute_loop();
  void read_loop();
  void bell_loop();
  void keep_loop();
  int look_for_overdue();
  void let_go_quiet();
  void flush_asked(std::unique_lock<std::mutex>& lock);
  void look_asked(std::unique_lock<std::mutex>& lock);

  const pid_t pid_ = getpid();
  std::mutex mutex_;
  std::condition_variable work_;      // compute threads wait for chunks
  std::condition_variable finished_;  // remove() waits for running chunks, retire() for the reading thread
  std::condition_variable keep_;      // the keeping thread waits for something to do
  bool stopping_ = false;
  bool reading_over_ = false;  // nothing is in flight, and nothing will be
  bool watching_ = false;      // the bell's thread looks for overdue reads now and then
  std::vector<std::shared_ptr<Production>> productions_;
  std::vector<std::shared_ptr<Production>> leaving_;  // removed, with reads under way
  std::size_t turn_ = 0;                              // whose chunk is taken next: jobs take turns
  ReadBufferPool pool_{64 << 20};

  Outbox outbox_;  // reused, under the lock

  std::unique_ptr<Reader> reader_;
  std::string io_name_;

  UniqueFd bells_;  // epoll set: the rings' bells and own_bell_
  UniqueFd own_bell_;
  std::vector<std::thread> threads_;
  std::size_t compute_threads_ = 0;
  std::size_t computing_ = 0;
  std::uint32_t cores_ = 1;
  bool keeps_ = false;  // the keeping thread was started
};

}  // namespace carya::loader
