#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/permutation.h"
#include "loader/stream/executor.h"
#include "loader/stream/slot_meta.h"
#include "loader/stream/stream_scheduler.h"
#include "tests/loader/model_plan.h"
#include "tests/loader/model_ring.h"

namespace carya::loader {

/// The chunk that a read is for.
inline Chunk& chunk_of(const ReadOp& op) {
  return *static_cast<ChunkReads&>(*op.batch).chunk;
}

/// A plain account of what a stream's scheduling must do, kept beside it from what it was told and from what
/// it said.
///
/// Functions in the past tense are called before the scheduler is told the same, since it may publish
/// while it is told; those that take what it gave are called after. Each throws Violation when something is
/// not as it must be. Where memory was short in a session (note_short()), a failure may come anywhere in it;
/// bits, order and counters must be right all the same.
/// Threads: owner only.
class StreamAccount {
 public:
  struct Options {
    StreamShape shape;
    std::uint64_t seed = 0;
    std::optional<std::uint64_t> epochs{};
    bool prefetch_epochs = true;
    bool shuffled = true;
    bool has_reads = true;
    bool sees_all = true;     ///< each chunk has a read, so that none is begun unseen
    bool has_memory = true;   ///< the pool of read buffers never refuses
    bool may_repeat = false;  ///< reads of files that changed are tried again
    bool label_int32 = false;
    std::uint64_t read_ahead_bytes = 0;
    std::uint32_t threads = 1;
    transforms::OnError on_error = transforms::OnError::kRaise;
  };
  StreamAccount(const Options& options, ModelRecords& records, ModelRing& ring);
  void watch(StreamScheduler& scheduler) { scheduler_ = &scheduler; }

  Options options;  ///< as they are now
  bool paused = false;
  std::shared_ptr<PlanInUse> plan;  ///< the present one

  // What the scheduler is about to be told.
  void seek(std::uint64_t epoch, std::uint64_t position);
  void stopped() { drop(), stopped_ = true; }
  void policy_set(transforms::OnError policy) {
    mixed_ = mixed_ || options.on_error != policy;
    options.on_error = policy;
  }
  void read_ended(const ReadOp& op, const io::ReadCompletion& completion, const Error* error);
  void given_up(const ReadOp& op);
  void finished(const Chunk& chunk);
  void remote_ended(const ChunkWork& work, bool computed, bool lied);
  void distrusted(std::uint64_t worker);
  /// An allocation of the present call failed, or of one before it in this session.
  bool is_short() const { return short_ || ShortMemoryHere::failed(); }
  void note_short() { short_ = counts_ = true; }

  // What it gave.
  /// What came of a worker had no room: its chunk has ended.
  void lost_for_memory(const Chunk& chunk);
  void collect(std::vector<ReadOp*>& reads);
  void taken(Chunk* chunk);
  void computed(const Chunk& chunk);
  void taken_remote(const ChunkWork* work, const ChunkWanted& wanted, bool was_short);
  void pumped() const;
  void waited_for(const Step* step) const;
  /// All that must hold between any two calls; `thorough` also what takes longer to compare.
  void verify(bool thorough) const;
  void check_place(std::uint64_t epoch, std::uint64_t position) const;
  void check_went_out(std::uint64_t worker) const;

  const std::vector<ReadOp*>& open_reads() const { return open_; }
  std::uint64_t batches() const { return batches_; }
  std::uint64_t sequence() const { return sequence_; }
  bool failed() const { return failed_; }
  /// Whether the stream has a batch to come, once the world has answered.
  bool goes_on();
  /// Of the session, the place behind the last published batch, for seeks nearby.
  std::pair<std::uint64_t, std::uint64_t> place() const;
  bool is_distrusted(std::uint64_t worker) const { return distrusted_.contains(worker); }
  /// Whether the rows that the work is of can be computed by an honest worker.
  bool can_compute(const ChunkWork& work) const;

