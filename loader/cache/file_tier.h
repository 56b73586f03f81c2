#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "base/error.h"
#include "base/hash.h"
#include "io/segments/segment_store.h"
#include "loader/cache/fetch_group.h"
#include "loader/cache/write_budget.h"

namespace carya::loader {

/// Which records of the order by record_hash() a tier keeps where not all fit: the disk those that memory gives up first,
/// a shared folder those that neither of the two keeps longest. What a disk keeps is this user's alone; files of a shared
/// folder have the readers that their records have (RecordFacts::readers).
enum class TierKind : std::uint8_t { kDisk, kShared };

struct FileTierOptions {
  TierKind kind = TierKind::kDisk;
  std::string folder;
  std::uint64_t capacity_bytes = 0;  ///< of all that lies in the folder, also by others; see io::SegmentStore
  Hash128 place;                     ///< what the samples are; see io::SegmentStoreOptions
  std::string about;
  std::uint64_t records = 1;              ///< of an epoch, over all ranks
  std::shared_ptr<WriteBudget> budget{};  ///< allows what is written; null: all is
  /// A disk's samples that take more than this are read past the page cache, which would not have them in the next epoch
  /// either. Without, the kernel reads ahead between them and keeps them.
  std::uint64_t page_cache_bytes = UINT64_MAX;
};

/// What files of samples must know of a record, by its index in the source. All but `identity` may wait for storage.
struct RecordFacts {
  /// Names the record in this version of its file; none: it is not kept.
  std::function<std::optional<Hash128>(std::uint64_t source)> identity{};
  /// Before a sample is taken: whether the file is still the one that was listed, and this user may read it.
  std::function<bool(std::uint64_t source)> may_take{};
  /// Before a sample is written: whether what was read is what the identity says.
  std::function<bool(std::uint64_t source)> may_keep{};
  /// Who else may read what the sample is made of, as it is now.
  std::function<io::Readers(std::uint64_t source)> readers{};
};

/// A sample that is to be read.
struct TierRead {
  std::uint64_t source = 0;
  io::SegmentEntry entry{};
  std::byte* dest = nullptr;           ///< room for entry.row.bytes bytes
  std::shared_ptr<const void> lent{};  ///< keeps that memory, also when nobody waits any more
  std::shared_ptr<FetchGroup> group{};
  std::size_t index = 0;  ///< in the group
  std::shared_ptr<const RecordFacts> facts{};
  std::int64_t asked_ns = 0;  ///< set by the tier
};

/// A sample that is to be written.
struct TierWrite {
  std::uint64_t source = 0;
  Hash128 identity{};
  std::shared_ptr<const void> owner{};  ///< keeps the bytes
  std::span<const std::byte> bytes{};
  std::shared_ptr<const RecordFacts> facts{};
};

/// Figures for stats().
struct FileTierStats {
  io::SegmentStoreStats store{};
  bool is_open = false;
  std::uint64_t fetched = 0;  ///< samples that were read
  std::uint64_t fetched_bytes = 0;
  std::uint64_t fetch_failures = 0;  ///< that were asked for and did not come: damaged, changed, too late
  std::uint64_t write_failures = 0;
  double read_cpu_s = 0, write_cpu_s = 0;  ///< CPU time of the tier's own threads
  /// While it had many reads to do, so that storage gave what it can: that time, and what was read in it.
  double many_s = 0;
  std::uint64_t many_reads = 0, many_bytes = 0;
  double write_s = 0;  ///< time of the thread that writes, with storage
  double admitted_share = 1;
  bool past_page_cache = false;  ///< samples are read with O_DIRECT, where the file system can
  bool is_full = false;          ///< the last write found no room
  bool is_over_budget = false;   ///< the last one would have passed the day's bytes
  std::string trouble{};         ///< the last fault of storage, "" while there was none
  std::uint64_t troubles = 0;    ///< faults so far
};

/// Samples in files of one folder, with the threads that read and write them. All streams of the process with the same
/// folder, place and budget use one.
///
/// Nothing here is an error of a stream, and nothing waits for storage but the tier's own threads: one that opens, looks
/// and writes, and up to kReaders that read. A read that has no answer within kAnswerNs ends as one that failed, and the
/// tier is left alone for a while. A thread that storage never lets go of is left behind when the tier ends.
///
/// Threads: thread-safe.
class FileTier {
 public:
  /// The tier of these options, which other streams of the process may use already. It is opened by its thread; the call
  /// waits for that for at most kOpenNs. May throw std::bad_alloc.
  static std::shared_ptr<FileTier> open(const FileTierOptions& options);
  ~FileTier();
  FileTier(const FileTier&) = delete;
  FileTier& operator=(const FileTier&) = delete;

  /// The sample, if it can be asked for now; else empty. Never waits for storage.
  io::SegmentEntry find(Hash128 identity) const;
  /// Read a sample: the group is told. May throw std::bad_alloc before anything was begun.
  void fetch(TierRead read);
  /// Whether a sample that is made now would be written.
  bool wants(std::uint64_t source, Hash128 identity) const;
  /// Memory for a sample that is only made to be written, within the bounds of what waits to be; null if there is none.
  std::shared_ptr<std::byte> room(std::uint64_t bytes) const;
  /// Write a sample, some time, if it is wanted.
  void offer(TierWrite write);
  /// Give up what has waited too long. Call it about once a second.
  void look();
  FileTierStats stats() const;
  const FileTierOptions& options() const;

  static constexpr std::size_t kReaders = 16;
  static constexpr std::int64_t kAnswerNs = 1'000'000'000;
  static constexpr std::int64_t kOpenNs = 200'000'000;
  /// Bytes that wait to be written.
  static constexpr std::uint64_t kQueueBytes = 64 << 20;

 private:
  struct State;
  explicit FileTier(std::shared_ptr<State> state);
  std::shared_ptr<State> state_;
};

}  // namespace carya::loader
