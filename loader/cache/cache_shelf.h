#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>

#include "base/mapping.h"
#include "base/mutex.h"

namespace carya::loader {

/// A sample in memory, which stays readable as long as this object lives, also when the cache has given it up.
struct KeptSample {
  std::shared_ptr<const Mapping> memory{};
  std::span<const std::byte> bytes{};
  explicit operator bool() const { return memory != nullptr; }
};

/// A part of a cache that is given up as a whole: samples by record, one behind the other in private mappings, which take
/// memory page by page as they are written. Threads: thread-safe.
class CacheShelf {
 public:
  /// A mapping has `segment_bytes`, or as much as one sample needs.
  explicit CacheShelf(std::uint64_t segment_bytes) : segment_bytes_(segment_bytes) {}

  /// The bytes that a sample takes: rounded up, with its entry in the table.
  static std::uint64_t room_of(std::uint64_t bytes);
  /// The record's sample, if it was published; else empty.
  KeptSample find(std::uint64_t record) const;
  /// Memory for a sample that nobody finds before publish(). Null if the shelf is closed, the record has some already, or
  /// there is none. It is given once: a sample that could not be made is not tried again. It stays until publish(), also
  /// if the shelf is closed.
  std::byte* reserve(std::uint64_t record, std::uint64_t bytes);
  /// The sample is written. Returns whether it is kept: the shelf may have been closed meanwhile.
  bool publish(std::uint64_t record);
  struct Contents {
    std::uint64_t bytes = 0;    ///< room_of() all that was reserved
    std::uint64_t records = 0;  ///< samples that were published
  };
  Contents contents() const;
  /// Take nothing more, and let go of all. Returns what there was.
  Contents close();

 private:
  struct Entry {
    std::shared_ptr<const Mapping> memory;
    std::span<std::byte> bytes;
    bool ready = false;
  };
  std::byte* take(std::uint64_t record, std::uint64_t bytes) REQUIRES(mutex_);

  const std::uint64_t segment_bytes_;
  mutable Mutex mutex_;
  bool closed_ GUARDED_BY(mutex_) = false;
  std::unordered_map<std::uint64_t, Entry> entries_ GUARDED_BY(mutex_);
  std::shared_ptr<Mapping> segment_ GUARDED_BY(mutex_);  // the one that is filled
  std::uint64_t used_bytes_ GUARDED_BY(mutex_) = 0;      // of segment_
  Contents contents_ GUARDED_BY(mutex_);
};

}  // namespace carya::loader
