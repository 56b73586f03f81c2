#pragma once

#include "loader/data/dataset.h"
#include "loader/data/decode_index.h"
#include "loader/stream/chunk.h"
#include "loader/stream/slot_rows.h"
#include "transforms/plan/plan.h"

namespace carya::loader {

/// Memory of one thread that computes chunks.
struct ComputeScratch {
  transforms::Scratch transforms;
  DecodeIndex::Scratch index;
};

/// What computing takes from its job. Threads: const, shared by all threads.
struct ComputeParts {
  const transforms::Plan& plan;
  const Dataset& dataset;
  const SlotRows& rows;
  DecodeIndex& index;
  bool prefetches;  ///< rows of arrays lie anywhere in memory
};

/// Compute the chunk's rows into its slot; those that cannot be are listed as broken. Nothing is thrown: lack
/// of memory is the world's doing, and no fault of a record.
void compute_chunk(const ComputeParts& parts, Chunk& chunk, ComputeScratch& scratch);

}  // namespace carya::loader
