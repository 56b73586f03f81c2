#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "autotune/sharing/chunking.h"
#include "autotune/sharing/cores_needed.h"
#include "base/permutation.h"
#include "loader/data/dataset.h"
#include "loader/data/decode_index.h"
#include "loader/plan/stream_planner.h"
#include "loader/stream/chunk.h"
#include "loader/stream/chunk_compute.h"
#include "loader/stream/slot_meta.h"
#include "loader/stream/slot_rows.h"
#include "loader/stream/stream_shape.h"
#include "shm/slot_ring.h"
#include "transforms/plan/plan.h"

namespace carya::loader {

class Crew;
struct PlanCut;
struct RemoteWork;

struct ProductionOptions {
  StreamShape shape;
  std::uint64_t seed = 0;
  std::optional<std::uint64_t> epochs;  ///< how many epochs from 0 the stream has; none: without end
  bool prefetch_epochs = true;          ///< go on into the next epoch while this one drains
  transforms::OnError on_error = transforms::OnError::kRaise;
  std::uint32_t threads = 1;                  ///< chunks of this job computed at the same time
  std::uint64_t read_ahead_bytes = 64 << 20;  ///< of read buffers at most (one chunk is always allowed)
  std::int64_t io_timeout_ns = 10'000'000'000;
  bool label_int32 = false;
  std::shared_ptr<DecodeIndex> index{};      ///< never null
  std::shared_ptr<StreamPlanner> planner{};  ///< never null
  /// For tests: turn to the next of these plans every so many chunks.
  std::vector<std::shared_ptr<PlanInUse>> forced_plans{};
  std::uint64_t forced_every_chunks = 0;
  std::shared_ptr<Crew> crew{};  ///< null: this machine computes all
};

/// Which chunk a crew wants.
struct RemoteWanted {
  std::size_t lead = 0;            ///< so many that are due first and ready are this machine's
  std::size_t batches_before = 0;  ///< so many are taken before its own
  bool or_last = false;            ///< if there is none of those, the last one
  bool addresses = false;          ///< also described for a worker that reads records itself
};

/// What the engine must do after a call: start these reads, wake this many compute threads.
struct Outbox {
  std::vector<ReadOp*> reads;
  std::uint32_t runnable = 0;
};

/// Upper bounds of the classes in which reads are counted, in seconds.
inline constexpr std::array<double, 13> kReadLatencyBoundsS{1e-5, 3e-5, 1e-4, 3e-4, 1e-3, 3e-3, 0.01,
                                                            0.03, 0.1,  0.3,  1,    3,    10};

/// What a thread had for a chunk, waits for a core included, and the CPU time of it.
struct ThreadTime {
  std::int64_t ns = 0, cpu_ns = 0;
};

/// Figures for stats(), under the lock.
struct ProductionStats {
  std::uint64_t batches = 0, samples = 0, bytes_read = 0, reads = 0, read_retries = 0, replaced = 0,
                masked = 0;
  std::uint64_t epoch = 0, position = 0;  ///< after the last published batch
  std::int64_t read_latency_ns = 0;       ///< of all reads
  std::int64_t reading_ns = 0;            ///< in which at least one read was under way
  /// Reads by the first bound that they kept; those past the last are in `reads` only. Stays in the process.
  std::array<std::uint64_t, kReadLatencyBoundsS.size()> reads_within{};
  std::uint64_t buffered_bytes = 0, buffered_bytes_max = 0;
  std::vector<transforms::OpProfile> ops;  ///< stages of all plans that ran, those of one name together
  transforms::DecodePaths decodes;
  std::uint64_t plan_switches = 0;
  std::uint64_t remote_chunks = 0, remote_bytes = 0;  ///< computed elsewhere; sent and received for them
  /// Computed here, and how long threads took for it, waits for a core included: samples as a whole, and the
  /// rest of the ops of samples that came from elsewhere.
  std::uint64_t local_samples = 0, rest_samples = 0;
  std::int64_t local_ns = 0, rest_ns = 0;
  std::int64_t cpu_ns = 0;  ///< of both, without the waits
  autotune::Flow flow{};    ///< as it is now
  std::uint32_t cores = 0;  ///< of its threads that it uses now: those that its reader needs

