#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "base/mutex.h"
#include "loader/cache/cache_shelf.h"

namespace carya::loader {

struct SampleCacheOptions {
  std::uint64_t records = 1;         ///< records that there are, above 0
  std::uint64_t capacity_bytes = 0;  ///< the most that is kept
  /// The bytes that this process can still get (shm/memory_limit.h); UINT64_MAX: not known. Asked a few times a second.
  std::function<std::uint64_t()> available_bytes;
};

/// Figures for stats().
struct SampleCacheStats {
  std::uint64_t capacity_bytes = 0;
  std::uint64_t limit_bytes = 0;  ///< what may be used now: less than the capacity while memory is short
  std::uint64_t bytes = 0;        ///< that are used
  std::uint64_t records = 0;      ///< that are kept
  std::uint64_t filled = 0;       ///< samples that were put in
  std::uint64_t given_up = 0;     ///< of these, those that went again for want of room
  double admitted_share = 1;      ///< share of all records that may be kept
  double age_s = 0;               ///< since the first sample was put in; 0: there was none
};

/// Samples of a dataset's records in memory, by the record's index before the views.
///
/// Which records are kept depends on nothing but their hashes: those below a threshold, which only falls. It begins where
/// all are kept, falls to what fits as the sizes of samples become known, and once more when memory runs short. So the
/// same records are found in every epoch, in whatever order they come, and hits are in proportion to the room.
///
/// Memory that cannot be had means that less is kept, never an error. What readers hold stays readable.
/// Threads: thread-safe. find() and admits() take the lock of one shelf in kShelves for a look at a table.
class SampleCache {
 public:
  explicit SampleCache(const SampleCacheOptions& options);

  /// The record's sample; empty if it is not kept.
  KeptSample find(std::uint64_t record) const;
  /// Whether a sample of the record that is made now would be kept.
  bool admits(std::uint64_t record) const;
  /// Take memory for the sample of a record. The caller writes it, then calls publish(); if it cannot, the record is not
  /// tried again. Null if it is not kept: not admitted, there already, tried before, or there is no memory.
  std::byte* reserve(std::uint64_t record, std::uint64_t bytes);
  void publish(std::uint64_t record, std::uint64_t bytes);
  /// Look at the memory that is left, and give back what others need. Call it about once a second.
  void look();

  SampleCacheStats stats() const;

  /// The cache is divided by hash into so many shelves; one is given up as a whole.
  static constexpr std::size_t kShelves = 512;
  /// So much of what is free without the cache stays free.
  static constexpr double kLeftFree = 0.1;

 private:
  CacheShelf& shelf_of(std::uint64_t record) const { return *shelves_[place_of(record)]; }
  static std::size_t place_of(std::uint64_t record);
  void look_if_due();
  void lower_to(std::size_t open);
  void fit(std::uint64_t more_bytes);
  void learn(std::uint64_t filled, std::uint64_t filled_bytes);

  const SampleCacheOptions options_;
  const std::uint64_t segment_bytes_;
  std::vector<std::unique_ptr<CacheShelf>> shelves_;
  std::atomic<std::size_t> open_{kShelves};  // shelves below it are open; only falls, under lowering_
  std::atomic<std::uint64_t> limit_bytes_;
  std::atomic<std::uint64_t> bytes_{0};
  std::atomic<std::int64_t> look_ns_{0};  // when the memory is looked at next
  Mutex lowering_;

  // Figures, relaxed: each is only shown, or an estimate.
  std::atomic<std::uint64_t> filled_{0}, filled_bytes_{0}, given_up_{0};
  std::atomic<std::int64_t> begun_ns_{0};  // when the first sample was put in
};

}  // namespace carya::loader
