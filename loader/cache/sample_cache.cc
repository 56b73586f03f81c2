#include "loader/cache/sample_cache.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/clock.h"
#include "loader/cache/record_hash.h"

namespace carya::loader {
namespace {

constexpr std::int64_t kLookNs = 200'000'000;
/// A segment of a shelf takes address space only; it is large enough for few mappings, small enough to waste little.
constexpr std::uint64_t kSegmentBytesMin = 256 << 10, kSegmentBytesMax = 16 << 20;
constexpr std::uint64_t kSegmentsPerShelf = 4;
/// The mean size of samples is believed after so many, and then after each doubling.
constexpr std::uint64_t kLearnAfter = 32;

}  // namespace

std::size_t SampleCache::place_of(std::uint64_t record) {
  static_assert(std::has_single_bit(kShelves));
  return record_hash(record) >> (64 - std::countr_zero(kShelves));
}

SampleCache::SampleCache(const SampleCacheOptions& options)
    : options_(options),
      segment_bytes_(std::clamp(options.capacity_bytes / kShelves / kSegmentsPerShelf, kSegmentBytesMin,
                                kSegmentBytesMax)),
      limit_bytes_(options.capacity_bytes) {
  for (std::size_t i = 0; i < kShelves; ++i) shelves_.push_back(std::make_unique<CacheShelf>(segment_bytes_));
  look();
}

KeptSample SampleCache::find(std::uint64_t record) const {
  return admits(record) ? shelf_of(record).find(record) : KeptSample{};
}

bool SampleCache::admits(std::uint64_t record) const {
  return place_of(record) < open_.load(std::memory_order_relaxed) &&
         limit_bytes_.load(std::memory_order_relaxed) > 0;
}

std::byte* SampleCache::reserve(std::uint64_t record, std::uint64_t bytes) {
  look_if_due();
  const std::uint64_t room = CacheShelf::room_of(bytes);
  // The room is taken before the shelf counts it, which may be closed at any time.
  std::uint64_t taken = bytes_;
  do {
    if (taken + room > limit_bytes_) fit(room);
    const std::uint64_t limit = limit_bytes_;
    if (!admits(record) || room > limit) return nullptr;
    taken = std::min(bytes_.load(), limit - room);  // where there is more, another one was faster: try again
  } while (!bytes_.compare_exchange_weak(taken, taken + room));
  std::byte* const memory = shelf_of(record).reserve(record, bytes);
  if (memory == nullptr) bytes_ -= room;
  return memory;
}

void SampleCache::publish(std::uint64_t record, std::uint64_t bytes) {
  if (!shelf_of(record).publish(record)) return;
  const std::uint64_t all = filled_bytes_.fetch_add(CacheShelf::room_of(bytes)) + CacheShelf::room_of(bytes);
  const std::uint64_t filled = filled_.fetch_add(1) + 1;
  if (filled == 1) begun_ns_ = monotonic_ns();
  learn(filled, all);
}

/// Keep no more records than will fit, by the mean size so far and its error. What fits exactly is found by fit().
void SampleCache::learn(std::uint64_t filled, std::uint64_t filled_bytes) {
  if (filled < kLearnAfter || !std::has_single_bit(filled)) return;
  const auto count = static_cast<double>(filled);
  const double mean = static_cast<double>(filled_bytes) / count;
  const double share =
      static_cast<double>(limit_bytes_.load()) / (mean * static_cast<double>(options_.records));
  const double open = std::ceil(share * (1 + 1.5 / std::sqrt(count)) * kShelves);
  const MutexLock lock(lowering_);
  if (open < static_cast<double>(open_.load())) lower_to(static_cast<std::size_t>(open));
}

/// Give up the shelves with the highest hashes. Requires lowering_.
void SampleCache::lower_to(std::size_t open) {
  const std::size_t before = open_.exchange(std::min(open, open_.load()));
  for (std::size_t i = open; i < before; ++i) {
    const CacheShelf::Contents gone = shelves_[i]->close();
    bytes_ -= gone.bytes;
    given_up_.fetch_add(gone.records, std::memory_order_relaxed);
  }
}

/// Give up shelves until `more_bytes` fit.
void SampleCache::fit(std::uint64_t more_bytes) {
  if (bytes_ + more_bytes <= limit_bytes_) return;
  const MutexLock lock(lowering_);
  while (open_ > 0 && bytes_ > 0 && bytes_ + more_bytes > limit_bytes_) lower_to(open_ - 1);
}

void SampleCache::look_if_due() {
  std::int64_t due = look_ns_.load(std::memory_order_relaxed);
  const std::int64_t now = monotonic_ns();
  if (now < due || !look_ns_.compare_exchange_strong(due, now + kLookNs)) return;
  look();
}

void SampleCache::look() {
  look_ns_ = monotonic_ns() + kLookNs;
  const std::uint64_t available = options_.available_bytes();
  std::uint64_t limit = options_.capacity_bytes;
  if (available != UINT64_MAX) {
    const double free = static_cast<double>(available) + static_cast<double>(bytes_.load());
    limit = std::min(limit, static_cast<std::uint64_t>((1 - kLeftFree) * free));
  }
  limit_bytes_ = limit;
  fit(0);
}

SampleCacheStats SampleCache::stats() const {
  std::uint64_t records = 0;
  const std::int64_t begun_ns = begun_ns_;
  for (const auto& shelf : shelves_) records += shelf->contents().records;
  return {.capacity_bytes = options_.capacity_bytes,
          .limit_bytes = limit_bytes_,
          .bytes = bytes_,
          .records = records,
          .filled = filled_,
          .given_up = given_up_,
          .admitted_share = static_cast<double>(open_.load()) / kShelves,
          .age_s = begun_ns == 0 ? 0 : static_cast<double>(monotonic_ns() - begun_ns) * 1e-9};
}

}  // namespace carya::loader
