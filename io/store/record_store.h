#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "base/error.h"
#include "base/hash.h"
#include "io/rights/readers.h"

namespace carya::io {

/// The kind of a store's records. The numbers are part of the file format (FORMAT.md) and never change.
inline constexpr std::uint32_t kDecodeIndexStore = 1;

/// The dataset and the kind of a store. A file with another identity is not this store.
struct StoreIdentity {
  Hash128 dataset;                 ///< the fingerprint of the manifest
  std::uint32_t kind = 0;          ///< kDecodeIndexStore, ...
  std::uint64_t record_count = 0;  ///< records are 0..record_count-1; at most kStoreRecordsMax
  bool operator==(const StoreIdentity&) const = default;
};

inline constexpr std::uint64_t kStoreRecordsMax = std::uint64_t{1} << 32;
inline constexpr std::uint64_t kStoreBytesMax = std::uint64_t{1} << 39;
inline constexpr std::uint32_t kStoreEntryBytesMax = (std::uint32_t{1} << 28) - 1;

struct StoreOptions {
  /// The quota of the file, at most kStoreBytesMax. An entry beyond it is refused and counted.
  std::uint64_t bytes_max = kStoreBytesMax;
  /// Who at most may read the file beside this user, from the opening on; see keep_from_others().
  Readers readers = Readers::everybody();
  /// The longest payload, at most kStoreEntryBytesMax. The scan at open holds one payload in memory.
  std::uint32_t entry_bytes_max = std::uint32_t{16} << 20;
  /// The memory for entries that wait for flush(). Twice as much is reserved at open.
  std::size_t pending_bytes_max = std::size_t{4} << 20;
  /// The longest wait for another process that writes.
  int lock_wait_ms = 5000;
  /// True: a file of another identity, with a broken header or damaged beyond use is replaced by a new store. False:
  /// open() fails (kCorrupt, kInvalidArgument).
  bool replace_mismatch = true;
  /// The store never writes and never creates a file.
  bool read_only = false;
};

struct StoreStats {
  std::uint64_t entries = 0;        ///< records that have an entry
  std::uint64_t live_bytes = 0;     ///< the payloads of those entries
  std::uint64_t file_bytes = 0;     ///< bytes of the file that were read
  std::uint64_t garbage_bytes = 0;  ///< superseded and damaged parts, and the tail that a crash left
  std::uint64_t damaged_count = 0;  ///< places in the file where an entry was expected and none was valid
  std::uint64_t pending_bytes = 0;  ///< bytes that wait for flush()
  std::uint64_t refused_count = 0;  ///< appends that were refused: quota, full buffer, read-only
  std::uint64_t get_failures = 0;   ///< entries of the table that can no longer be read or fail their check
  bool quota_reached = false;       ///< an append was refused because of bytes_max
  std::string read_only_reason;     ///< empty while the store can be written
};

/// The result of a walk over a whole file.
struct StoreCheck {
  StoreIdentity identity;
  std::uint64_t file_bytes = 0;
  std::uint64_t entries_valid = 0;  ///< valid entries, with superseded ones
  std::uint64_t records = 0;        ///< records with at least one valid entry
  std::uint64_t damaged_count = 0;  ///< runs of bytes that are no entry
  std::uint64_t damaged_bytes = 0;
};

/// An append-only, checksummed file with one byte string per record. The newest valid entry of a record counts.
///
/// Processes share the file, which outlives them. It is never mapped, so that a truncated file or a bad sector is a
/// failed read and no SIGBUS. Nothing in it is trusted: every entry has a hash that is seeded with the file's salt, its
/// record and its length. The hash is checked when the file is scanned at open, and again at each get. A crash at any
/// byte costs only the entries that were being written. Entries can be made again, so nothing is synced to disk. A full
/// disk, an unwritable folder, a quota or missing locks make the store read-only with a reason; they are never errors
/// of a stream.
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
  /// Open or create the store at `path`, with its folder, and scan it.
  /// Errors: kInvalidArgument (limits), kExhausted (memory). Without replace_mismatch also kInvalidArgument (another
  /// identity) and kCorrupt (broken). An unreadable or unwritable place is no error: see stats().read_only_reason.
  /// Cost: reads the whole file once, ~1 GB/s from the page cache.
  static Result<std::unique_ptr<RecordStore>> open(const std::string& path, const StoreIdentity& identity,
                                                   const StoreOptions& options = {});
  ~RecordStore();  ///< drops entries that were not flushed
  RecordStore(const RecordStore&) = delete;
  RecordStore& operator=(const RecordStore&) = delete;

  /// Copy the record's newest valid entry into `out`. Returns its size; empty if there is none. An entry that is longer
  /// than `out` leaves `out` untouched. An entry that waits for flush() is not seen. After a failed check the contents
  /// of `out` are unspecified.
  std::optional<std::size_t> get(std::uint64_t record, std::span<std::byte> out) const;

  /// The size of the record's entry, which is not read; empty if there is none. Cost: a table look-up.
  std::optional<std::size_t> bytes_of(std::uint64_t record) const;

  /// Buffer an entry, which flush() writes. Returns false if the entry is refused: record or size out of range, buffer
  /// full (flush() first), quota reached, read-only. Refusals are counted.
  bool append(std::uint64_t record, std::span<const std::byte> bytes);

  /// From the next write on at most `readers` may read the file beside this user: to be called before the append() of an
  /// entry that others may not read. Nobody gets a right back, and who has the file open reads on.
  void keep_from_others(const Readers& readers);

  /// Write the buffered entries. Errors: kTimeout (another process has the lock; the entries are kept for the next
  /// flush), kForked; kExhausted (quota, full disk) and others: the entries that did not fit are dropped and counted.
  /// All errors but the quota make the store read-only.
  Status flush();

  /// Read what other processes appended or compacted since. Cost: two system calls if nothing changed.
  Status refresh();

  /// Rewrite the live entries into a new file if more than half of the file is garbage, or if `always`. Returns whether
  /// it was done. The old file stays whole for processes that have it open; they find the new one at their next
  /// refresh() or flush(). Errors: as flush(); after an error the old file stays in place.
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
