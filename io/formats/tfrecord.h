#pragma once

#include <string>

#include "base/error.h"
#include "io/files/listing.h"
#include "io/index/file_window.h"
#include "io/index/record_index.h"

namespace carya::io {

/// The records of a TFRecord file: u64 length, u32 masked CRC-32C of it, the data, u32 masked CRC-32C of
/// those. Fields with a key are features of tf.train.Example messages; one without is the record.
///
/// What is wrong with one record (the data's checksum, no Example, a feature that is not as asked) breaks that
/// record. A file that was cut off has one broken record at its end; a length with a wrong checksum hides what
/// is behind it, which is one broken record too. Records of 1 GiB and more are broken and passed over.
///
/// Errors:  kCorrupt (no TFRecord file: the first length's checksum is wrong), kUnsupported (compressed with
///          gzip or zlib: the message says how to unpack), kClosed (progress), and those of the window.
/// Threads: owner only.
/// Source:  tensorflow/core/lib/io/record_writer.h
Result<RecordIndex> index_tfrecord(const std::string& subject, FileWindow& file, const RecordSpec& spec,
                                   ListingProgress& progress);

}  // namespace carya::io
