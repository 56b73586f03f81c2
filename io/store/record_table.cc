#include "io/store/record_table.h"

#include <fmt/core.h>
#include <algorithm>
#include <string>
#include <utility>

#include "io/store/store_format.h"

namespace carya::io {
namespace {

static_assert(sizeof(std::atomic<std::uint64_t>) == 8 && std::atomic<std::uint64_t>::is_always_lock_free);

constexpr int kBytesBits = 28;
static_assert(kStoreEntryBytesMax == (std::uint64_t{1} << kBytesBits) - 1);
static_assert(kStoreBytesMax / kEntryAlign == std::uint64_t{1} << (64 - kBytesBits));

std::optional<RecordTable::Place> unpack(std::uint64_t word) {
  if (word == 0) return std::nullopt;
  return RecordTable::Place{.offset = (word >> kBytesBits) * kEntryAlign,
                            .bytes = static_cast<std::uint32_t>(word & kStoreEntryBytesMax)};
}

}  // namespace

Result<RecordTable> RecordTable::create(std::uint64_t record_count) {
  CHECK(record_count <= kStoreRecordsMax);
  const std::size_t bytes = std::max<std::size_t>(record_count, 1) * sizeof(std::uint64_t);
  auto memory = Mapping::anonymous(bytes, "table of records");
  if (!memory)
    return fail(Code::kExhausted, fmt::format("table of {} records: no address space", record_count),
                memory.error().sys_errno);
  return RecordTable(std::move(*memory), record_count);
}

RecordTable::RecordTable(Mapping memory, std::uint64_t record_count)
    : memory_(std::move(memory)), record_count_(record_count) {}

RecordTable::RecordTable(RecordTable&& other) noexcept
    : memory_(std::move(other.memory_)), record_count_(std::exchange(other.record_count_, 0)) {}

std::optional<RecordTable::Place> RecordTable::get(std::uint64_t record) const {
  if (record >= record_count_) return std::nullopt;
  return unpack(word(record).load(std::memory_order_acquire));  // partner: put; the entry is in the file
}

std::optional<RecordTable::Place> RecordTable::put(std::uint64_t record, Place place) {
  CHECK(record < record_count_ && place.bytes <= kStoreEntryBytesMax);
  CHECK(place.offset != 0 && place.offset % kEntryAlign == 0 && place.offset < kStoreBytesMax);
  const std::uint64_t packed = (place.offset / kEntryAlign) << kBytesBits | place.bytes;
  const std::uint64_t before = word(record).load(std::memory_order_relaxed);  // only this thread puts
  word(record).store(packed, std::memory_order_release);                      // partner: get
  return unpack(before);
}

}  // namespace carya::io