 private:
  struct Row {
    enum class At : std::uint8_t { kUntouched, kInChunk, kDone } at = At::kUntouched;
    std::uint64_t record = 0, occurrence = 0, worker = 0;
    bool masked = false, lie = false, again = false;
  };
  struct Entry {
    std::uint64_t position, record;
    std::int64_t substitute;
  };
  struct Stop {
    std::uint64_t row, record;
    Code code;
  };
  struct Batch {
    std::uint64_t number = 0, epoch = 0, index = 0, position = 0, position_after = 0;
    bool last = false, dropped = false;
    RankPart part;
    std::vector<Row> rows;
    std::size_t rows_done = 0, chunks = 0;
    std::vector<Entry> entries;
    std::optional<Stop> stop;
  };
  struct Task {
    std::uint64_t row, record, occurrence;
    std::uint32_t draws;
  };
  struct Piece {
    enum class State : std::uint8_t { kReading, kReady, kLocal, kRemote } state = State::kReading;
    std::shared_ptr<Batch> batch;
    std::vector<Task> tasks;
    std::uint64_t order = 0;
    std::size_t unissued = 0, open = 0;
    std::optional<std::pair<std::size_t, Code>> read_error;
    std::uint64_t buffer = 0;
    const std::byte* placed_to = nullptr;
    const PlanInUse* plan = nullptr;
    bool doubtful = false;  // ready, or ended for lack of memory
    bool rest = false, came_back = false, distrusted = false, lie = false;
    std::uint64_t worker = 0, first = 0, count = 0;
    std::vector<ModelRecords::Ran> ran;
  };
  using Pieces = std::map<const Chunk*, Piece>;

  bool is_readable(std::uint64_t record) const;
  std::uint64_t room(std::uint64_t record) const;
  bool begin_batch();
  std::shared_ptr<Batch> find_batch(const Step& step);
  bool has_slot(const Piece& piece) const { return piece.batch->number < acquired_.size(); }
  Piece& known(const Chunk& chunk);
  Piece& adopt(const Chunk& chunk, bool by_reads);
  void compare_tasks(const Chunk& chunk, const Piece& piece) const;
  void expect_reads(Piece& piece);
  void collect_one(ReadOp& op);
  void stop_at(Batch& batch, const Stop& stop);
  void row_done(Piece& piece, const Task& task, bool masked, bool lie);
  void settle(Piece& piece, const Task& task, Code code, std::vector<Task>& again);
  void begin_again(Piece& piece);
  void forget_entries(Batch& batch, std::uint64_t first, std::uint64_t count) const;
  void end(const Chunk& chunk);
  void drop();
  std::size_t count(Piece::State state) const;
  std::uint64_t ahead_bytes() const;
  const Piece* first_ready() const;
  bool is_fresh(const Piece& piece) const;
  bool is_late_enough(const Piece& piece, std::size_t batches_before) const;
  void published(std::uint32_t slot, std::uint64_t sequence, const shm::Meta& meta);
  void published_failure(const Batch& batch) const;
  void published_batch(const Batch& batch, const std::byte* data);
  void compare_row(const Row& row, std::uint64_t index, std::uint64_t epoch, const std::byte* data) const;
  void compare_entries(const Batch& batch, std::uint64_t sequence) const;
  std::uint32_t filling() const;

  ModelRecords& records_;
  ModelRing& ring_;
  StreamScheduler* scheduler_ = nullptr;

  std::uint64_t session_ = 1, epoch_ = 0, position_ = 0;
  std::uint64_t begun_ = 0, published_ = 0;    // batches of this session
  std::deque<std::shared_ptr<Batch>> coming_;  // of this session, not published
  std::vector<std::uint32_t> acquired_;        // slots, in this session
  bool failing_ = false, failed_ = false, mixed_ = false, stopped_ = false;
  bool short_ = false;   // of memory, in this session
  bool counts_ = false;  // memory was short once: figures of broken rows are not known
  struct Place {
    std::uint64_t sequence, epoch, position;
  };
  std::vector<Place> places_;

  Pieces pieces_;
  std::vector<const Chunk*> expecting_;  // reads, by the end of the call
  std::vector<ReadOp*> open_;
  std::uint64_t buffered_ = 0;
  std::set<std::uint64_t> distrusted_;
  std::set<std::pair<std::uint64_t, std::uint64_t>> went_out_;  // worker, epoch

  std::uint64_t sequence_ = 0, batches_ = 0, samples_ = 0, reads_ = 0, bytes_read_ = 0, masked_ = 0,
                replaced_ = 0, computed_ = 0, remote_chunks_ = 0;
  std::optional<Permutation> permutation_;
  std::uint64_t permutation_epoch_ = 0;
};

}  // namespace carya::loader
