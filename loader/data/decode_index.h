#pragma once

#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "io/store/record_store.h"
#include "loader/data/dataset.h"
#include "transforms/kernels/codec/field_index.h"

namespace carya::loader {

struct DecodeIndexOptions {
  bool wanted = false;
  std::string cache_dir;  ///< where the store files are; "" is the same as not wanted
  std::optional<int>
      spacing;  ///< MCUs between points, 0: one per MCU row; none: the finest within the budget
  double budget_share =
      0.02;  ///< of the dataset's bytes; the file itself may take twice that before compaction
  /// A larger store file is opened while the stream runs already: that reads and checks all of it, which for
  /// 4 MiB (~1,600 records) goes unnoticed, and for all of ImageNet would hold up the first batch.
  std::uint64_t open_at_once_bytes_max = 4 << 20;
  std::uint64_t verify_every = 1000;  ///< one in so many indexed decodes is done again without it; 0: none
};

/// Figures for stats().
struct DecodeIndexStats {
  bool on = false;
  std::string reason;         ///< why it is off, or cannot be written, or is not used yet
  int spacing = 0;            ///< of the first field
  std::uint64_t entries = 0;  ///< records in the store, over all fields
  double points_known_share =
      0;  ///< of the points that complete entries would have; of at most 256 entries, looked at once a second
  std::uint64_t bytes = 0;            ///< of the store files
  std::uint64_t hits = 0;             ///< decodes that began at stored points
  std::uint64_t made = 0;             ///< entries written or extended
  std::uint64_t refused = 0;          ///< entries that were not believed
  std::uint64_t mismatches = 0;       ///< entries that verification found wrong
  std::int64_t mismatch_record = -1;  ///< source index of the last of them
  std::uint64_t dropped = 0;          ///< entries that the store did not take (quota, full buffer, read-only)
};

/// The decode index of one job: a store file per encoded field in the cache folder, found by the manifest's
/// fingerprint (records are those before the views), shared by all jobs on the host.
///
/// It changes no bit of a stream and its trouble never stops one: what cannot be opened, read or written only
/// costs the time it would have saved.
///
/// Threads: thread-safe. begin() and end() never wait for a writer; flush() may wait for another process.
/// Cost: per decode one pread and two hashes (~3 us).
class DecodeIndex {
 public:
  /// One thread's memory between begin() and end(). Grows to the largest entry.
  struct Scratch {
    std::vector<transforms::FieldIndex> fields;
    std::vector<std::vector<std::byte>> known;
    bool begun = false;  ///< begin() gave something
  };

  /// Never null; off (and saying why) when there is nothing to index or no place for it. A store file that
  /// is large waits for the first flush() to be opened; until then begin() gives nothing.
  static std::shared_ptr<DecodeIndex> open(const Dataset& dataset, const DecodeIndexOptions& options);
  /// Opened already, whatever its size, or off.
  static std::shared_ptr<DecodeIndex> open_whole(const Dataset& dataset, const DecodeIndexOptions& options);

  bool on() const { return state_.load(std::memory_order_acquire) != State::kOff; }
  /// Whether the dataset's field `f` has an index.
  bool keeps(std::size_t f) const { return fields_[f].store != nullptr; }
  /// What is stored for a record, as Plan::run takes it; empty when off. `source` is the index before views.
  std::span<transforms::FieldIndex> begin(Scratch& scratch, std::uint64_t source, std::uint64_t epoch) const;
  /// What is stored for a field of a record, in `memory`, which grows as needed; empty: nothing.
  std::span<const std::byte> entry(std::size_t field, std::uint64_t source,
                                   std::vector<std::byte>& memory) const;
  /// Whether the record's entries are to be verified in this epoch.
  bool verifies(std::uint64_t source, std::uint64_t epoch) const;
  /// Keep what the run made of what begin() gave.
  void end(const Scratch& scratch, std::uint64_t source);

  /// Whether flush() should be called; true once until it was.
  bool ask_flush();
  /// ask_flush() said so, and flush() was not called since.
  bool asked() const { return asked_; }
  /// More than half of the room for entries that wait is taken.
  bool urgent() const;
  /// Open what was not opened yet; write what waits, and see what other processes wrote; compact now and
  /// then. By one thread at a time.
  void flush();
  /// flush(), and leave a small store without garbage. Nothing while it is being opened.
  void close();

  DecodeIndexStats stats() const;

 private:
  struct Field {
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

  mutable std::mutex looking_;  // guards what follows
  mutable std::int64_t looked_ns_ = 0;
  mutable double known_share_ = 0;
};

/// Points per MCU row that fit a budget: 8, 16, or 0 for rows; nothing when even rows do not.
/// Measured: bench_jpeg's photos (mean 106 KB): 1.81 %, 0.95 % and 0.24 % of the file, and 68 B per entry.
std::optional<int> spacing_for(double file_bytes_mean, double budget_share);

}  // namespace carya::loader
