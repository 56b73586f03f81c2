#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "loader/data/dataset.h"
#include "loader/data/decode_index.h"
#include "loader/data/store_sources.h"
#include "loader/host/nodes.h"
#include "loader/plan/stream_cache.h"
#include "loader/plan/stream_planner.h"
#include "loader/read/read_client.h"
#include "loader/stream/chunk_compute.h"
#include "loader/stream/chunk_table.h"
#include "loader/stream/executor.h"
#include "loader/stream/parallelism.h"
#include "loader/stream/plan_ledger.h"
#include "loader/stream/read_ahead.h"
#include "loader/stream/sequencer.h"
#include "loader/stream/slot_rows.h"

namespace carya::loader {

struct SchedulerOptions {
  StreamShape shape;
  std::uint64_t seed = 0;
  std::optional<std::uint64_t> epochs;  ///< SequenceOptions
  bool prefetch_epochs = true;          ///< SequenceOptions
  transforms::OnError on_error = transforms::OnError::kRaise;
  std::uint32_t threads = 1;  ///< chunks of this stream that are computed at the same time
  /// The most bytes of read buffers ahead of the threads; one chunk is always allowed.
  std::uint64_t read_ahead_bytes = 0;
  std::int64_t io_timeout_ns = 0;
  bool label_int32 = false;
  std::int32_t node = kNoNode;  ///< on which its batches are wanted
};

/// The parts of a stream. All but `executor`, `cached_reads`, `plan_chooser`, `cache` and `stores` must be set.
struct StreamParts {
  std::shared_ptr<const transforms::Pipeline> pipeline;
  std::shared_ptr<const Dataset> dataset;
  std::shared_ptr<shm::SlotRing> ring;
  std::shared_ptr<DecodeIndex> index;
  std::shared_ptr<StreamPlanner> planner;
  std::shared_ptr<Executor> executor{};  ///< null: this machine computes everything
  /// Null: the reading thread reads everything. It is null beside an executor, which needs records that were read.
  std::shared_ptr<const CachedReads> cached_reads{};
  PlanChooser plan_chooser{};                    ///< none: the planner chooses the plan
  std::shared_ptr<StreamCache> cache{};          ///< null: no samples are kept for later epochs
  std::shared_ptr<const StoreSources> stores{};  ///< null: no record is behind a URL
  std::uint64_t work = 0;  ///< a thread that crashes while it works for the stream says so (WorkFor)
};

/// Figures for stats().
struct SchedulerStats : SequenceStats, ReadStats, ComputeStats {
  std::uint64_t replaced = 0, masked = 0;
  std::vector<transforms::OpProfile> ops;  ///< stages of all plans that ran, added up by name
  transforms::DecodePaths decodes;
  std::uint64_t plan_switches = 0;
  std::uint64_t remote_chunks = 0, remote_bytes = 0;  ///< by workers; bytes sent and received for them
  autotune::Flow flow{};                              ///< the present sizes
  std::vector<StoreFigures> stores{};                 ///< what was asked of stores
  std::uint32_t cores = 0;  ///< how many of its threads the stream uses now: as many as its reader needs
};

/// The scheduling state of one stream: which chunk is due, what is under way, and publishing in order. It joins five
/// parts: Sequencer, ChunkTable, ReadAhead, Parallelism and PlanLedger.
///
/// 1. Steps are begun in stream order and cut into chunks. A chunk's reads are issued when it is begun, ahead of need,
///    within the byte budget. While the page cache has the records, nothing is read ahead: the thread that computes a
///    chunk takes its records from the cache, and a chunk that misses one is read as usual.
/// 2. A step gets a FREE slot, in order. A chunk may be computed when its bytes are in memory and its step has a slot.
/// 3. Chunks end in any order. A step whose chunks have all ended is published after all steps before it.
/// 4. A broken row is masked, or computed again from a substitute's bytes, or stops the stream at its step.
/// 5. Lack of memory stops the stream as a row's failure does. Moving steps and chunks from list to list needs no
///    memory: room for that is made when they are made.
/// 6. A chunk keeps the plan that is present when a thread takes it. All plans give the same bits.
/// 7. Samples that an earlier epoch kept are looked up when their rows are known, and held until they are computed. They
///    need no reads of their records; those in files are read ahead as records are, and where one does not come, or is
///    not what it should be, its chunk is read from the records. What is looked up, computed and kept decides no bit.
///    Beside workers, chunks of which less than half was kept are read whole, so that they may go; what workers compute
///    is not kept here.
/// 8. seek() begins a new session. What the old session has under way ends and is dropped.
///
/// Threads: everything under the engine's lock, except compute(), which runs without it on a chunk that was taken.
class StreamScheduler final : public ReadClient {
 public:
  static std::shared_ptr<StreamScheduler> create(StreamParts parts, std::shared_ptr<PlanInUse> plan,
                                                 ReadBufferPool& pool, const SchedulerOptions& options);

  // The stream as a whole.
  void seek(std::uint64_t epoch, std::uint64_t position);
  /// Begin nothing more.
  void stop() {
    sequencer_.stop();
    drop_session();
  }
  /// Set the policy for rows that are found broken from now on. Returns whether it changed.
  bool set_on_error(transforms::OnError policy) {
    if (std::exchange(options_.on_error, policy) == policy) return false;
    sequencer_.note_mixed();
    return true;
  }
  /// Begin what may begin. Call it after every change.
  void pump(Outbox& out);

