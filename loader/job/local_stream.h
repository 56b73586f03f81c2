#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "autotune/sharing/sharing.h"
#include "loader/cache/write_budget.h"
#include "loader/engine/engine.h"
#include "loader/job/job_options.h"
#include "loader/job/stream.h"
#include "loader/overflow/stream_control.h"
#include "loader/read/shared_budget.h"
#include "loader/stream/stream_shape.h"
#include "transforms/plan/plan.h"

namespace carya::remote {
struct WorkerStats;
}

namespace carya::loader {

class PlacementLoop;

/// Limits of a rank's stream beside those of its options.
struct RankLimits {
  std::uint32_t readers = 1;  ///< readers attached at the same time; several of them may not write the slots
  std::shared_ptr<SharedBudget>
      budget{};  ///< the budget that pays for the slots; null: memory is the only limit
  /// The budget that pays for samples that are kept; null: memory is the only limit. Where it has less left than the
  /// options ask for, that is what the stream gets.
  std::shared_ptr<SharedBudget> cache_budget{};
  std::shared_ptr<WriteBudget> write_budget{};  ///< allows what is written of them to files; null: all is
  std::vector<std::string> bounded{};           ///< StreamCacheOptions::bounded
  /// How the stores of the dataset are asked; null: as this process does.
  std::shared_ptr<io::StoreAccess> access{};
  std::uint32_t cores = 0;  ///< cores for all streams of this process; 0: auto_threads()
  /// OverflowStream::workers_of_host of JobOptions::remote.
  bool workers_of_host = false;
  std::uint64_t job =
      0;  ///< streams of one job share the part that its weight gives; 0: it is a job of its own
};

/// Parts that a stream is given. The stream makes those that it is not given.
struct GivenParts {
  std::shared_ptr<StreamPlanner> planner{};
  std::shared_ptr<Executor> executor{};  ///< computes chunks elsewhere; not beside JobOptions::remote
  PlanChooser plan_chooser{};            ///< chooses each chunk's plan
};

/// Options of the planner that a stream makes itself.
StreamPlannerOptions planner_options(const JobOptions& options, std::uint64_t seed);

/// One rank's stream, made in this process: its scheduler, its slots, its decode index.
/// Threads: as Stream says. A forked child must call nothing; destruction in a child leaves everything alone.
class LocalStream : public Stream, private StreamControl {
 public:
  /// Make a stream that produces nothing before start(). Errors: kInvalidArgument (shape of the stream, options),
  /// kExhausted (slots), those of the plan and the engine.
  static Result<std::shared_ptr<LocalStream>> create(std::shared_ptr<const transforms::Pipeline> pipeline,
                                                     std::shared_ptr<const Dataset> dataset,
                                                     const JobOptions& options, const RankLimits& limits = {},
                                                     GivenParts given = {});
  ~LocalStream() override;

  /// Begin nothing new until resume() or the next seek(), since nobody reads.
  void pause();
  /// Go on after pause(). All readers are here, so that nothing is kept for others any more.
  void resume();
  /// Seek, but begin nothing before resume(). Batches that were kept are dropped. Returns the session.
  std::uint64_t place(std::uint64_t epoch, std::uint64_t position);
  /// Begin to produce at the place that the options say. Errors: kExhausted (threads, descriptors).
  Status start();
  std::uint64_t session() const;
  Result<std::uint64_t> seek(std::uint64_t epoch, std::uint64_t position) override;
  Result<bool> set_on_error(transforms::OnError policy) override;
  Result<DeliveredErrors> take_errors(std::uint64_t sequence) override;
  /// The entries of the batches behind one sequence and up to another one, for one of several readers. Those up to
  /// `forget` are forgotten, since every reader has them.
  DeliveredErrors errors(std::uint64_t behind, std::uint64_t up_to, std::uint64_t forget);
  Result<StreamStats> stats() const override;
  /// The part of stats() that looks at no file: all but the decode index, the profile and the pressure.
  StreamStats figures() const;
  /// Statistics of all workers that the stream may use.
  std::vector<remote::WorkerStats> workers() const;
  /// PlacementReport as JSON; "": this machine computes everything.
  std::string placement() const;
  /// StreamCache::report(); "": no samples are kept.
  std::string cache() const;
  /// "io_uring", or "pread (io_uring: why not)".
  std::string io_name() const { return engine_->io_name(); }
  /// The stream in a trace.
  std::uint64_t traced_as() const { return scheduler_->sequencer().options().traced_as; }
  Status check() override { return {}; }
  void note_demand(double per_s) override { planner_->note_demand(per_s); }
  void close() override;

