#pragma once

#include <cstdint>
#include <functional>

#include "base/error.h"
#include "io/store/store_format.h"

namespace carya::io {

/// What a scan is told and where it begins.
struct ScanFrom {
  std::uint64_t salt = 0;
  std::uint64_t record_count = 0;
  std::uint32_t entry_bytes_max = kStoreEntryBytesMax;
  std::uint64_t offset = sizeof(StoreHeader);  ///< a multiple of 8
  std::uint64_t file_bytes = 0;                ///< end of the file as fstat told
};

/// What a scan found.
struct ScanEnd {
  std::uint64_t offset = 0;         ///< behind the last valid entry, aligned: where the next scan begins
  std::uint64_t damaged_count = 0;  ///< runs of bytes before `offset` that are no entry
  std::uint64_t damaged_bytes = 0;  ///< in those runs
  /// More bytes failed their hash than any crash leaves: the rest was not looked at.
  bool hopeless = false;
};

/// Called for each valid entry, in the order of the file.
using EntryFound = std::function<void(std::uint64_t record, std::uint64_t offset, std::uint32_t bytes)>;

/// Walk the entries of a file and check every one. Where no valid entry stands (damage, or what a crash left)
/// the walk goes on at the next multiple of 8 where one does; no length is believed before its hash was
/// right. What lies behind the last valid entry is not damage: another process may be writing it just now.
///
/// Errors:  kIo (a read failed, or the file is shorter than file_bytes).
/// Threads: pure, apart from the reads.
/// Cost:    memory: 1 MiB or one entry; time: hashing at most 5 times the bytes scanned and 64 MiB, whatever
/// the bytes are.
Result<ScanEnd> scan_entries(int fd, const ScanFrom& from, const EntryFound& found);

}  // namespace carya::io
