#include "loader/cache/sample_cache.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <numeric>
#include <random>
#include <set>
#include <thread>

namespace carya::loader {
namespace {

constexpr std::uint64_t kPlenty = 1ULL << 40;

SampleCacheOptions options(std::uint64_t records, std::uint64_t capacity) {
  return {.records = records, .capacity_bytes = capacity, .available_bytes = [] { return kPlenty; }};
}

/// Bytes of a record's sample: of a size of its own, around `mean`.
std::uint64_t size_of(std::uint64_t record, std::uint64_t mean) {
  return mean / 2 + record * 7919 % mean;
}

bool fill(SampleCache& cache, std::uint64_t record, std::uint64_t bytes) {
  std::byte* const memory = cache.reserve(record, bytes);
  if (memory == nullptr) return false;
  std::memset(memory, static_cast<int>(record % 251), bytes);
  cache.publish(record, bytes);
  return true;
}

bool is_right(const KeptSample& sample, std::uint64_t record) {
  return std::ranges::all_of(sample.bytes, [&](std::byte b) { return b == std::byte(record % 251); });
}

/// One epoch in this order: the records that were found.
std::set<std::uint64_t> play(SampleCache& cache, const std::vector<std::uint64_t>& order,
                             std::uint64_t mean) {
  std::set<std::uint64_t> found;
  for (const std::uint64_t record : order) {
    if (const KeptSample sample = cache.find(record)) {
      EXPECT_EQ(sample.bytes.size(), size_of(record, mean));
      EXPECT_TRUE(is_right(sample, record));
      found.insert(record);
    } else if (cache.admits(record)) {
      fill(cache, record, size_of(record, mean));
    }
  }
  return found;
}

std::vector<std::uint64_t> shuffled(std::uint64_t records, std::uint32_t seed) {
  std::vector<std::uint64_t> order(records);
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), std::mt19937(seed));
  return order;
}

TEST(SampleCache, TheSameRecordsHitInEveryOrder) {
  constexpr std::uint64_t kRecords = 3000, kMean = 900;
  for (const double share : {0.1, 0.4}) {
    SampleCache one(options(kRecords, static_cast<std::uint64_t>(share * kRecords * (kMean + 96))));
    SampleCache other(options(kRecords, static_cast<std::uint64_t>(share * kRecords * (kMean + 96))));
    EXPECT_TRUE(play(one, shuffled(kRecords, 1), kMean).empty());
    const std::set<std::uint64_t> kept = play(one, shuffled(kRecords, 2), kMean);
    EXPECT_EQ(play(one, shuffled(kRecords, 3), kMean), kept);
    play(other, shuffled(kRecords, 4), kMean);
    // In another order the last shelf may have gone or stayed, when it was nearly full.
    const std::set<std::uint64_t> same = play(other, shuffled(kRecords, 5), kMean);
    std::vector<std::uint64_t> differ;
    std::ranges::set_symmetric_difference(kept, same, std::back_inserter(differ));
    EXPECT_LE(differ.size(), 3 * kRecords / SampleCache::kShelves);
    EXPECT_EQ(one.stats().filled - one.stats().given_up, kept.size());
  }
}

TEST(SampleCache, HitsAreInProportionToTheRoom) {
  constexpr std::uint64_t kRecords = 4000, kMean = 700;
  std::uint64_t bytes = 0;
  for (std::uint64_t r = 0; r < kRecords; ++r) bytes += CacheShelf::room_of(size_of(r, kMean));
  for (const double share : {0.0, 0.1, 0.25, 0.5, 0.9, 1.0}) {
    SampleCache cache(options(kRecords, static_cast<std::uint64_t>(share * static_cast<double>(bytes))));
    play(cache, shuffled(kRecords, 1), kMean);
    const double found = static_cast<double>(play(cache, shuffled(kRecords, 2), kMean).size()) / kRecords;
    EXPECT_NEAR(found, share, 0.02);
    if (share < 1) EXPECT_LE(found, share + 0.01);
    // Most of what is not kept was never written.
    EXPECT_LE(static_cast<double>(cache.stats().given_up), 0.12 * kRecords) << share;
  }
}

TEST(SampleCache, NeverTakesMoreThanItsRoom) {
  std::mt19937_64 random(3);
  for (int round = 0; round < 20; ++round) {
    const std::uint64_t capacity = random() % 2'000'000;
    SampleCache cache(options(500, capacity));
    for (std::uint64_t record = 0; record < 500; ++record) {
      fill(cache, record, 1 + random() % (round % 2 == 0 ? 100'000 : 2'000));
      const SampleCacheStats stats = cache.stats();
      ASSERT_LE(stats.bytes, capacity);
      ASSERT_LE(stats.records, stats.filled);
    }
  }
}