  // Threads of this machine.
  /// Whether a chunk may be computed now: one is ready, and not enough are being computed.
  bool has_runnable() const {
    return chunks_.count(ChunkState::kLocal) < parallelism_.cores() && !chunks_.runnable().empty();
  }
  /// Take the chunk that is due first. The calling thread has it until finish(). Returns null if !has_runnable().
  Chunk* take_runnable();
  /// Compute the chunk's rows into its slot. Call it without the lock.
  void compute(Chunk& chunk, ComputeScratch& scratch) const;
  /// The calling thread is done with `chunk`, which took it `took`. `scratch` came from parallelism().
  void finish(Chunk& chunk, ComputeScratch scratch, const ThreadTime& took, Outbox& out);
  /// A thread found nothing to compute while reads were under way: read further ahead.
  void note_starved();

  // Other machines.
  /// Take the earliest chunk as `wanted` that another machine may compute up to `cut`. It is away until end_remote().
  /// Returns null if there is none, or if memory is short.
  std::unique_ptr<ChunkWork> take_remote(std::shared_ptr<const PlanCut> cut, const ChunkWanted& wanted);
  /// The work has come back. `computed`: all its rows are in their places; if not, this machine computes the chunk.
  void end_remote(ChunkWork& work, bool computed, Outbox& out);
  /// Compute the rows of `worker` (ChunkWork::worker) again on this machine, in all batches that are not published.
  /// Chunks that still come back from that worker are computed here too.
  void distrust(std::uint64_t worker, Outbox& out);
  /// The batch that the trainer gets next, if other machines compute all that it lacks and this machine has nothing to
  /// compute; else null.
  const Step* waited_for() const;

  // The parts, for callers that need only one of them.
  const StreamParts& parts() const { return parts_; }
  Sequencer& sequencer() { return sequencer_; }
  const ChunkTable& chunks() const { return chunks_; }
  ReadAhead& read_ahead() { return read_ahead_; }
  Parallelism& parallelism() { return parallelism_; }
  /// What it wants of which node.
  NodeDemand node_demand() const { return {options_.node, parallelism_.threads()}; }
  PlanLedger& plans() { return plans_; }

  SchedulerStats stats() const;
  /// What the choice of a place to keep samples is told.
  StreamCache::Seen seen() const {
    return {.epoch = sequencer_.stats().epoch,
            .has_jpegs = decodes_.own + decodes_.turbo > 0,
            .stores = parts_.stores ? parts_.stores->figures() : std::vector<StoreFigures>()};
  }

  // ReadClient.
  void read_done(ReadOp& op, const io::ReadCompletion& completion, std::optional<Error> error,
                 Outbox& out) override;
  std::unique_ptr<ReadBatch> give_up(ReadOp& op, const Error& error, Outbox& out) override;
  void note_retry() override { read_ahead_.note_retry(); }
  std::uint32_t reads_wanted() const override { return read_ahead_.flow().reads; }

 private:
  StreamScheduler(std::uint64_t number, StreamParts parts, std::shared_ptr<PlanInUse> plan,
                  ReadBufferPool& pool, const SchedulerOptions& options);

  void begin_work(Outbox& out);
  void prepare_chunk(Step& step);
  void set_tasks(Chunk& chunk, std::uint64_t first_row, std::uint64_t count);
  void look_up(Chunk& chunk);
  bool wants_cache();
  bool may_issue(bool from_cache) const;
  void issue(Chunk& chunk, Outbox& out);
  void make_ready(Chunk& chunk, Outbox& out);
  bool ask_again(RowTask& task, const Error& error);
  void settle_broken(Chunk& chunk);
  void end_chunk(Chunk& chunk);
  void recycle(Chunk& chunk);
  void assign_slots();
  void publish_complete();
  void drop_session();
  // Events for a trace, while trace_on().
  std::uint64_t traced_as() const { return sequencer_.options().traced_as; }
  std::uint64_t traced_step(const Chunk& chunk) const;
  void trace_computed(const Chunk& chunk, const ThreadTime& took);
  void trace_read(const ReadOp& op, const io::ReadCompletion& completion);
  void trace_figures();
  void name_traced();

  bool may_go(const Chunk& chunk, bool with_entries) const;
  void list_distrusted(std::uint64_t worker, std::vector<Chunk*>& again);
  void begin_again(Chunk& chunk, Outbox& out);

  const StreamParts parts_;
  SchedulerOptions options_;  // its on_error may change
  const SlotRows rows_;
  Sequencer sequencer_;
  ChunkTable chunks_;
  ReadAhead read_ahead_;
  Parallelism parallelism_;
  PlanLedger plans_;

  // The chunk whose rows are known and that is issued next, and the bytes of its buffer; null if there is none.
  Chunk* prepared_ = nullptr;
  std::uint64_t prepared_bytes_ = 0;

  std::vector<std::uint64_t> distrusted_;  // workers that are not believed
  std::uint64_t named_in_ = 0;             // the trace that knows the names of records (trace_session())

  std::uint64_t replaced_ = 0, masked_ = 0, remote_chunks_ = 0, remote_bytes_ = 0;
  transforms::DecodePaths decodes_;
};

/// The cost of each order of ops that ran in this stream, the present one last, and the figures of its reads.
PlanProfile measured(StreamScheduler& stream);
/// Whether no chunk of the stream is being read, computed or away.
inline bool is_quiet(StreamScheduler& stream) {
  return stream.chunks().count(ChunkState::kLocal) == 0 && stream.chunks().count(ChunkState::kRemote) == 0 &&
         stream.read_ahead().reads_open() == 0;
}

}  // namespace carya::loader
