#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "io/index/record_fault.h"
#include "io/index/record_spec.h"
#include "io/manifest/manifest.h"

namespace carya::io {

/// The records of files with named fields, file after file. Immutable. Threads: const is thread-safe.
class RecordSource {
 public:
  /// Where the records lie as a whole; carries the labels.
  const std::shared_ptr<const Manifest>& records() const { return records_; }
  /// Of a field of bytes, the same count and order; else null.
  const std::shared_ptr<const Manifest>& manifest(std::size_t field) const { return manifests_[field]; }
  /// Of a tensor field, row by row; else empty.
  const std::vector<std::byte>& column(std::size_t field) const { return columns_[field]; }
  /// Why a record is broken: kCorrupt; success when it is whole. Cost: a binary search among the broken ones.
  Status check(std::uint64_t record) const;
  std::uint64_t broken_count() const { return faults_.size(); }

 private:
  friend class RecordMerge;
  RecordSpec spec_;
  std::shared_ptr<const Manifest> records_;
  std::vector<std::shared_ptr<const Manifest>> manifests_;
  std::vector<std::vector<std::byte>> columns_;
  std::vector<RecordFault> faults_;  // ascending
};

/// The records of `paths` in the order given. Each file's index is kept in cache_dir (nowhere when that is
/// empty) with the file's size and time, and made anew when they differ, when it is damaged, or with
/// `verify`. `report` says how many files were read from kept indexes only (from_cache).
///
/// Errors: kNotFound (no path, no record at all, a field that no record has: the message says what there is),
///         kPermission, kCorrupt and kUnsupported (a file that is none of the format), kExhausted (tensors of
///         more than kColumnBytesMax).
/// Cost:   memory: 16 B per record and field, the tensors, 24 B per broken record; while a file is indexed its
///         largest record beside them, on each thread.
Result<std::shared_ptr<const RecordSource>> list_records(const std::vector<std::string>& paths,
                                                         const RecordSpec& spec,
                                                         const ListingOptions& options,
                                                         ListingReport* report = nullptr);

}  // namespace carya::io