TEST(SampleCache, NeverTakesMoreThanItsRoomWhoeverFillsItAtOnce) {
  constexpr std::uint64_t kRecords = 400, kBytes = 3'000, kCapacity = 200 * kBytes;
  std::atomic<std::uint64_t> most{0};
  for (int round = 0; round < 300; ++round) {
    SampleCache cache(options(kRecords, kCapacity));
    std::atomic<std::uint64_t> next{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t)
      threads.emplace_back([&] {
        for (std::uint64_t record = next++; record < kRecords; record = next++) {
          fill(cache, record, kBytes);
          const std::uint64_t bytes = cache.stats().bytes;
          if (bytes > most) most = bytes;
        }
      });
    for (std::thread& thread : threads) thread.join();
  }
  EXPECT_LE(most, kCapacity);
  EXPECT_GT(most, kCapacity / 2);
}

TEST(SampleCache, ASampleIsMadeOnce) {
  SampleCache cache(options(10, 100'000));
  ASSERT_NE(cache.reserve(3, 100), nullptr);
  EXPECT_FALSE(cache.find(3)) << "it is not written yet";
  EXPECT_EQ(cache.reserve(3, 100), nullptr) << "another thread makes it";
  cache.publish(3, 100);
  EXPECT_TRUE(cache.find(3));
  EXPECT_EQ(cache.reserve(3, 100), nullptr);
}

TEST(SampleCache, GivesBackWhatOthersNeed) {
  std::atomic<std::uint64_t> available{kPlenty};
  SampleCache cache(
      {.records = 400, .capacity_bytes = 1 << 20, .available_bytes = [&] { return available.load(); }});
  for (std::uint64_t record = 0; record < 400; ++record) fill(cache, record, 2000);
  const SampleCacheStats full = cache.stats();
  ASSERT_EQ(full.records, 400);
  std::vector<std::pair<std::uint64_t, KeptSample>> held;
  for (std::uint64_t record = 0; record < 400; ++record) held.emplace_back(record, cache.find(record));
  available = 0;  // a tenth of what is free without the cache is to stay free
  cache.look();
  const SampleCacheStats less = cache.stats();
  EXPECT_LE(less.bytes, full.bytes * 9 / 10);
  EXPECT_GE(less.bytes, full.bytes * 8 / 10);
  EXPECT_LE(less.limit_bytes, full.bytes * 9 / 10);
  EXPECT_EQ(less.records + less.given_up, full.records);
  for (const auto& [record, sample] : held) EXPECT_TRUE(is_right(sample, record));
  held.clear();
  for (int i = 0; i < 200; ++i) cache.look();  // what was given back is taken by others at once
  EXPECT_EQ(cache.stats().bytes, 0);
  EXPECT_EQ(cache.stats().records, 0);
}

TEST(SampleCache, WithoutMemoryNothingIsKept) {
  SampleCache none({.records = 10, .capacity_bytes = 1 << 20, .available_bytes = [] { return 0; }});
  EXPECT_FALSE(fill(none, 1, 100));
  SampleCache unknown(
      {.records = 10, .capacity_bytes = 1 << 20, .available_bytes = [] { return UINT64_MAX; }});
  EXPECT_TRUE(fill(unknown, 1, 100));
  // No address space has room for these.
  SampleCache large(
      {.records = 2, .capacity_bytes = UINT64_MAX / 4, .available_bytes = [] { return UINT64_MAX; }});
  EXPECT_FALSE(fill(large, 1, 1ULL << 60));
  EXPECT_EQ(large.stats().bytes, 0);
  EXPECT_TRUE(fill(large, 0, 100));
}

TEST(SampleCache, ThreadsReadRightBytes) {
  constexpr std::uint64_t kRecords = 600, kBytes = 1500;
  std::atomic<std::uint64_t> available{kPlenty};
  SampleCache cache({.records = kRecords, .capacity_bytes = kRecords * kBytes, .available_bytes = [&] {
                       return available.load();
                     }});
  std::atomic<int> wrong{0}, found{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t)
    threads.emplace_back([&, t] {
      std::mt19937_64 random(static_cast<std::uint64_t>(t));
      for (int i = 0; i < 4000; ++i) {
        const std::uint64_t record = random() % kRecords;
        if (const KeptSample sample = cache.find(record)) {
          wrong += is_right(sample, record) ? 0 : 1;
          ++found;
        } else {
          fill(cache, record, kBytes);
        }
        if (t == 0 && i % 500 == 499) {
          available = available == kPlenty ? 100'000 : kPlenty;
          cache.look();
        }
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_GT(found, 0);
  EXPECT_LE(cache.stats().bytes, kRecords * kBytes);
}

}  // namespace
}  // namespace carya::loader
