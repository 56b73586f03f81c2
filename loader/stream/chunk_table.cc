#include "loader/stream/chunk_table.h"

#include <utility>

#include "base/error.h"

namespace carya::loader {
namespace {

constexpr std::uint8_t bit(ChunkState state) {
  return static_cast<std::uint8_t>(1U << static_cast<unsigned>(state));
}

/// Where a chunk may go from each state:
///
/// * kFree: it is used for rows of a step.
/// * kPrepared: its reads begin; or it has none and is ready; or its session ends, or there is no memory for it.
/// * kReading: all reads have ended; or one failed for good, was given up, or nobody wants it any more.
/// * kReady: a thread or another machine takes it; or its session ends; or it is begun again, since it rests on
///   rows of a machine that is not believed any more.
/// * kLocal: all its rows are in place, or its step failed; or some rows are to be read again.
/// * kRemote: it comes back as it was, or computed up to a cut, and is ready; or all its rows are in place.
constexpr std::array<std::uint8_t, kChunkStates> kMayGoTo{
    bit(ChunkState::kPrepared),
    bit(ChunkState::kReading) | bit(ChunkState::kReady) | bit(ChunkState::kFree),
    bit(ChunkState::kReady) | bit(ChunkState::kFree),
    bit(ChunkState::kLocal) | bit(ChunkState::kRemote) | bit(ChunkState::kPrepared) | bit(ChunkState::kFree),
    bit(ChunkState::kPrepared) | bit(ChunkState::kFree),
    bit(ChunkState::kReady) | bit(ChunkState::kFree),
};

}  // namespace

Chunk& ChunkTable::take(Step& step, std::uint64_t rows) {
  if (free_.empty()) {
    free_.reserve(chunks_.size() + 1);
    chunks_.reserve(chunks_.size() + 1);
    auto made = std::make_unique<Chunk>();
    // A chunk brings its own node, so that moving it between the sets needs no memory.
    ChunksByDue maker{made.get()};
    made->node_ = maker.extract(maker.begin());
    free_.push_back(made.get());
    chunks_.push_back(std::move(made));
    ++counts_[static_cast<std::size_t>(ChunkState::kFree)];
  }
  Chunk& chunk = *free_.back();
  chunk.tasks.reserve(rows);
  if (!chunk.reads) {
    chunk.reads = std::make_unique<ChunkReads>();
    chunk.reads->chunk = &chunk;
  }
  chunk.step = &step;
  move(chunk, ChunkState::kPrepared);
  return chunk;
}

void ChunkTable::move(Chunk& chunk, ChunkState to) {
  const ChunkState from = chunk.state_;
  CHECK((kMayGoTo[static_cast<std::size_t>(from)] & bit(to)) != 0);
  CHECK(counts_[static_cast<std::size_t>(from)] > 0);
  if (from == ChunkState::kFree) {
    CHECK(free_.back() == &chunk);
    free_.pop_back();
  } else if (from == ChunkState::kReady) {
    if (!runnable_.empty() && *runnable_.begin() == &chunk)  // most often the chunk that is taken next
      chunk.node_ = runnable_.extract(runnable_.begin());
    else
      chunk.node_ = (runnable_.contains(&chunk) ? runnable_ : waiting_).extract(&chunk);
    CHECK(!chunk.node_.empty());
  }
  --counts_[static_cast<std::size_t>(from)];
  ++counts_[static_cast<std::size_t>(to)];
  chunk.state_ = to;
  if (to == ChunkState::kFree) {
    chunk.step = nullptr;
    free_.push_back(&chunk);
  } else if (to == ChunkState::kReady) {
    ChunksByDue& ready = chunk.step->slot ? runnable_ : waiting_;
    ready.insert(ready.end(), std::move(chunk.node_));  // most often it was issued last
  }
}

void ChunkTable::note_slots() {
  while (!waiting_.empty() && (*waiting_.begin())->step->slot)
    runnable_.insert(runnable_.end(), waiting_.extract(waiting_.begin()));
}

Chunk* ChunkTable::any_ready() const {
  if (!runnable_.empty()) return *runnable_.begin();
  return waiting_.empty() ? nullptr : *waiting_.begin();
}

}  // namespace carya::loader
