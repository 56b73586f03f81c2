#include "autotune/sharing/chunking.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

namespace carya::autotune {
namespace {

constexpr double kMicro = 1e-6;

ChunkingInputs photo_chunks(std::uint32_t threads) {
  return {.sample_cpu_s = 700 * kMicro,
          .record_bytes = 110'000,
          .read_latency_s = 100 * kMicro,
          .row_bytes = 150'528,
          .threads = threads,
          .batch_rows = 128,
          .memory_bytes = 64 << 20};
}

TEST(Flow, PhotosAreComputedElevenAtATime) {
  EXPECT_EQ(flow(photo_chunks(2)).chunk_rows, 11U);
  EXPECT_EQ(flow(photo_chunks(32)).chunk_rows, 2U);  // two chunks of a batch for each thread
}

TEST(Flow, CheapSamplesGoInLongChunksAndDearOnesAlone) {
  ChunkingInputs facts = photo_chunks(2);
  facts.sample_cpu_s = 20 * kMicro;
  facts.record_bytes = 5'000;
  EXPECT_EQ(flow(facts).chunk_rows, 32U);
  facts.threads = 32;
  EXPECT_EQ(flow(facts).chunk_rows, 25U);  // no less than half a millisecond
  facts.sample_cpu_s = 20'000 * kMicro;
  EXPECT_EQ(flow(facts).chunk_rows, 1U);
}

TEST(Flow, ManyThreadsTakeNoMoreChunksThanTheLockHasRoomFor) {
  ChunkingInputs facts = photo_chunks(224);
  facts.sample_cpu_s = 2'000 * kMicro;
  facts.record_bytes = 1'000;
  EXPECT_EQ(flow(facts).chunk_rows, 1U) << "nobody knows whether there are slots enough";
  facts.slots = 16;
  EXPECT_EQ(flow(facts).chunk_rows, 3U) << "37,000 of 112,000 samples per second";
  facts.slots = 5;
  EXPECT_EQ(flow(facts).chunk_rows, 1U) << "224 threads have work for three batches of 128";
  facts.slots = 16;
  facts.sample_cpu_s = 20'000 * kMicro;
  EXPECT_EQ(flow(facts).chunk_rows, 1U) << "they take few as it is";
}

TEST(Flow, SlotsGrowWithTheThreadsThatShareThem) {
  EXPECT_EQ(slots_for(2, 128), 3U);
  EXPECT_EQ(slots_for(64, 128), 4U);
  EXPECT_EQ(slots_for(224, 128), 16U);
  EXPECT_EQ(slots_for(224, 1024), 4U);
  EXPECT_GT(slots_for(1024, 0), 1000U) << "whoever makes slots has a bound of his own";
  ChunkingInputs facts = photo_chunks(224);
  facts.sample_cpu_s = 400 * kMicro;
  facts.memory_bytes = std::uint64_t{2} << 30;
  facts.slots = 4;
  EXPECT_EQ(flow(facts).chunk_rows, 1U) << "560,000 chunks a second";
  facts.slots = slots_for(224, 128);
  EXPECT_EQ(flow(facts).chunk_rows, 8U) << "70,000";
}

TEST(Flow, WithoutACostItIsThatOfPhotos) {
  ChunkingInputs facts = photo_chunks(2);
  for (const double unknown : {0.0, -1.0, std::nan(""), std::numeric_limits<double>::infinity()}) {
    facts.sample_cpu_s = unknown;
    EXPECT_EQ(flow(facts), (Flow{8, 6}));
  }
}

TEST(Flow, SlowStorageIsAskedEarlier) {
  ChunkingInputs facts = photo_chunks(8);
  EXPECT_EQ(flow(facts).ahead_chunks, 19U);
  EXPECT_EQ(flow(facts).reads, 3U);
  facts.read_latency_s = 10'000 * kMicro;  // 11,429 photos/s * 10 ms * 2 = 229
  EXPECT_EQ(flow(facts).ahead_chunks, 18U + 29U);
  EXPECT_EQ(flow(facts).reads, 229U);
  facts.memory_bytes = 10 << 20;
  EXPECT_EQ(flow(facts).ahead_chunks, 11U);  // of 8 * 110,000 B
}

TEST(Flow, SamplesInMemoryGoByTheirBytesUnlessTheyAreDear) {
  ChunkingInputs facts = photo_chunks(2);
  facts.record_bytes = 0;
  facts.sample_cpu_s = 0;
  EXPECT_EQ(flow(facts).chunk_rows, 13U);
  facts.sample_cpu_s = 30 * kMicro;
  EXPECT_EQ(flow(facts).chunk_rows, 13U);
  facts.sample_cpu_s = 2'500 * kMicro;
  EXPECT_EQ(flow(facts).chunk_rows, 3U);
  facts.row_bytes = 1;
  facts.sample_cpu_s = 0;
  EXPECT_EQ(flow(facts).chunk_rows, 128U);  // a whole batch is the most
}

TEST(Flow, IsPossibleForAnyFacts) {
  std::mt19937_64 random(1);
  const auto any = [&] { return std::pow(10.0, std::uniform_real_distribution(-12.0, 12.0)(random)); };
  for (int i = 0; i < 10'000; ++i) {
    const ChunkingInputs facts{.sample_cpu_s = any(),
                               .record_bytes = i % 3 == 0 ? 0 : any(),
                               .read_latency_s = any(),
                               .row_bytes = any(),
                               .threads = static_cast<std::uint32_t>(random() % 300),
                               .batch_rows = random() % 5000,
                               .memory_bytes = random() % (1 << 30)};
    const Flow found = flow(facts);
    ASSERT_GE(found.chunk_rows, 1U);
    ASSERT_LE(found.chunk_rows, std::max<std::uint64_t>(facts.batch_rows, 1));
    ASSERT_GE(found.ahead_chunks, 2U);
    ASSERT_LE(found.ahead_chunks, 4096U);
    ASSERT_GE(found.reads, 1U);
    ASSERT_LE(found.reads, 4096U);
  }
}

TEST(Flow, WaveringMeasurementsChangeNothing) {
  const Flow present{8, 20};
  EXPECT_EQ(steadied(present, {6, 15}), present);
  EXPECT_EQ(steadied(present, {15, 20}), present);
  EXPECT_EQ(steadied(present, {16, 20}), (Flow{16, 20}));
  EXPECT_EQ(steadied(present, {4, 10}), (Flow{4, 20}));
  EXPECT_EQ(steadied(present, {8, 31}), (Flow{8, 31}));
  EXPECT_EQ(steadied({8, 20, 30}, {8, 20, 10}).reads, 30U);
  EXPECT_EQ(steadied({8, 20, 30}, {8, 20, 40}).reads, 40U);
}

}  // namespace
}  // namespace carya::autotune
