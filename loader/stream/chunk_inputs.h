#pragma once

#include <cstdint>

#include "loader/data/dataset.h"
#include "loader/stream/chunk.h"

namespace carya::loader {

/// Decoders may look this far past a record's end; the read engine itself wants one byte to see a file that
/// grew.
inline constexpr std::uint64_t kSlackBytes = 64;

/// Room for a record in a read buffer; none for one that is too large to be read at all.
std::uint64_t buffer_room(std::uint64_t bytes);

/// Give the chunk's tasks what is in memory already (arrays, labels), and list its reads of encoded fields.
/// Returns the bytes that its buffer must have.
std::uint64_t list_inputs(Chunk& chunk, const Dataset& dataset, std::uint64_t job);

/// Point reads and inputs into the chunk's buffer, in which list_inputs' bytes have room.
void place_reads(Chunk& chunk, const Dataset& dataset);

}  // namespace carya::loader
