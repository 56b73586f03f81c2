#pragma once

#include "loader/read/read_buffer.h"
#include "loader/stream/executor.h"
#include "loader/stream/slot_rows.h"

namespace carya::loader {

/// Set work.places, where the worker's rows go: the slot itself if the cut is last and the slot has the same bytes,
/// else memory aside. May throw std::bad_alloc.
void place_results(ChunkWork& work, const SlotRows& rows, ReadBufferPool& pool);

/// Finish the work's rows in the slot. All of them are in their places, and no op is left.
void finish_results(const ChunkWork& work, const SlotRows& rows);

/// Make the work's rows the inputs of its chunk, and the rest of the plan its plan. All rows are in their places, and
/// ops are left. Returns false if memory is short.
bool take_results_as_inputs(ChunkWork& work);

}  // namespace carya::loader
