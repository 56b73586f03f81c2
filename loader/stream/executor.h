#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "loader/data/dataset.h"
#include "loader/data/decode_index.h"
#include "loader/stream/chunk.h"
#include "loader/wire/encoded_chunk.h"
#include "transforms/pipeline/pipeline.h"
#include "transforms/plan/plan.h"

namespace carya::loader {

class StreamScheduler;
class WorkerPlan;

/// The cut of a plan: the ops before it run on another machine, those behind it on this one.
struct PlanCut {
  std::uint64_t plan = 0;                        ///< RemotePlan::id
  std::vector<transforms::TensorSpec> outputs;   ///< the tensors of a row that comes back
  std::shared_ptr<PlanInUse> rest;               ///< the ops behind the cut; null: there are none
  std::shared_ptr<const WorkerPlan> compiled{};  ///< the workers' part of the plan, to check their results
};

/// The chunk that an executor wants.
struct ChunkWanted {
  std::size_t keep_local = 0;  ///< skip this many of the earliest ready chunks: local threads compute them
  std::size_t min_batches_ahead = 0;  ///< the reader takes at least this many batches before the chunk's
  bool allow_final = false;           ///< if no chunk is that far ahead, the last ready one is taken
};

/// A chunk that is away from this machine. Its holder may write to `places`, and read the chunk's rows and inputs,
/// until it gives the work back with ChunkDone. Nobody else touches them meanwhile.
struct ChunkWork {
  Chunk* chunk = nullptr;
  std::shared_ptr<const PlanCut> cut;
  std::uint64_t epoch = 0;                       ///< of the chunk's rows
  std::uint64_t traced_as = 0, traced_step = 0;  ///< trace_stream() and trace_step() of the chunk
  /// The executor's number of the worker that computes it; 0: none that could be distrusted.
  std::uint64_t worker = 0;
  /// The encoded request; null until the executor has made it.
  std::shared_ptr<const EncodedChunk> sent{};
  bool by_address = false;  ///< whether the request has the records' addresses instead of their bytes
  /// Where the results go, one for each output: in the batch's slot if the cut is last, else in `aside`.
  std::vector<std::span<std::byte>> places{};
  ReadBuffer aside{};  ///< the memory of the places that are in no slot

  std::size_t result_bytes() const;
};

/// Takes work back. `computed`: all its rows are in their places. If not, this machine computes the chunk.
using ChunkDone = std::function<void(std::unique_ptr<ChunkWork>, bool computed)>;

/// Computes chunks of one stream on other machines.
class Executor {
 public:
  virtual ~Executor() = default;
  /// Called once, before all other functions. `done` gives work back. `wake` asks for an offer() when workers have room
  /// again. Any thread may call both, except from inside of these functions.
  virtual void begin(ChunkDone done, std::function<void()> wake) = 0;
  /// Whether there are workers to take chunks, as far as is known: the records of kept samples are then read too where
  /// most of their chunk was not kept. Any thread; never waits.
  virtual bool has_workers() const { return true; }
  /// Called when chunks may have become ready, and some 20 ms after the last offer while work is out. The executor
  /// takes (StreamScheduler::take_remote) what workers can begin now, and gives back (StreamScheduler::end_remote) what
  /// they will not finish in time. Under the engine's lock; never waits, never throws.
  virtual void offer(StreamScheduler& stream, Outbox& out) = 0;
  /// Take no more chunks, and soon give back all that are out, computed or not. Under the engine's lock; never waits.
  virtual void stop() = 0;
  /// Called after stop(), when all work is given back. No callback runs after it has returned. Without a lock.
  virtual void end() = 0;
};

}  // namespace carya::loader
