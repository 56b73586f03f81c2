#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "base/error.h"
#include "base/hash.h"

namespace carya::io {

/// What a store's records are; the numbers are part of the file format (FORMAT.md) and never change.
inline constexpr std::uint32_t kDecodeIndexStore = 1;

/// What a store belongs to. A file with any other identity is not this store.
struct StoreIdentity {
  Hash128 dataset;                 ///< fingerprint of the manifest
  std::uint32_t kind = 0;          ///< kDecodeIndexStore, ...
  std::uint64_t record_count = 0;  ///< records are 0..record_count-1; at most kStoreRecordsMax
  bool operator==(const StoreIdentity&) const = default;
};

inline constexpr std::uint64_t kStoreRecordsMax = std::uint64_t{1} << 32;
inline constexpr std::uint64_t kStoreBytesMax = std::uint64_t{1} << 39;
inline constexpr std::uint32_t kStoreEntryBytesMax = (std::uint32_t{1} << 28) - 1;

struct StoreOptions {
  /// Quota of the file; what would go over it is refused and counted. At most kStoreBytesMax.
  std::uint64_t bytes_max = kStoreBytesMax;
  /// Longest payload. The scan at open holds one such payload in memory. At most kStoreEntryBytesMax.
  std::uint32_t entry_bytes_max = std::uint32_t{16} << 20;
  /// Memory for entries that wait for flush(); reserved at open, twice.
  std::size_t pending_bytes_max = std::size_t{4} << 20;
  /// Longest wait for another process that is writing.
  int lock_wait_ms = 5000;
  /// A file of another identity, with a broken header or damaged beyond use: put a new store in its place, or
  /// fail (kCorrupt, kInvalidArgument).
  bool replace_mismatch = true;
  /// Never write, never create.
  bool read_only = false;
};

struct StoreStats {
  std::uint64_t entries = 0;        ///< records that have an entry
  std::uint64_t live_bytes = 0;     ///< their payloads
  std::uint64_t file_bytes = 0;     ///< of the file, as far as it was read
  std::uint64_t garbage_bytes = 0;  ///< superseded and damaged parts, and the tail a crash left
  std::uint64_t damaged_count = 0;  ///< places in the file where an entry was expected and none was valid
  std::uint64_t pending_bytes = 0;  ///< waiting for flush()
  std::uint64_t refused_count = 0;  ///< appends that were not kept: quota, full buffer, read-only
  std::uint64_t get_failures = 0;   ///< entries found in the table that no longer read or check
  bool quota_reached = false;       ///< an append was refused because of bytes_max
  std::string read_only_reason;     ///< empty while the store can be written
};

/// What a walk over a whole file found.
struct StoreCheck {
  StoreIdentity identity;
  std::uint64_t file_bytes = 0;
  std::uint64_t entries_valid = 0;  ///< superseded ones too
  std::uint64_t records = 0;        ///< records with at least one valid entry
  std::uint64_t damaged_count = 0;  ///< runs of bytes that are no entry
  std::uint64_t damaged_bytes = 0;
};

/// Append-only, checksummed file of one byte string per record; the newest valid entry of a record counts.
///
/// The file is shared by processes and outlives them. It is never mapped (so a truncated file or a bad sector
/// is a failed read, not a SIGBUS) and nothing in it is trusted: every entry carries a hash seeded with the
/// file's own salt, its record and its length, checked when the file is scanned at open and again at each
/// get. A crash at any byte costs the entries that were being written, no other. What is kept here can be
/// made again, so nothing is synced to disk, and trouble (full disk, unwritable folder, quota, no locks)
/// makes the store read-only with a reason; it is never an error of the stream.
///
/// Protocol between processes, each step under an exclusive open-file-description lock on the file:
///  1. take the lock, then look whether the path still names the locked file (else it was compacted or
///     replaced: open it anew and begin again), so that nobody writes to a file that nobody will read;
///  2. read the entries that others added, so that the table is whole;
///  3. append whole entries behind the last byte, at the next multiple of 8. The file never shrinks and no
///     byte changes, so readers need no lock; a torn tail stays as garbage that scans step over;
///  4. compaction writes the live entries to a new file with a new salt and renames it over the old one.
///
/// Threads: thread-safe. get and bytes_of never wait for a writer's I/O. Not usable in a forked child: flush,
/// refresh and compact answer kForked there (the lock would be the parent's).
/// Cost:    8 bytes of memory per record touched; get is one system call plus a hash, no allocation; append
/// is a hash and a memcpy (bench_store).
class RecordStore {
 public:
  /// Open or create the store at `path` (the folder is made when missing) and scan it.
  /// Errors: kInvalidArgument (limits; another identity when replace_mismatch is false), kCorrupt (broken,
  /// when replace_mismatch is false), kExhausted (memory). An unreadable or unwritable place is none: see
  /// stats().read_only_reason.
  /// Cost: reads the whole file once, ~1 GB/s from the page cache.
  static Result<std::unique_ptr<RecordStore>> open(const std::string& path, const StoreIdentity& identity,
                                                   const StoreOptions& options = {});
  ~RecordStore();  ///< drops what was not flushed
  RecordStore(const RecordStore&) = delete;
  RecordStore& operator=(const RecordStore&) = delete;

  /// Copy the record's newest valid entry into `out`; its size, or nothing when there is none. When the entry
  /// is longer than `out` its size is returned and `out` is untouched. An entry that waits for flush() is not
  /// seen. On a failed check the contents of `out` are unspecified.
  std::optional<std::size_t> get(std::uint64_t record, std::span<std::byte> out) const;

  /// Size of the record's entry without reading it, or nothing. Cost: a table look-up.
  std::optional<std::size_t> bytes_of(std::uint64_t record) const;

  /// Buffer an entry; flush() writes it. False when it is refused: record or size out of range, buffer full
  /// (flush() first), quota reached, read-only. Refusals are counted.
  bool append(std::uint64_t record, std::span<const std::byte> bytes);

  /// Write what is buffered. Errors: kTimeout (another process holds the lock; the entries are kept for the
  /// next flush), kForked; kExhausted (quota, disk full) and others: the entries that did not fit are dropped
  /// and counted; all but the quota make the store read-only.
  Status flush();

  /// See what other processes appended or compacted since. Cost: two system calls when nothing changed.
  Status refresh();

  /// Rewrite the live entries into a new file when more than half of the file is garbage, or when `always`.
  /// True when it was done. The old file stays whole for processes that have it open; they find the new one
  /// at their next refresh() or flush(). Errors as flush(); on an error the old file stays in place.
  Result<bool> compact(bool always = false);

  StoreStats stats() const;

  /// Read and check the whole file. Errors: kNotFound (no file), kIo.
  Result<StoreCheck> verify() const;

  const StoreIdentity& identity() const;
  const std::string& path() const;

 private:
  struct State;
  explicit RecordStore(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace carya::io
