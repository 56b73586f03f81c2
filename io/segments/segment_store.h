#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/error.h"
#include "base/hash.h"
#include "base/mutex.h"
#include "io/segments/segment_folder.h"
#include "io/segments/segment_reader.h"
#include "io/segments/segment_writer.h"

namespace carya::io {

struct SegmentStoreOptions {
  std::string folder;  ///< of the tier: the places of all users of the capacity lie in it
  Hash128 place;       ///< what the entries are; others have folders of their own
  std::string about;   ///< says it to a person, as a JSON object; written once
  /// The most that all files of the tier's folder take together. Where users share the folder each has its part of it
  /// in any case, whatever the others took.
  std::uint64_t capacity_bytes = 0;
  /// All files are made with 0600, whoever may read what the entries are of.
  bool own_only = false;
  /// Whether locks tell that a writer lives. They need a file system that all writers see alike.
  bool locks = true;
  /// What killed writers promised is given back after so long, where locks cannot tell.
  double quiet_s = 600;
  /// A place that nobody has used for so long gives way to this one. Infinite: never.
  double unused_s = 3600;
};

/// An entry that was found: its segment, and where in it.
struct SegmentEntry {
  std::shared_ptr<const SegmentReader> segment{};
  SegmentRow row{};
  explicit operator bool() const { return segment != nullptr; }
};

struct SegmentStoreStats {
  std::uint64_t entries = 0;        ///< that are known
  std::uint64_t entry_bytes = 0;    ///< their payloads
  std::uint64_t segments = 0;       ///< of this place
  std::uint64_t tier_bytes = 0;     ///< lengths of all files of the tier, at the last look
  std::uint64_t other_bytes = 0;    ///< of these, those of other places
  std::uint64_t room_bytes = 0;     ///< what this place may take of the capacity, at the last look
  std::uint64_t damaged = 0;        ///< rows and payloads whose hash was wrong
  std::uint64_t written = 0;        ///< entries that this process wrote
  std::uint64_t written_bytes = 0;  ///< their payloads
  double oldest_s =
      0;  ///< when its oldest segment was last written, as SegmentName::changed_s; 0: there is none
};

/// Byte strings by a 128-bit identity, kept in files that many processes and machines fill and read at the same time.
///
/// 1. Each process writes segments of its own, so that no two write to one file, and no lock is needed. Readers look for
///    new files and new rows now and then (refresh()).
/// 2. An entry never changes. What is another version has another identity. Of two processes that write the same entry at
///    the same time one is superfluous.
/// 3. Room: a segment is made as long as it may become, then the lengths of all files of the tier are added up. If they
///    pass the capacity, the new one is shortened, or removed. Where everybody sees the same listing, the capacity is
///    never passed; where listings lag, by what was promised meanwhile. Of users who share a folder nobody leaves the
///    others no room: one whose own files take less than its part, the capacity over the number of users, may write,
///    though the capacity is passed by that. Nobody gives back what was free when it was taken: who can make others do
///    so could take their samples away.
/// 4. Who may read a file are the readers that append() was given with its entries: entries of unlike readers go to files
///    of their own. Files of other users that may not be read are left alone.
/// 5. What a killed writer promised is cut off by others, and places that nobody used for long are removed when there is
///    no room.
///
/// A fault of the storage is an Error of the call that met it. Threads: thread-safe. find() never waits for I/O; append(),
/// refresh() and read() do, and append() and refresh() wait for each other.
class SegmentStore {
 public:
  /// Open the place, with its folder where it can be made, and read what is in it. Errors: kInvalidArgument (the
  /// capacity); kNotFound and others: the folder cannot be read and cannot be made.
  static Result<std::unique_ptr<SegmentStore>> open(const SegmentStoreOptions& options);
  /// Seals what this process wrote.
  ~SegmentStore();
  SegmentStore(const SegmentStore&) = delete;
  SegmentStore& operator=(const SegmentStore&) = delete;

  /// The entry; empty if there is none. Cost: a look into a hash table.
  SegmentEntry find(Hash128 identity) const;
  /// Read an entry, which has row.bytes bytes; with `blocks` past the page cache, where the file system can. One that is
  /// damaged, or that this user may no longer read, is forgotten, so that it is made and written again.
  /// Errors: kCorrupt, kNotFound, kPermission (damaged, gone, another user's); kIo and others.
  Status read(const SegmentEntry& entry, std::span<std::byte> out, BlockBuffer* blocks = nullptr);
  /// Write an entry, which at most `readers` may read, fewer where let_read() says so. Does nothing if it is there. Errors:
  /// kExhausted with no errno: there is no room in the capacity; with one: the disk is full; kUnsupported: the file system
  /// would let others read it; those of open() and write(). Room may be there again later.
  Status append(Hash128 identity, std::span<const std::byte> payload, const Readers& readers = {});
  /// Look at what others wrote, removed and gave back. Errors: the folder cannot be listed, or a file in it not read.
  Status refresh();
  /// Cut what this process has promised and not used. The next append() begins a new segment.
  void seal();

  SegmentStoreStats stats() const;
  const std::string& folder() const { return folder_; }
  const SegmentStoreOptions& options() const { return options_; }

  /// Groups for which files are written at the same time. What is for a further one is this user's alone.
  static constexpr std::ptrdiff_t kGroupsMax = 2;

 private:
  struct Known {
    std::shared_ptr<SegmentReader> reader;
    bool own = false;   // this process writes it
    bool seen = false;  // in the last listing
  };
  struct Written {
    SegmentWriter writer;
    std::shared_ptr<SegmentReader> reader;  // of the same file
  };
  struct Part {
    std::uint64_t own_bytes = 0, bytes = 0;
  };
  explicit SegmentStore(const SegmentStoreOptions& options);
  Status prepare() REQUIRES(working_);
  Status look() REQUIRES(working_);
  void note(const std::shared_ptr<SegmentReader>& segment, std::span<const SegmentRow> rows) EXCLUDES(table_);
  void forget(const SegmentReader& segment) EXCLUDES(table_);
  Readers whose_file(const Readers& readers) const REQUIRES(working_);
  bool is_written(const std::string& name) const REQUIRES(working_);
  Status begin_segment(std::uint64_t bytes, const Readers& readers) REQUIRES(working_);
  void end_segment(const Readers& readers) REQUIRES(working_);
  Result<std::uint64_t> make_room(std::uint64_t wanted) REQUIRES(working_);
  Part part_of(const std::vector<PlaceInfo>& places, bool elsewhere) const REQUIRES(working_);
  void say_used() REQUIRES(working_);

  const SegmentStoreOptions options_;
  const std::string folder_;  // of the place

  mutable Mutex working_;                                       // held during I/O
  std::map<std::string, Known> segments_ GUARDED_BY(working_);  // by file name
  std::map<Readers, Written> written_ GUARDED_BY(working_);     // by who may read it
  std::int64_t said_used_ns_ GUARDED_BY(working_) = 0;
  std::uint32_t user_ GUARDED_BY(working_);  // whose this process's files are, as the file system says

  mutable SharedMutex table_;  // held for moments
  std::unordered_map<Hash128, SegmentEntry, HashOfHash> entries_ GUARDED_BY(table_);
  SegmentStoreStats stats_ GUARDED_BY(table_);
};

}  // namespace carya::io
