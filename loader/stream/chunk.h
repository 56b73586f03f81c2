#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "loader/data/record_error.h"
#include "loader/read/read_buffer.h"
#include "loader/read/read_op.h"
#include "loader/stream/stream_shape.h"

namespace carya::loader {

class Production;
struct Chunk;
struct PlanInUse;

/// One row of a batch still to be computed: from its own record, or from a substitute.
struct RowTask {
  std::uint64_t row = 0;         ///< in this rank's batch
  std::uint64_t position = 0;    ///< in the epoch
  std::uint64_t record = 0;      ///< that is read now
  std::uint64_t occurrence = 0;  ///< 0: the position's own record; else 1 + position
  std::uint32_t draws = 0;       ///< substitutes drawn so far
  std::int64_t changed_ns = 0;   ///< when its file was first found changed; 0: it was not
  std::int64_t due_ns = 0;       ///< not to be read earlier
};

/// A chunk's rows that came from another machine.
struct Delivered {
  std::uint64_t worker = 0;  ///< 0: none
  std::uint64_t order = 0;   ///< the chunk's
  std::uint64_t row = 0;     ///< the first
  std::uint64_t count = 0;
};

/// One batch of this rank, in production.
struct Step {
  bool dropped = false;  ///< its session is over: what is under way ends and is thrown away
  std::uint64_t epoch = 0;
  std::uint64_t index = 0;     ///< step inside the epoch
  std::uint64_t position = 0;  ///< first position over all ranks
  std::uint64_t position_after = 0;
  bool last = false;  ///< of its epoch
  RankPart part;
  std::uint64_t rows_issued = 0;  ///< rows that belong to chunks begun so far
  std::uint32_t chunks_open = 0;  ///< begun and not finished
  std::optional<std::uint32_t> slot;
  std::optional<Failure> failure;  ///< of the lowest row, when the stream must stop here
  std::uint64_t failure_row = 0;
  std::vector<Failure> quarantined;  ///< shown when the batch is delivered
  std::vector<Delivered> delivered;  ///< of the chunks that have ended

  /// Nothing of it is missing; a step that failed lacks what would come after the failure.
  bool complete() const { return (failure || rows_issued == part.count) && chunks_open == 0; }
};

/// A contiguous run of rows of one step: the unit of scheduling. Idempotent: computing it again gives the
/// same bits.
struct Chunk {
  Production* owner = nullptr;  ///< null: given up, its reads still end some time
  Step* step = nullptr;
  std::shared_ptr<PlanInUse> plan;  ///< by which it is computed, also with substitutes; null: not begun
  std::uint64_t order = 0;          ///< of issue; lower is due earlier
  std::vector<RowTask> tasks;
  std::vector<std::pair<std::size_t, Error>> broken;  ///< (task, why) of the rows that could not be computed
  std::vector<std::span<const std::byte>> inputs;     ///< tasks x fields
  std::vector<std::int64_t> labels;                   ///< tasks; label inputs point here
  std::vector<ReadOp> reads;
  std::uint32_t reads_open = 0;
  std::optional<std::pair<std::size_t, Error>>
      read_error;  ///< (task, why) of the lowest row that storage failed
  ReadBuffer buffer;
  /// Rows that came home from another machine, of which `inputs` are parts; `plan` then is what is left to
  /// do.
  ReadBuffer received;
  bool came_back = false;  ///< uncomputed from another machine: this one computes it
  Delivered delivered;
  bool distrusted = false;  ///< what was delivered is not to be believed: to be begun again
};

}  // namespace carya::loader
