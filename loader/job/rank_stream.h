#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "autotune/sharing/sharing.h"
#include "loader/engine/engine.h"
#include "loader/job/job_options.h"
#include "loader/job/producer.h"
#include "loader/read/shared_budget.h"
#include "loader/stream/stream_shape.h"
#include "transforms/plan/plan.h"

namespace carya::loader {

class Overflow;

/// What a rank's stream may take beside what its options say.
struct RankLimits {
  std::uint32_t readers = 1;  ///< attached to its slots at the same time; several may not write them
  std::shared_ptr<SharedBudget> budget{};  ///< that its slots come out of; null: no other limit than memory
  std::uint32_t cores = 0;                 ///< for all streams of this process together; 0: auto_threads()
};

/// One rank's stream, made in this process: its production, its slots, its decode index.
/// Threads: as Producer says. In a forked child nothing may be called, and destruction leaves everything
/// alone.
class RankStream : public Producer {
 public:
  /// `readers` may be attached to the ring at the same time. Nothing is produced before start().
  /// Errors: kInvalidArgument (shape of the stream, options), kExhausted (slots), those of the plan and the
  /// engine.
  static Result<std::shared_ptr<RankStream>> create(std::shared_ptr<const transforms::Pipeline> pipeline,
                                                    std::shared_ptr<const Dataset> dataset,
                                                    const JobOptions& options, const RankLimits& limits = {});
  ~RankStream() override;

  /// Nobody reads: begin nothing new, until resume() or the next seek().
  void pause();
  /// All readers are here: nothing is kept for others, and what pause() stopped goes on.
  void resume();
  /// As seek(), but begin nothing before resume(); what was kept is dropped.
  std::uint64_t place(std::uint64_t epoch, std::uint64_t position);
  /// Begin to produce at the options' place. Errors: kExhausted (threads, descriptors).
  Status start();
  std::uint64_t session() const;
  Result<std::uint64_t> seek(std::uint64_t epoch, std::uint64_t position) override;
  Result<bool> set_on_error(transforms::OnError policy) override;
  Result<Found> take_found(std::uint64_t sequence) override;
  Result<ProducerStats> stats() const override;
  /// The same without what takes a look at files or at the entries of the decode index: those, profile and
  /// pressure.
  ProducerStats figures() const;
  /// Overflow::report(); "": this machine computes all.
  std::string placement() const;
  /// "io_uring", or "pread (io_uring: why not)".
  std::string io_name() const { return engine_->io_name(); }
  Status check() override { return {}; }
  void note_demand(double per_s) override { planner_->note_demand(per_s); }
  void close() override;

  // The ring's readers, under the engine's lock.
  /// It gets the batches from that sequence on. Errors: as SlotRing::attach_reader() says.
  Result<std::uint32_t> attach_reader(std::uint64_t from_sequence = UINT64_MAX);
  /// Which sequence the batch at this place has; none when only seek() goes there.
  std::optional<std::uint64_t> sequence_at(std::uint64_t epoch, std::uint64_t position) const;
  /// It takes no more; what it took is not rewritten before it is released.
  void retire_reader(std::uint32_t reader, const std::string& reason);
  /// The last reader has ended: pause(), and keep what is ready and what is under way for a successor.
  void linger(std::uint32_t reader, const std::string& reason);
  /// A successor goes on at that sequence: go on behind what is kept, and keep it until resume().
  void take_up(std::uint64_t from_sequence);
  /// Whether a retired reader holds nothing any more.
  bool is_done(std::uint32_t reader);
  void detach_reader(std::uint32_t reader, const std::string& reason);
  /// Why a reader was detached, "" while it is attached.
  std::string detach_reason(std::uint32_t reader) const;
  std::uint32_t held_by(std::uint32_t reader) const;
  std::uint64_t waited_ns(std::uint32_t reader) const;
  shm::SlotRing::ReaderFds reader_fds(std::uint32_t reader) const;

  const StreamShape& shape() const { return shape_; }
  std::uint64_t seed() const { return seed_; }
  std::uint32_t threads() const { return threads_; }
  /// What of its read-ahead and of its slots it may use from now on: shares in (0, 1].
  void set_memory_share(double read_ahead, double slots);
  /// The machine has more or fewer cores for us now, for all streams together. Errors: kExhausted (threads,
  /// memory).
  Status set_threads(std::uint32_t threads);
  /// The same of a stream that keeps its number of threads. Errors: kExhausted (threads).
  Status set_cores(std::uint32_t cores) { return engine_->set_cores(cores); }
  /// What it does with cores, and with workers where it may have some; the prices are the caller's to fill
  /// in.
  autotune::Claim claim() const;
  /// How many workers it knows, if they are those that are named there; else 0.
  std::uint32_t workers_of(const RemoteOptions& host) const;
  /// Beside other streams no more than so many of its threads from now on, UINT32_MAX: all, and of its
  /// workers, 0: all.
  void set_share(std::uint32_t threads, std::uint32_t workers);
  std::uint32_t share() const { return share_; }
  std::uint32_t slots() const { return ring_->slots(); }
  std::uint64_t ring_bytes() const { return ring_->slots() * ring_->layout().slot_bytes(); }
  const shm::SlotLayout& layout() const { return ring_->layout(); }

 private:
  RankStream() = default;
  std::vector<std::string> order_names(const std::vector<std::size_t>& order) const;
  Status open_ring(const transforms::Plan& plan, const JobOptions& options, const RankLimits& limits);
  PlanProfile measured() const;
  bool forked() const { return engine_ && engine_->forked(); }
  void pump();

  std::shared_ptr<Engine> engine_;
  std::unique_ptr<Overflow> overflow_;  // null: this machine computes all
  std::shared_ptr<Production> production_;
  std::shared_ptr<DecodeIndex> index_;
  SharedBudget::Part ring_part_;  // of the budget; outlives what it is for
  std::shared_ptr<shm::SlotRing> ring_;
  StreamShape shape_;
  std::shared_ptr<const transforms::Pipeline> pipeline_;
  std::shared_ptr<StreamPlanner> planner_;
  std::uint64_t seed_ = 0;
  std::uint64_t read_ahead_bytes_ = 0;
  std::uint32_t cores_ = 1;  // of this process, when it was made
  std::atomic<std::uint32_t> threads_{1};
  std::atomic<std::uint32_t> share_{UINT32_MAX};
  bool started_ = false;
  std::atomic<bool> closed_{false};
};

}  // namespace carya::loader