  /// Mean time of a read, in seconds, and bytes per second while some read was under way; 0: none was.
  double mean_read_s() const {
    return reads == 0 ? 0 : static_cast<double>(read_latency_ns) * 1e-9 / static_cast<double>(reads);
  }
  double read_bytes_per_s() const {
    return reading_ns <= 0 ? 0 : static_cast<double>(bytes_read) * 1e9 / static_cast<double>(reading_ns);
  }
};

/// One job's scheduling state: the sequencer (which chunk is due), the chunks on their way, and publishing in
/// order.
///
/// 1. Steps are begun in stream order and cut into chunks; a chunk's reads are issued when it is begun, ahead
/// of need, within the byte budget.
/// 2. A step gets a FREE slot, in order; a chunk may be computed when its bytes are in memory and its step
/// has a slot.
/// 3. Chunks end in any order; a step whose chunks have all ended is published when every step before it was.
/// 4. A broken row is masked, or computed again from a substitute's bytes, or stops the stream at its step.
/// 5. Lack of memory stops the stream like a row's failure. What moves steps and chunks from list to list
/// needs none: room is made where they are made.
/// 6. A chunk is computed by the plan that is present when a thread takes it, from then on whatever happens
/// to it; set_plan() changes the present one. All plans give the same bits.
/// 7. Of its threads it uses those that the reader's rate needs, by what both were measured to take; all of
/// them while other machines compute too.
/// 8. seek() begins a new session: what an old session has under way ends and is thrown away.
///
/// Threads: everything under the engine's lock, except compute(), which runs without it on a chunk that was
/// taken.
class Production {
 public:
  static std::shared_ptr<Production> create(std::shared_ptr<const transforms::Pipeline> pipeline,
                                            std::shared_ptr<PlanInUse> plan,
                                            std::shared_ptr<const Dataset> dataset,
                                            std::shared_ptr<shm::SlotRing> ring, ReadBufferPool& pool,
                                            const ProductionOptions& options);

  void seek(std::uint64_t epoch, std::uint64_t position);
  void set_on_error(transforms::OnError policy);
  /// Begin what may be begun. Call after anything changed.
  void pump(Outbox& out);
  /// A chunk that may be computed now, earliest due first; it counts as running until finish().
  Chunk* take_runnable();
  ComputeScratch take_scratch();
  /// Compute the chunk's rows into its slot. Without the lock.
  void compute(Chunk& chunk, ComputeScratch& scratch) const;
  /// It took a thread so long.
  void finish(Chunk& chunk, ComputeScratch scratch, const ThreadTime& took, Outbox& out);
  /// A chunk that another machine may compute, up to that cut: the earliest that is as wanted. It counts as
  /// under way until end_remote(). Null: none, or no memory.
  std::unique_ptr<RemoteWork> take_remote(std::shared_ptr<const PlanCut> cut, const RemoteWanted& wanted);
  /// The batch that the trainer is to have next, where only other machines work at it and this one has
  /// nothing to compute; null: there is none.
  const Step* waited_for() const;
  /// What a sample takes a thread of this machine, in ns; 0: not known.
  double local_sample_ns() const {
    return stats_.local_samples == 0
               ? 0
               : static_cast<double>(stats_.local_ns) / static_cast<double>(stats_.local_samples);
  }
  /// It has come back: with all its rows in their places, or to be computed here.
  void end_remote(RemoteWork& work, bool computed, Outbox& out);
  /// Rows of that worker (RemoteWork::worker) in batches that are not published yet are computed again, here;
  /// so is what still comes from it.
  void distrust(std::uint64_t worker, Outbox& out);
  /// The published batches that had rows of a worker, in words; "": none. Those of the last kWentOutMax
  /// epochs of workers are known.
  std::string went_out(std::uint64_t worker) const;
  /// A read ended for good: its bytes are in place, or there is an error without hope.
  void read_done(ReadOp& op, const io::ReadCompletion& completion, std::optional<Error> error, Outbox& out);
  void count_retry() { ++stats_.read_retries; }
  /// Storage does not answer a read: its step fails, and its chunk belongs to the caller, who keeps its
  /// memory until the last of its reads has ended.
  std::unique_ptr<Chunk> give_up(ReadOp& op, const Error& error, Outbox& out);
  /// When storage last answered a read of this job, whatever it said.
  void note_answer(std::int64_t now_ns) { answered_ns_ = now_ns; }
  std::int64_t answered_ns() const { return answered_ns_; }
  /// A thread found nothing to compute while reads were under way: read further ahead.
  void note_starved();
  /// Chunks taken from now on are computed by this plan. May throw std::bad_alloc.
  void set_plan(std::shared_ptr<PlanInUse> plan);
  /// What each order of ops that ran in this stream cost, the present one last; and what its reads were like.
  PlanProfile measured() const;
  /// Of the present plan.
  const std::vector<std::size_t>& order() const { return plan_->profile.order; }
  /// Whether the planner wants to look; true once until it did.
  bool ask_plan() { return options_.planner->ask(plan_->profile.timed_samples()); }
  /// Begin nothing any more.
  void stop();
  /// Begin nothing until the next seek(): nobody reads.
  void pause() { paused_ = true; }
  void resume() { paused_ = false; }
  void set_read_ahead(std::uint64_t bytes) { options_.read_ahead_bytes = bytes; }
  /// Chunks computed at the same time from now on. May throw std::bad_alloc.
  void set_threads(std::uint32_t threads);
  /// Other streams have a claim on the cores too: no more than so many chunks at a time, from now on.
  void set_share(std::uint32_t threads) { share_ = threads; }
  /// So many threads elsewhere compute chunks too: read ahead for them.
  void set_remote_threads(std::uint32_t threads);
  /// Samples of this rank behind the last published batch; 0: without end.
  double samples_left() const;

