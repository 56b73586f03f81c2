#pragma once

#include <atomic>
#include <cstdint>
#include <optional>

#include "base/error.h"
#include "base/mapping.h"

namespace carya::io {

/// Where each record's newest entry is: record -> (offset in the file, bytes of the payload), one word each.
///
/// The words are anonymous memory that costs a page per 512 neighbouring records that have an entry, so a
/// store with few entries of a large data set stays small, and nothing is allocated after creation. Threads:
/// put by one thread at a time, get by any, at any time.
class RecordTable {
 public:
  struct Place {
    std::uint64_t offset = 0;  ///< of the entry's head; a multiple of 8 below kStoreBytesMax
    std::uint32_t bytes = 0;   ///< at most kStoreEntryBytesMax
  };

  /// Errors: kExhausted (address space).
  static Result<RecordTable> create(std::uint64_t record_count);
  RecordTable(RecordTable&& other) noexcept;
  RecordTable& operator=(RecordTable&&) = delete;

  std::uint64_t record_count() const { return record_count_; }

  /// Nothing for a record without an entry or out of range. Cost: a memory access.
  std::optional<Place> get(std::uint64_t record) const;

  /// The place that was there before. CHECKs the ranges.
  std::optional<Place> put(std::uint64_t record, Place place);

 private:
  RecordTable(Mapping memory, std::uint64_t record_count);
  std::atomic<std::uint64_t>& word(std::uint64_t record) const {
    return reinterpret_cast<std::atomic<std::uint64_t>*>(memory_.data())[record];
  }

  Mapping memory_;  // a word per record; 0: no entry (offset 0 is the file's header)
  std::uint64_t record_count_ = 0;
};

}  // namespace carya::io
