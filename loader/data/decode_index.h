#pragma once

#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "io/store/record_store.h"
#include "loader/data/dataset.h"
#include "transforms/kernels/codec/field_index.h"

namespace carya::loader {

struct DecodeIndexOptions {
  bool wanted = false;
  std::string cache_dir;  ///< the folder of the store files; "" is the same as not wanted
  std::optional<int>
      spacing;  ///< MCUs between points, 0: one point per MCU row; empty: the finest within the budget
  double budget_share =
      0.02;  ///< share of the dataset's bytes; the file may take twice that before it is compacted
  /// A larger store file is opened while the stream already runs. Opening reads and checks all of it: nobody notices
  /// that for 4 MiB (~1,600 records), but for all of ImageNet it would delay the first batch.
  std::uint64_t open_at_once_bytes_max = 4 << 20;
  std::uint64_t verify_every =
      1000;  ///< one in so many indexed decodes is repeated without the index; 0: none
};

/// Figures for stats().
struct DecodeIndexStats {
  bool on = false;
  std::string reason;         ///< why the index is off, cannot be written, or is not used yet
  int spacing = 0;            ///< the spacing of the first field
  std::uint64_t entries = 0;  ///< records in the store, over all fields
  double points_known_share =
      0;  ///< share of the points of complete entries that are known, over at most 256 entries, once a second
  std::uint64_t bytes = 0;            ///< bytes of the store files
  std::uint64_t hits = 0;             ///< decodes that began at stored points
  std::uint64_t made = 0;             ///< entries written or extended
  std::uint64_t refused = 0;          ///< entries that failed a check and were not used
  std::uint64_t mismatches = 0;       ///< entries that verification found wrong
  std::int64_t mismatch_record = -1;  ///< source index of the last wrong entry
  std::uint64_t dropped = 0;          ///< entries that the store did not take (quota, full buffer, read-only)
};

/// The decode index of one job: a store file per encoded field in the cache folder. The manifest's fingerprint names
/// the file; its records are those before the views. All jobs on the host share it.
///
/// Who may read a store file are those who may read each record that it has an entry of, since an entry holds brightness
/// and color of a part of the blocks. Of objects in a store these are nobody else.
///
/// The index changes no bit of a stream, and its failures never stop one: an index that cannot be opened, read or
/// written only costs the time that it would have saved.
///
/// Threads: thread-safe. begin() and end() never wait for a writer; flush() may wait for another process.
/// Cost: per decode one pread and two hashes (~3 us).
class DecodeIndex {
 public:
  /// One thread's memory between begin() and end(). Grows to the largest entry.
  struct Scratch {
    std::vector<transforms::FieldIndex> fields;
    std::vector<std::vector<std::byte>> known;
    bool begun = false;  ///< begin() returned entries
  };

  /// Open the index; never null. It is off, and says why, if there is nothing to index or no place for it. The first
  /// flush() opens a large store file; until then begin() returns nothing.
  static std::shared_ptr<DecodeIndex> open(const Dataset& dataset, const DecodeIndexOptions& options);
  /// Open the index at once, whatever its size. It may be off.
  static std::shared_ptr<DecodeIndex> open_whole(const Dataset& dataset, const DecodeIndexOptions& options);

  bool on() const { return state_.load(std::memory_order_acquire) != State::kOff; }
  /// Whether the dataset's field `f` has an index.
  bool keeps(std::size_t f) const { return fields_[f].store != nullptr; }
  /// Returns the entries of a record, as Plan::run() takes them; empty if the index is off. `source` is the record's
  /// index before views.
  std::span<transforms::FieldIndex> begin(Scratch& scratch, std::uint64_t source, std::uint64_t epoch) const;
  /// Returns the entry of a field of a record in `memory`, which grows as needed; empty if there is none.
  std::span<const std::byte> entry(std::size_t field, std::uint64_t source,
                                   std::vector<std::byte>& memory) const;
  /// Whether the record's entries are to be verified in this epoch.
  bool verifies(std::uint64_t source, std::uint64_t epoch) const;
  /// Keep the entries that the run made or extended after begin().
  void end(const Scratch& scratch, std::uint64_t source);

  /// Whether flush() should be called. True once, until the next flush().
  bool ask_flush();
  /// Whether ask_flush() was true since the last flush().
  bool asked() const { return asked_; }
  /// Whether the entries that wait fill more than half of their room.
  bool urgent() const;
  /// Open the stores that are not open yet, write the entries that wait, read those that other processes wrote, and
  /// compact now and then. By one thread at a time.
  void flush();
  /// Flush, and compact a small store. Does nothing while the index is being opened.
  void close();

  DecodeIndexStats stats() const;

 private:
  struct Field {
    std::shared_ptr<const io::Manifest> manifest;
    std::shared_ptr<io::RecordStore> store;  // null: not an encoded field, or off
    int spacing = 0;
    bool wanted = false;
    std::string path;
    io::StoreIdentity identity;
    std::uint64_t quota_bytes = 0;
  };
  /// kOpening becomes kReady or kOff, once. Who reads kReady or kOff (acquire) sees the stores and the reason
  /// that were there before (release).
  enum class State : std::uint8_t { kOff, kOpening, kReady };
  void plan_fields(const Dataset& dataset, const DecodeIndexOptions& options);
  void open_stores();
  bool ready() const { return state_.load(std::memory_order_acquire) == State::kReady; }
  void append(const Field& field, std::uint64_t source, std::span<const std::uint8_t> bytes);
  double points_known_share() const;

  mutable io::ReadersOfFiles files_;
  std::atomic<State> state_{State::kOff};
  std::string reason_;
  std::uint64_t verify_every_ = 0;
  std::vector<Field> fields_;  // as the dataset's

  // Counters, relaxed: each is only shown.
  std::atomic<std::uint64_t> hits_{0}, made_{0}, refused_{0}, mismatches_{0}, dropped_{0};
  std::atomic<std::int64_t> mismatch_record_{-1};
  // What waits for flush(); only decides when it is called.
  std::atomic<std::uint64_t> pending_bytes_{0};
  std::atomic<bool> asked_{false};
  std::atomic<std::int64_t> flushed_ns_{0}, compacted_ns_{0};
  std::atomic<std::uint64_t> dropped_seen_{0};

  mutable Mutex looking_;
  mutable std::int64_t looked_ns_ GUARDED_BY(looking_) = 0;
  mutable double known_share_ GUARDED_BY(looking_) = 0;
};

/// Points per MCU row that fit a budget: 8, 16, or 0 for rows; nothing when even rows do not.
/// Measured: bench_jpeg's photos (mean 106 KB): 1.81 %, 0.95 % and 0.24 % of the file, and 68 B per entry.
std::optional<int> spacing_for(double file_bytes_mean, double budget_share);

}  // namespace carya::loader
