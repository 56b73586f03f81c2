#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "io/store/record_store.h"
#include "io/store/record_table.h"
#include "io/store/store_file.h"
#include "io/store/store_scan.h"

namespace carya::io {

/// One file and what is known of it. Places in the table mean bytes of this file, so the two change together.
struct StoreGeneration {
  StoreFile file;
  RecordTable table;
  std::uint64_t scanned_end = sizeof(StoreHeader);  ///< behind the last valid entry known
  std::uint64_t file_bytes = 0;                     ///< at the last look
  std::uint64_t entries = 0;
  std::uint64_t live_bytes = 0;  ///< payloads
  std::uint64_t live_span = 0;   ///< with heads and padding
  std::uint64_t damaged_count = 0;

  void note(std::uint64_t record, RecordTable::Place place);
  std::uint64_t garbage_bytes() const;
};

/// What RecordStore's functions share.
///
/// Locks, in the order in which they may be taken: `writing` (one flush, refresh or compaction at a time;
/// held during I/O), `switching` (shared by gets, exclusive for the moment in which the generation changes),
/// `appending` (short).
struct RecordStore::State {
  std::string path;
  StoreIdentity identity;
  StoreOptions options;
  pid_t process = 0;

  Mutex writing;
  std::vector<std::byte> outgoing GUARDED_BY(writing);  // entries on their way to the file

  mutable SharedMutex switching;
  /// The pointer changes under `writing` and `switching`; all but file and table belongs to the holder of
  /// `writing`.
  std::unique_ptr<StoreGeneration> generation;  // null: there is no file

  mutable Mutex appending;
  std::vector<std::byte> pending GUARDED_BY(appending);
  std::string read_only_reason GUARDED_BY(appending);
  bool quota_reached GUARDED_BY(appending) = false;
  std::uint64_t refused_count GUARDED_BY(appending) = 0;
  StoreStats seen GUARDED_BY(appending);  // the generation's numbers, for stats()
  Readers readers_at_most GUARDED_BY(appending) = Readers::everybody();

  /// Who may read the file from its next write on.
  Readers readers() const;

  mutable std::atomic<std::uint64_t> get_failures{0};

  /// Open the file, scan it, and make it the generation.
  Status open_generation(OpenMode mode) REQUIRES(writing);
  /// Scan what is new in the file.
  Status catch_up() REQUIRES(writing);
  /// A fresh file in the place of the generation's, whose damage a scan could not get over.
  Status discard_damaged() REQUIRES(writing);
  void become(std::unique_ptr<StoreGeneration> next) REQUIRES(writing);
  void publish_numbers();
  void make_read_only(const std::string& reason);
  bool writable() const;
  Status check_process() const;

  /// The lock of the file that `path` names, which is the generation afterwards, and whole in the table.
  Result<FileLock> lock_current() REQUIRES(writing);
  /// Write `outgoing`, which is emptied in any case. The caller holds the file's lock too.
  Status write_outgoing() REQUIRES(writing);
  /// Forget `outgoing` and count it as refused.
  void drop_outgoing() REQUIRES(writing);
  /// Step 4 of the protocol. The caller holds the lock of the generation's file.
  Result<std::unique_ptr<StoreGeneration>> write_successor() const;
};

}  // namespace carya::io
