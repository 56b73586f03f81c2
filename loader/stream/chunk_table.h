#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "loader/stream/chunk.h"

namespace carya::loader {

/// All chunks of a stream, by state. take() makes chunks when all are in use and keeps them for ever; nothing else
/// needs memory. Threads: owner only.
class ChunkTable {
 public:
  /// Take a free chunk for rows of `step`, with room for `rows` tasks, and move it to kPrepared. May throw
  /// std::bad_alloc, and has changed nothing then.
  Chunk& take(Step& step, std::uint64_t rows);
  /// The number of the next chunk that is issued for the first time.
  std::uint64_t next_order() { return order_++; }
  std::uint64_t issued() const { return order_; }

  /// Move `chunk` to the state `to`. CHECKs that this change exists.
  void move(Chunk& chunk, ChunkState to);
  /// Steps got slots, in stream order: their ready chunks become runnable.
  void note_slots();

  std::uint32_t count(ChunkState state) const { return counts_[static_cast<std::size_t>(state)]; }
  /// Ready chunks whose steps have slots, the one that is due first in front.
  const ChunksByDue& runnable() const { return runnable_; }
  /// Any ready chunk, with a slot or without; null if none is ready.
  Chunk* any_ready() const;
  std::span<const std::unique_ptr<Chunk>> all() const { return chunks_; }

 private:
  std::vector<std::unique_ptr<Chunk>> chunks_;
  std::vector<Chunk*> free_;  // has room for all chunks
  // Together these are the ready chunks. Their order follows that of the steps, so those without a slot come last.
  ChunksByDue runnable_;
  ChunksByDue waiting_;
  std::array<std::uint32_t, kChunkStates> counts_{};  // the number of chunks in each state
  std::uint64_t order_ = 0;
};

}  // namespace carya::loader
