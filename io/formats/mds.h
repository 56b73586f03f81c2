#pragma once

#include <string>

#include "base/error.h"
#include "io/files/listing.h"
#include "io/index/file_window.h"
#include "io/index/record_index.h"

namespace carya::io {

/// The samples of an MDS shard (MosaicML Streaming), uncompressed: u32 count n, u32[n + 1] offsets, a JSON
/// object that names the columns, the samples; a sample is the u32 sizes of its columns of variable size, then
/// the columns' bytes. A field's key is a column. What a field needs of its column's encoding:
///   kBytes   jpeg, png, bytes, str, json, jpeg_array, list[...]: its bytes as they are
///   kLabel   int, a scalar integer, or str_int
///   kTensor  int, a scalar or ndarray of the same dtype with as many values, or bytes of the tensor's size
/// A sample whose sizes do not add up, or that lies outside of the file, is a broken record.
///
/// Errors:  kCorrupt (no shard), kUnsupported (compressed; pickled columns are never read, nor are pil ones),
///          kInvalidArgument (a column of another encoding), kClosed (progress), and those of the window.
/// Threads: owner only.
/// Source:  streaming/base/format/mds/{writer,reader,encodings}.py, version 2
Result<RecordIndex> index_mds(const std::string& subject, FileWindow& file, const RecordSpec& spec,
                              ListingProgress& progress);

}  // namespace carya::io