  /// No other production of this process ever has it.
  std::uint64_t number() const { return number_; }
  std::uint64_t session() const { return session_; }
  std::uint32_t running() const { return running_; }
  std::uint32_t reads_open() const { return reads_open_; }
  const autotune::Flow& flow() const { return flow_; }
  /// As they were when the reader gave its last batch back, at taken_at_ns(): between two of those lie whole
  /// steps.
  const autotune::StreamTotals& totals() const { return totals_; }
  std::int64_t taken_at_ns() const { return taken_at_ns_; }
  /// Chunks that may be computed at the same time now.
  std::uint32_t cores() const { return std::min(share_, options_.crew ? options_.threads : cores_.cores()); }
  /// What its claim on the cores rests on, where all is computed here.
  autotune::PlacementFacts facts() const { return cores_.facts(); }
  std::uint32_t remote() const { return remote_; }
  bool quiet() const { return running_ == 0 && reads_open_ == 0 && remote_ == 0; }
  const ProductionOptions& options() const { return options_; }
  const std::shared_ptr<const Dataset>& dataset() const { return dataset_; }
  const std::shared_ptr<DecodeIndex>& index() const { return options_.index; }
  const std::shared_ptr<shm::SlotRing>& ring() const { return ring_; }
  const std::shared_ptr<StreamPlanner>& planner() const { return options_.planner; }
  const std::shared_ptr<Crew>& crew() const { return options_.crew; }
  ProductionStats stats() const;
  /// The sequence that the batch which begins at this place was published under in this session, or will be
  /// as the next one. None when the stream went past it long ago, is not there yet, or has failed: then only
  /// seek() goes there.
  std::optional<std::uint64_t> sequence_at(std::uint64_t epoch, std::uint64_t position) const;

  /// Quarantine entries and failures of published steps, by sequence; the reader takes them on delivery.
  std::map<std::uint64_t, std::vector<Failure>>& published_quarantine() { return published_quarantine_; }
  /// What was found broken in batches before that sequence: nobody will be given them.
  void forget_found(std::uint64_t before_sequence) {
    published_quarantine_.erase(published_quarantine_.begin(),
                                published_quarantine_.lower_bound(before_sequence));
  }
  std::optional<Failure> failure;  ///< that stopped this session

 private:
  Production() = default;

  bool begin_step();
  void begin_work(Outbox& out);
  void stop_exhausted();
  std::unique_ptr<Step> take_step();
  void prepare_chunk(Step& step);
  Chunk& take_chunk(Step& step, std::uint64_t rows);
  void set_tasks(Chunk& chunk, std::uint64_t first_row, std::uint64_t count);
  bool may_issue() const;
  void issue(Chunk& chunk, Outbox& out);
  bool place_inputs(Chunk& chunk);
  void make_ready(Chunk& chunk, Outbox& out);
  void end_reads(std::uint32_t count);
  std::int64_t reading_ns() const;
  std::uint64_t record_at(std::uint64_t epoch, std::uint64_t position);
  bool ask_again(RowTask& task, const Error& error);
  void settle_broken(Chunk& chunk);
  bool may_go(const Chunk& chunk, bool with_entries) const;
  void describe(RemoteWork& work, bool with_entries, bool with_addresses) const;
  void place_results(RemoteWork& work);
  bool place_received(RemoteWork& work);
  void list_distrusted(std::uint64_t worker, std::vector<Chunk*>& again);
  void begin_again(Chunk& chunk, Outbox& out);
  void fail_step(Step& step, const RowTask& task, const Error& error);
  void give_plan(Chunk& chunk);
  void begin_flow();
  void adjust_flow();
  void look_at_cores();
  void end_chunk(Chunk& chunk);
  void leave_step(Step& step);
  void recycle(Chunk& chunk);
  void assign_slots();
  std::optional<std::uint32_t> take_slot();
  void publish_complete();
  void publish(Step& step);
  void drop_session();
  void bury(std::unique_ptr<Step> step);