  // Readers of the ring. These take the engine's lock.
  /// Attach a reader that gets the batches from that sequence on. Errors: as SlotRing::attach_reader() says.
  Result<std::uint32_t> attach_reader(std::uint64_t from_sequence = UINT64_MAX);
  /// The sequence of the batch at this place; none if only seek() can go there.
  std::optional<std::uint64_t> sequence_at(std::uint64_t epoch, std::uint64_t position) const;
  /// Deliver nothing more to the reader. Slots that it took are not rewritten before it releases them.
  void retire_reader(std::uint32_t reader, const std::string& reason);
  /// The last reader has ended: pause, and keep the batches that are ready or under way for a successor.
  void linger(std::uint32_t reader, const std::string& reason);
  /// A successor goes on at that sequence: produce behind the batches that are kept, and keep those until resume().
  void take_up(std::uint64_t from_sequence);
  /// Whether a retired reader holds nothing any more.
  bool is_done(std::uint32_t reader);
  void detach_reader(std::uint32_t reader, const std::string& reason);
  /// Why the reader was detached; "" while it is attached.
  std::string detach_reason(std::uint32_t reader) const;
  std::uint32_t held_by(std::uint32_t reader) const;
  /// The number of slots that were delivered to the reader and that it has not released.
  std::uint32_t owed_by(std::uint32_t reader);
  /// The number of slots that readers hold which were retired, each counted once.
  std::uint32_t held_by_retired();
  std::uint64_t waited_ns(std::uint32_t reader) const;
  shm::SlotRing::ReaderFds reader_fds(std::uint32_t reader) const;

  const StreamShape& shape() const { return shape_; }
  std::uint64_t seed() const { return seed_; }
  std::uint32_t threads() const { return threads_; }
  /// Set the shares of its read-ahead and of its slots that the stream may use from now on, each in (0, 1].
  void set_memory_share(double read_ahead, double slots);
  /// Compute with `threads` threads from now on, which is the number of cores that all streams of the process share.
  /// Errors: kExhausted (threads, memory).
  Status set_threads(std::uint32_t threads);
  /// All streams of the process share `cores` from now on; this one keeps its number of threads. Errors: kExhausted
  /// (threads).
  Status set_cores(std::uint32_t cores) { return engine_->set_cores(cores); }
  /// What the stream does with cores, and with workers if it may have some. The caller fills in the prices.
  autotune::Claim claim() const;
  /// The number of workers that the stream knows, if they are those that `host` names; else 0.
  std::uint32_t workers_of(const RemoteOptions& host) const;
  /// Use at most `threads` of its threads (UINT32_MAX: all) and `workers` of its workers (0: all) from now on, since
  /// other streams have the rest.
  void set_share(std::uint32_t threads, std::uint32_t workers);
  /// Never use more than `workers` workers.
  void set_workers_allowed(std::uint32_t workers);
  /// PlacementLoop::set_weight().
  void set_worker_weight(double weight);
  /// Whether the stream may have workers.
  bool may_have_workers() const { return placement_ != nullptr; }
  std::uint32_t share() const { return share_; }
  std::uint32_t slots() const { return ring_->slots(); }
  std::uint64_t ring_bytes() const { return ring_->slots() * ring_->layout().slot_bytes(); }
  const shm::SlotLayout& layout() const { return ring_->layout(); }

 private:
  LocalStream() = default;
  std::vector<std::string> order_names(const std::vector<std::size_t>& order) const;
  Status open_cache(const std::shared_ptr<const Dataset>& dataset, const JobOptions& options,
                    const RankLimits& limits, const PlanInUse& plan);
  Status open_ring(const transforms::Plan& plan, const JobOptions& options, const RankLimits& limits);
  PlanProfile measured() const;
  // StreamControl, for the placement loop.
  StreamSnapshot observe() const override;
  void set_parallelism(std::optional<std::uint32_t> threads, std::uint32_t remote_threads) override;
  const Dataset& dataset() const override;
  bool forked() const { return engine_ && engine_->forked(); }
  void pump();
  /// Take in what readers released. That silences the bell which would have told the engine, so the engine is told here.
  void collect();

  std::shared_ptr<Engine> engine_;
  std::unique_ptr<PlacementLoop> placement_;  // null: this machine computes all
  std::shared_ptr<StreamScheduler> scheduler_;
  std::shared_ptr<DecodeIndex> index_;
  std::shared_ptr<const StoreSources> stores_;  // null: no record is behind a URL
  std::shared_ptr<StreamCache> cache_;          // null: no samples are kept
  std::shared_ptr<CachedReads> cached_reads_;   // null: there is nothing to be read this way
  SharedBudget::Part ring_part_;                // of the budget; outlives what it is for
  std::shared_ptr<shm::SlotRing> ring_;
  StreamShape shape_;
  std::shared_ptr<const transforms::Pipeline> pipeline_;
  std::shared_ptr<StreamPlanner> planner_;
  std::uint64_t seed_ = 0;
  std::uint64_t read_ahead_bytes_ = 0;
  std::uint32_t cores_ = 1;  // of this process, when it was made
  Turn turn_;
  std::int32_t node_ = kNoNode;  // where its slots are
  std::atomic<std::uint32_t> threads_{1};
  std::atomic<std::uint32_t> share_{UINT32_MAX};
  bool started_ = false;
  std::atomic<bool> closed_{false};
};

}  // namespace carya::loader
