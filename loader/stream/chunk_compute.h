#pragma once

#include "loader/data/dataset.h"
#include "loader/data/decode_index.h"
#include "loader/stream/chunk.h"
#include "loader/stream/chunk_inputs.h"
#include "loader/stream/slot_rows.h"
#include "transforms/plan/plan.h"

namespace carya::loader {

/// The memory of one compute thread.
struct ComputeScratch {
  transforms::Scratch transforms;
  DecodeIndex::Scratch index;
  CachedInputs cached;
  std::vector<std::span<const std::byte>> kept;  ///< tensors of a sample that was kept
};

/// The parts of a job that computing needs. Threads: const, shared by all threads.
struct ComputeParts {
  const transforms::Plan& plan;
  const Dataset& dataset;
  const SlotRows& rows;
  DecodeIndex& index;
  bool prefetches;  ///< whether to prefetch rows: those of arrays lie anywhere in memory
};

/// Compute the rows of `chunk` into its slot. Rows that cannot be computed are added to chunk.broken. Throws nothing:
/// lack of memory becomes an error of the row, which is no fault of its record.
void compute_chunk(const ComputeParts& parts, Chunk& chunk, ComputeScratch& scratch);

}  // namespace carya::loader
