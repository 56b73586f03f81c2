#pragma once

#include <string>

#include "base/error.h"
#include "io/files/listing.h"
#include "io/index/file_window.h"
#include "io/index/record_index.h"

namespace carya::io {

/// The rows of an Arrow IPC file or stream (also the cache of Hugging Face's datasets), uncompressed: messages
/// of which each record batch has the offsets and values of its columns. A field's key is a column, or a path
/// into structs ("image.bytes"). What a field needs of its column's type:
///   kBytes   binary, string (also large_), fixed_size_binary; a struct that has such a column "bytes"
///   kLabel   an integer or bool
///   kTensor  a number or bool of the same dtype, lists of them (also nested) whose rows have as many values and
///            are regular, or bytes of the tensor's size
/// A row with null in a wanted column, or with offsets that lie, is a broken record. A file that was cut off has
/// one broken record in place of the batch that is not all there. A row's place is that of its first field.
///
/// Errors:  kCorrupt (no Arrow file), kUnsupported (compressed batches, big-endian, written before Arrow 0.15),
///          kInvalidArgument (a column of another type), kExhausted (tensors), kClosed (progress), and those of
///          the window.
/// Cost:    8 B per row and field of bytes of one batch, beside the index.
/// Threads: owner only.
/// Source:  Apache Arrow, Columnar format 1.5, "Serialization and interprocess communication"
Result<RecordIndex> index_arrow(const std::string& subject, FileWindow& file, const RecordSpec& spec,
                                ListingProgress& progress);

}  // namespace carya::io
