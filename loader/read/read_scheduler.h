#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "io/read/read_engine.h"
#include "loader/read/open_sources.h"
#include "loader/read/read_client.h"
#include "loader/read/read_list.h"
#include "loader/read/read_turns.h"

namespace carya::loader {

/// The limit for all streams of the process. It is enough for 20,000 reads per second of 50 ms each. A table of io_uring
/// with that many places needs a descriptor limit that most systems have; 64 where there is less.
std::uint32_t reads_in_flight_max();

/// Carries out the reads of all clients on one read engine.
///
/// 1. A read waits in its client's queue. Clients take turns, one read at a time. The reading thread moves the read to
///    `issued_` and hands it to the read engine. A client has at most three reads in flight for each free place.
/// 2. A read that fails waits in `waiting_` for its next try, with back-off. After the client's io_timeout the error
///    goes to the client.
/// 3. A read without an answer is given up when it is older than io_timeout, and no read of its client (for a queued
///    read: of any client) was answered for that long. So a queue in front of slow storage is not taken for storage
///    that hangs. The batch moves from the client to `lost_`, with the memory that its reads may still write to. It
///    stays there until the kernel has ended them; late answers are dropped.
///
/// Threads: the public functions stand in groups. Each group says whether its callers hold the engine's lock, and
/// whether only the reading thread calls it.
class ReadScheduler {
 public:
  ReadScheduler(std::unique_ptr<io::ReadEngine> engine, ReadBufferPool& pool);
  /// Waits for the reads in flight, for ever if storage hangs.
  ~ReadScheduler();

  std::string_view name() const { return engine_->name(); }
  void wake() { engine_->wake(); }

  // Under the lock, by any thread.
  void queue(std::vector<ReadOp*>& reads);
  /// Give up the reads that have waited too long. Returns when to call it again; INT64_MAX if there are no reads.
  std::int64_t give_up_overdue(std::int64_t now_ns, Outbox& out);
  /// The job has no reads any more, except lost ones: close its sources.
  void forget(std::uint64_t job);

  // Under the lock, by the reading thread.
  /// Take the reads that can start now.
  void take();
  /// Take no more reads, and cancel those in flight. Returns false if there are none.
  bool stop();
  /// Hand the completions that poll() collected to the clients.
  void finish(Outbox& out);

  // By the reading thread, without the lock.
  void start();
  /// Wait for completions. Returns whether there is something to finish().
  bool poll();

 private:
  struct Refused {
    ReadOp* op;
    Error error;
  };
  void finish_read(ReadOp& op, const io::ReadCompletion& completion, const Error* refused, Outbox& out);
  void end_lost(ReadOp& op);
  void give_up(ReadOp& op, Outbox& out);
  std::int64_t overdue_at(const ReadOp& op) const;
  void requeue_due(std::int64_t now_ns);
  void enqueue(ReadOp& op);

  // Under the lock.
  ReadTurns turns_;              // the clients with queued reads; some of them may have none left
  std::uint32_t in_flight_ = 0;  // the length of issued_
  ReadList issued_;
  ReadList stuck_;  // reads of batches that were given up
  ReadList waiting_;
  std::vector<std::unique_ptr<ReadBatch>> lost_;
  std::vector<std::uint64_t> cancelling_;  // tokens that start() cancels
  std::vector<std::uint64_t> leaving_;     // jobs whose sources start() closes
  std::int64_t answered_ns_ = 0;           // the time of the last answer to any read
  bool stopping_ = false;

  // The reading thread's own.
  std::vector<ReadOp*> starting_;
  std::vector<io::ReadRequest> requests_;
  std::vector<Refused> refused_;
  std::vector<std::uint64_t> cancels_;
  std::vector<std::uint64_t> forgets_;
  std::array<io::ReadCompletion, 64> done_;
  std::size_t done_count_ = 0;
  int wait_ms_ = 0;
  std::uint32_t wanted_ = 0;   // reads in flight that the clients want
  std::uint32_t widened_ = 0;  // the wanted_ that the engine was last told

  ReadBufferPool& pool_;
  std::unique_ptr<io::ReadEngine> engine_;
  OpenSources sources_;
};

}  // namespace carya::loader
