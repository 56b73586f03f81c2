#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/unique_fd.h"
#include "io/rights/readers.h"
#include "io/segments/block_read.h"
#include "io/segments/segment_format.h"

namespace carya::io {

/// A segment that somebody wrote, or is writing. Nothing in it is trusted: rows have hashes of their own, a payload is
/// hashed each time that it is read.
///
/// Threads: thread-safe, but look() by one thread at a time.
class SegmentReader {
 public:
  /// Open the segment at `path`. Errors: those of open(); kCorrupt: its header is broken, or of another place.
  static Result<std::shared_ptr<SegmentReader>> open(const std::string& path, Hash128 place);

  /// Add the rows that were written since the last look to `found`. A row that is not whole yet ends the look; one that
  /// is damaged, with a whole one behind it, is left out and counted. Errors: kIo.
  Status look(std::vector<SegmentRow>& found);
  /// Read an entry, which has row.bytes bytes, into `out`; with `blocks` past the page cache, where the file system can.
  /// Errors: kCorrupt (its hash is wrong, or the file ends before); those of open() and read().
  Status read(const SegmentRow& row, std::span<std::byte> out, BlockBuffer* blocks = nullptr) const;

  /// Whether it is this user's and others may read it.
  bool is_for_others() const { return for_others_; }
  /// Take the right to read it from all but `readers`; of another user's file that does nothing. Who has it open reads on.
  /// Errors: those of open() and keep_from_others().
  Status keep_from_others(const Readers& readers) const;

  const std::string& path() const { return path_; }
  /// Whether nothing more will come: the file ends behind the last entry, or all rows are used.
  bool is_sealed() const { return sealed_; }
  std::uint64_t rows() const { return rows_; }
  std::uint64_t damaged() const { return damaged_; }
  /// The end of the last entry that is known.
  std::uint64_t used_bytes() const { return used_bytes_; }
  const SegmentHeader& header() const { return header_; }

  /// So many segments of a process are kept open at most, with two descriptors each; the others are opened for each read.
  static std::size_t open_max();
  SegmentReader(const SegmentReader&) = delete;
  SegmentReader& operator=(const SegmentReader&) = delete;
  ~SegmentReader();

 private:
  SegmentReader(std::string path, const SegmentHeader& header);
  Result<UniqueFd> reopen() const;
  int direct() const;

  const std::string path_;
  const SegmentHeader header_;
  UniqueFd kept_;  // empty where too many are open
  mutable std::once_flag direct_once_;
  mutable UniqueFd
      direct_;  // with O_DIRECT, from the first read past the page cache on; empty where that cannot be
  std::uint64_t rows_ = 0, damaged_ = 0, used_bytes_ = 0;
  std::atomic<bool> sealed_{false};
  mutable std::atomic<bool> for_others_{false};
};

/// Cut off what a killed writer promised and did not use, if `path` is a segment that nobody writes: no process of this
/// machine has its lock (`locks`: ask for it), and it was not changed for `quiet_s` seconds before `now_s`, in the file
/// system's own time. Returns the bytes that were given back. Errors: those of open() and ftruncate().
Result<std::uint64_t> cut_abandoned(const std::string& path, bool locks, double quiet_s, double now_s);

}  // namespace carya::io
