#pragma once

#include <cstdint>

#include "loader/data/dataset.h"
#include "loader/data/store_sources.h"
#include "loader/read/cached_reads.h"
#include "loader/read/read_buffer.h"
#include "loader/read/read_tally.h"
#include "loader/stream/chunk.h"

namespace carya::loader {

/// Decoders may read this many bytes behind a record. The read engine needs one of them to notice a file that grew.
inline constexpr std::uint64_t kSlackBytes = 64;

/// The room in a read buffer for a record of `bytes`; 0 if the record is too large to be read.
std::uint64_t buffer_room(std::uint64_t bytes);

/// Set the inputs that are in memory already (arrays, labels), and list the chunk's reads of encoded fields. Tasks whose
/// samples were kept get none. Returns the bytes that the chunk's buffer needs, with those of samples from files.
/// `stores`: where reads of objects are counted; null: there are none.
std::uint64_t list_inputs(Chunk& chunk, const Dataset& dataset, std::uint64_t job,
                          const StoreSources* stores = nullptr);

/// Look for the samples of the chunk's tasks in what `place` keeps. `from_files`: in files too. May throw
/// std::bad_alloc.
void look_up_kept(Chunk& chunk, std::shared_ptr<KeptPlace> place, const Dataset& dataset, bool from_files);
/// Ask for the chunk's samples from files, which come to the places that place_reads() gave them, in the memory that
/// `lent` keeps. Never throws: what cannot be asked for does not come.
void begin_fetches(Chunk& chunk, const Dataset& dataset, std::shared_ptr<const void> lent);
/// Whether all samples that the chunk expected from files have come, and are what they should be.
bool has_all_found(const Chunk& chunk);

/// Point the reads and their inputs into `memory`, which has at least the bytes that list_inputs() returned.
void place_reads(Chunk& chunk, const Dataset& dataset, std::byte* memory);

/// Inputs that a compute thread read from the page cache. The thread keeps the buffer from chunk to chunk, so that the
/// buffer stays in the processor's cache.
struct CachedInputs {
  ReadBuffer buffer;
  ReadTally tally;
};
/// The largest buffer that a thread keeps in this way.
inline constexpr std::uint64_t kCachedBytesMax = 4 << 20;

/// Take all inputs of `chunk` from memory and from the page cache. Returns false if some are not there, or if there is
/// no memory for them; only what list_inputs() sets has changed then. Never waits, never throws.
bool read_cached(Chunk& chunk, const Dataset& dataset, const CachedReads& reads, CachedInputs& inputs);

}  // namespace carya::loader
