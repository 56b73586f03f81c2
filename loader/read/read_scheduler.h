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
#include "loader/read/read_list.h"
#include "loader/stream/scheduler.h"

namespace carya::loader {

/// Carries out the reads of all productions on one read engine.
///
/// 1. A read waits in `queued_`; the reading thread takes it to `issued_` and hands it to the read engine.
/// 2. One that fails waits in `waiting_` for its next try, with back-off; after the job's io_timeout its
/// error goes to the production.
/// 3. One without an answer is given up: it is as old as io_timeout, and so long ago is the last answer to
/// any read of its job (of any job while it is still queued), so that a queue in front of slow storage is not
/// taken for storage that hangs. Its chunk leaves the production for `lost_`, with the memory that the read
/// may still write to, until the kernel has let go of it; the late answer is thrown away.
///
/// Threads: those marked so are called under the engine's lock, by any thread; start() and poll() by the
/// reading thread, without it.
class Reader {
 public:
  Reader(std::unique_ptr<io::ReadEngine> engine, ReadBufferPool& pool);
  /// Waits for what is in flight: for ever, where storage hangs.
  ~Reader();

  std::string_view name() const { return engine_->name(); }
  void wake() { engine_->wake(); }

  // Under the lock.
  void queue(std::vector<ReadOp*>& reads);
  /// Give up what has waited too long. Returns when to look again; INT64_MAX when nothing is on its way.
  std::int64_t give_up_overdue(std::int64_t now_ns, Outbox& out);
  /// The job has no reads any more but lost ones: close what it had open.
  void forget(std::uint64_t job);

  // Under the lock, by the reading thread.
  /// Take what is to be started now.
  void take();
  /// Take nothing any more, and ask that what is in flight ends. False when nothing is.
  bool stop();
  /// Give what poll() collected to the productions.
  void finish(Outbox& out);

  // By the reading thread, without the lock.
  void start();
  /// Whether there is something to finish.
  bool poll();

 private:
  struct Lost {
    std::unique_ptr<Chunk> chunk;
    std::shared_ptr<const Dataset> dataset;  // whose paths the reads name
  };
  struct Refused {
    ReadOp* op;
    Error error;
  };
  void finish_read(ReadOp& op, const io::ReadCompletion& completion, const Error* refused, Outbox& out);
  void end_lost(ReadOp& op);
  void give_up(ReadOp& op, Outbox& out);
  std::int64_t overdue_at(const ReadOp& op) const;
  void requeue_due(std::int64_t now_ns);

  // Under the lock.
  ReadList queued_;
  ReadList issued_;
  ReadList waiting_;
  std::vector<Lost> lost_;
  std::vector<std::uint64_t> cancelling_;  // tokens, for start()
  std::vector<std::uint64_t> leaving_;     // jobs, for start()
  std::int64_t answered_ns_ = 0;           // the last answer to any read
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
  std::uint32_t wanted_ = 0;  // reads under way at the same time, as the jobs want them; widened_: as it is
  std::uint32_t widened_ = 0;

  ReadBufferPool& pool_;
  std::unique_ptr<io::ReadEngine> engine_;
  OpenSources sources_;
};

}  // namespace carya::loader
