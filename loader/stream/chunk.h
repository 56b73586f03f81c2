#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "loader/cache/cache_shelf.h"
#include "loader/cache/kept_files.h"
#include "loader/data/record_error.h"
#include "loader/read/read_buffer.h"
#include "loader/read/read_client.h"
#include "loader/stream/stream_shape.h"

namespace carya::loader {

struct Chunk;
struct KeptPlace;
struct PlanInUse;

/// One row of a batch that is still to be computed, from its own record or from a substitute.
struct RowTask {
  std::uint64_t row = 0;         ///< the index in this rank's batch
  std::uint64_t position = 0;    ///< the position in the epoch
  std::uint64_t record = 0;      ///< the record that is read now
  std::uint64_t occurrence = 0;  ///< of a substitute 1 + position; else 0, or of a DrawnOrder
  std::uint32_t draws = 0;       ///< substitutes drawn so far
  std::int64_t changed_ns = 0;   ///< when its file was first found changed; 0: it was not
  std::int64_t due_ns = 0;       ///< the row is not read earlier
};

/// The rows of a chunk that another machine computed.
struct Delivered {
  std::uint64_t worker = 0;  ///< ChunkWork::worker; 0: no rows
  std::uint64_t order = 0;   ///< Chunk::order
  std::uint64_t row = 0;     ///< the first row
  std::uint64_t count = 0;
};

/// One batch of this rank, from its beginning until it is published.
struct Step {
  bool dropped = false;      ///< its session is over: what is under way ends and is dropped
  std::uint64_t number = 0;  ///< counted in its session
  std::uint64_t epoch = 0;
  std::uint64_t index = 0;     ///< the index of the step in its epoch
  std::uint64_t position = 0;  ///< the first position, over all ranks
  std::uint64_t position_after = 0;
  bool last = false;  ///< whether it is the last step of its epoch
  RankPart part;
  std::uint64_t rows_issued = 0;  ///< rows of the chunks begun so far
  std::uint32_t chunks_open = 0;  ///< chunks that were begun and have not ended
  std::optional<std::uint32_t> slot;
  bool unread_slot = false;            ///< no reader has given the slot back: it never had one
  std::int64_t slotted_ns = 0;         ///< when it got the slot; 0: it was not traced then
  std::optional<RecordError> failure;  ///< of the lowest row that failed; the stream stops here
  std::uint64_t failure_row = 0;
  std::vector<RecordError> quarantined;  ///< readers get them with the batch
  std::vector<Delivered> delivered;      ///< for the chunks that have ended

  /// Whether all its rows are in place. A step that failed needs no rows behind the failure.
  bool complete() const { return (failure || rows_issued == part.count) && chunks_open == 0; }
};

/// The state of a chunk. ChunkTable::move() makes every change; chunk_table.cc lists the changes that exist.
enum class ChunkState : std::uint8_t {
  kFree,      ///< has no rows, and waits to be used
  kPrepared,  ///< its rows are known; its reads have not begun
  kReading,   ///< its reads are under way
  kReady,     ///< its inputs are in memory; it is computed when its step has a slot
  kLocal,     ///< a thread of this machine computes it
  kRemote,    ///< another machine computes it
};
inline constexpr std::size_t kChunkStates = 6;

/// A sample that comes from files: where it is, and where in the chunk's buffer it comes to.
struct ChunkFetch {
  FoundSample sample{};
  std::span<std::byte> bytes{};
};

/// The reads of one chunk.
struct ChunkReads final : ReadBatch {
  Chunk* chunk = nullptr;
};

/// Orders chunks by the time at which they are due, earliest first.
struct DueFirst {
  bool operator()(const Chunk* one, const Chunk* other) const;
};
using ChunksByDue = std::set<Chunk*, DueFirst>;

/// A contiguous run of rows of one step: the unit of scheduling. It may be computed again, with the same bits.
struct Chunk {
  Step* step = nullptr;             ///< null while the chunk is free
  std::shared_ptr<PlanInUse> plan;  ///< the plan that computes it and its substitutes; null: not begun
  std::uint64_t order = 0;          ///< the order of issue; the lower one is due earlier
  std::vector<RowTask> tasks;
  std::vector<std::pair<std::size_t, Error>> broken;  ///< (task, why) of the rows that could not be computed
  std::vector<std::span<const std::byte>> inputs;     ///< one for each task and field, field fastest
  std::vector<std::int64_t> labels;   ///< one for each task; inputs of label fields point here
  std::unique_ptr<ChunkReads> reads;  ///< null after they were given up, until the chunk is reused
  /// (task, why) of the lowest row that storage failed to read.
  std::optional<std::pair<std::size_t, Error>> read_error;
  /// Rows that another machine computed up to a cut. If there are some, `inputs` point into them and `plan` is the rest
  /// of the plan.
  ReadBuffer received;
  bool stays_here =
      false;            ///< no other machine may have it: one had it and gave it back, or was not believed
  Delivered delivered;  ///< the rows that another machine computed
  bool distrusted = false;  ///< they are not to be believed: the chunk begins again
  /// No read was begun for the chunk: the thread that computes it takes its inputs from the page cache.
  bool tries_cache = false;
  bool missed = false;  ///< some of them are not there after all: the chunk must be read
  /// Samples that an earlier epoch kept, one for each task (empty: not kept) or none; and where they were kept, if the
  /// stream keeps samples. Tasks that have one need no inputs, unless all are read.
  std::vector<KeptSample> kept;
  bool reads_all = false;  ///< other machines may have the chunk, so that its kept samples are read too
  std::shared_ptr<KeptPlace> place;
  bool fills = false;  ///< samples that are computed whole are kept, if the cache admits them
  /// Samples that files have, one for each task (empty: none) or none. Tasks that have one need no inputs either.
  std::vector<ChunkFetch> found;
  std::shared_ptr<FetchGroup> fetching;  ///< of `found`, by the index of the task; null: none was begun

  /// Whether the rows are as they were cut from their step: one behind the other, without substitutes, with all inputs,
  /// never sent before. A chunk records only one worker that computed rows of it.
  bool is_fresh() const {
    for (std::size_t t = 0; t < tasks.size(); ++t)
      if (tasks[t].row != tasks.front().row + t || tasks[t].draws > 0 || !needs_inputs(t)) return false;
    return !is_rest() && !stays_here && delivered.worker == 0;
  }
  bool has_kept(std::size_t task) const { return task < kept.size() && kept[task]; }
  bool has_found(std::size_t task) const { return task < found.size() && found[task].sample; }
  /// Whether a sample that was kept stands for the task's record.
  bool is_kept(std::size_t task) const { return has_kept(task) || has_found(task); }
  std::size_t count_kept() const {
    std::size_t count = 0;
    for (std::size_t t = 0; t < tasks.size(); ++t) count += is_kept(t) ? 1 : 0;
    return count;
  }
  bool needs_inputs(std::size_t task) const { return reads_all || !is_kept(task); }
  bool is_fetching() const { return fetching && !fetching->is_settled(); }

  ChunkState state() const { return state_; }
  bool is_rest() const { return received.memory != nullptr; }

 private:
  friend class ChunkTable;
  ChunkState state_ = ChunkState::kFree;
  ChunksByDue::node_type node_;  // while the chunk is in no set: inserting it needs no memory
};

inline bool DueFirst::operator()(const Chunk* one, const Chunk* other) const {
  return one->order < other->order;
}

}  // namespace carya::loader
