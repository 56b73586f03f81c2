#include "io/store/record_table.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
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

std::size_t map_bytes(std::uint64_t record_count) {
  return std::max<std::size_t>(record_count, 1) * sizeof(std::uint64_t);
}

}  // namespace

Result<RecordTable> RecordTable::create(std::uint64_t record_count) {
  CHECK(record_count <= kStoreRecordsMax);
  constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  void* memory = ::mmap(nullptr, map_bytes(record_count), PROT_READ | PROT_WRITE, kFlags, -1, 0);
  if (memory == MAP_FAILED) {
    return fail(Code::kExhausted, "table of " + std::to_string(record_count) + " records: no address space",
                errno);
  }
  return RecordTable(memory, record_count);
}

RecordTable::RecordTable(void* memory, std::uint64_t record_count)
    : words_(static_cast<std::atomic<std::uint64_t>*>(memory)), record_count_(record_count) {}

RecordTable::RecordTable(RecordTable&& other) noexcept
    : words_(std::exchange(other.words_, nullptr)), record_count_(std::exchange(other.record_count_, 0)) {}

RecordTable::~RecordTable() {
  if (words_ != nullptr) ::munmap(static_cast<void*>(words_), map_bytes(record_count_));
}

std::optional<RecordTable::Place> RecordTable::get(std::uint64_t record) const {
  if (record >= record_count_) return std::nullopt;
  return unpack(words_[record].load(std::memory_order_acquire));  // partner: put; the entry is in the file
}

std::optional<RecordTable::Place> RecordTable::put(std::uint64_t record, Place place) {
  CHECK(record < record_count_ && place.bytes <= kStoreEntryBytesMax);
  CHECK(place.offset != 0 && place.offset % kEntryAlign == 0 && place.offset < kStoreBytesMax);
  const std::uint64_t word = (place.offset / kEntryAlign) << kBytesBits | place.bytes;
  const std::uint64_t before = words_[record].load(std::memory_order_relaxed);  // only this thread puts
  words_[record].store(word, std::memory_order_release);                        // partner: get
  return unpack(before);
}

}  // namespace carya::io