  std::uint64_t number_ = 0;
  ProductionOptions options_;
  std::shared_ptr<const transforms::Pipeline> pipeline_;
  std::shared_ptr<PlanInUse> plan_;                // the present one
  std::vector<std::shared_ptr<PlanInUse>> plans_;  // all that ran, each order once
  std::uint64_t taken_ = 0;                        // chunks that were given a plan
  std::shared_ptr<const Dataset> dataset_;
  std::shared_ptr<shm::SlotRing> ring_;
  std::optional<SlotRows> rows_;  // of the ring; always there
  ReadBufferPool* pool_ = nullptr;
  bool has_reads_ = false;  // some field comes from storage

  // Where the stream is: the next step begins at (epoch_, position_).
  std::uint64_t session_ = 1;
  std::uint64_t epoch_ = 0;
  std::uint64_t position_ = 0;
  std::optional<Permutation> permutation_;  // of permutation_epoch_, when shuffled
  std::uint64_t permutation_epoch_ = 0;
  bool stopped_ = false;
  bool paused_ = false;

  // Steps in stream order, all of this session; the first slotted_ of them have slots.
  std::deque<std::unique_ptr<Step>> steps_;
  std::size_t slotted_ = 0;
  std::vector<std::unique_ptr<Step>> buried_;  // dropped, until their chunks have ended
  std::vector<std::unique_ptr<Step>> free_steps_;
  std::uint64_t sequence_ = 0;  // of the last published slot
  struct Place {
    std::uint64_t sequence = 0, epoch = 0, position = 0;
  };
  Place next_place() const;
  std::vector<Place> places_;   // where batches began: as many of the last ones as there are slots
  bool mixed_ = false;          // made under more than one policy since the last seek()
  std::size_t steps_made_ = 0;  // as many have room on every list, so that moving one never fails
  bool failing_ = false;        // some step has failed: begin nothing after it
  bool exhausted_ = false;      // no memory for the step after these

  // Chunks: prepared (tasks known), then reading, then ready (bytes in memory), then running.
  std::vector<std::unique_ptr<Chunk>> chunks_;  // all that exist
  std::vector<Chunk*> free_chunks_;
  Chunk* prepared_ = nullptr;
  std::uint64_t prepared_bytes_ = 0;
  std::vector<Chunk*> ready_;
  std::uint64_t order_ = 0;
  std::uint32_t running_ = 0;
  std::uint32_t remote_ = 0;  // chunks that other machines have
  std::uint32_t remote_threads_ = 0;
  std::vector<std::uint64_t> distrusted_;  // workers
  /// Batches of one epoch that were published with rows of one worker.
  struct WentOut {
    std::uint64_t worker = 0, epoch = 0, first = 0, last = 0, batches = 0;
  };
  static constexpr std::size_t kWentOutMax = 64;
  void note_went_out(const Step& step);
  std::array<WentOut, kWentOutMax> went_out_{};  // the oldest is written over
  std::size_t went_out_next_ = 0;
  std::uint32_t reading_ = 0;  // chunks with reads open
  std::uint32_t reads_open_ = 0;
  std::int64_t reading_since_ns_ = 0;  // while reads_open_ > 0
  std::int64_t answered_ns_ = 0;
  autotune::FlowFacts flow_facts_;  // what of them stays the same
  autotune::Flow flow_;             // reads further ahead when threads starve
  std::uint64_t flow_samples_ = 0;  // timed ones of the present plan when flow_ was looked at last
  std::uint64_t next_growth_ = 0;   // order at which threads may starve again
  autotune::CoresNeeded cores_{1};
  std::uint32_t share_ = UINT32_MAX;  // of the cores, beside other streams
  autotune::StreamTotals totals_;     // what the reader waited: as of taken_at_ns_
  std::int64_t taken_at_ns_ = 0;
  std::vector<ComputeScratch> scratches_;

  std::map<std::uint64_t, std::vector<Failure>> published_quarantine_;
  ProductionStats stats_;  // without ops
};

}  // namespace carya::loader
