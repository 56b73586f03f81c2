#include "autotune/sharing/chunking.h"

#include <algorithm>
#include <cmath>

namespace carya::autotune {
namespace {

constexpr double kChunkWorkS = 8e-3;
constexpr double kChunkWorkMinS = 5e-4;
constexpr double kUnknownRows = 8;
/// Of one stream: each has the scheduler's lock for some 3 us.
constexpr double kChunksPerSMax = 50'000;
/// Batches that the trainer has, or is about to have.
constexpr double kSlotsTaken = 2;
/// Of a chunk of samples that lie in memory: long enough to hide the scheduling.
constexpr double kMemoryChunkBytes = 2 << 20;
/// Storage answers late now and then.
constexpr double kLatencyMargin = 2;
constexpr double kReadsMax = 4096;
/// Of a photo, and the rows of a chunk that slots are made for at most: they are memory.
constexpr double kPhotoCpuS = 400e-6;
constexpr double kSlotChunkRows = 8;

double known(double number) {
  return std::isfinite(number) && number > 0 ? number : 0;
}

double chunk_rows(const ChunkingInputs& facts, double batch_rows, double threads) {
  const double cpu_s = known(facts.sample_cpu_s);
  const double by_work = cpu_s > 0 ? std::round(kChunkWorkS / cpu_s) : kUnknownRows;
  const double record_bytes = known(facts.record_bytes);
  if (record_bytes == 0) {
    const double by_bytes = std::floor(kMemoryChunkBytes / std::max(known(facts.row_bytes), 1.0));
    return std::min(by_bytes, cpu_s > 0 ? by_work : by_bytes);
  }
  const double by_slots = std::floor(batch_rows * (static_cast<double>(facts.slots) - kSlotsTaken) / threads);
  const double by_rate = cpu_s > 0 ? std::ceil(threads / (cpu_s * kChunksPerSMax)) : 1;
  const double least =
      std::max(cpu_s > 0 ? std::round(kChunkWorkMinS / cpu_s) : 1, std::min(by_rate, by_slots));
  const double share = std::floor(batch_rows / (2 * threads));
  const double in_memory =
      std::floor(static_cast<double>(facts.memory_bytes) / (record_bytes * (threads + 1)));
  return std::min({by_work, std::max(share, least), std::max(in_memory, 1.0)});
}

}  // namespace

Flow flow(const ChunkingInputs& facts) {
  const double threads = std::max<double>(facts.threads, 1);
  const double batch_rows = std::max<double>(static_cast<double>(facts.batch_rows), 1);
  const double rows = std::clamp(chunk_rows(facts, batch_rows, threads), 1.0, batch_rows);
  double reads = 0;  // of records
  if (const double cpu_s = known(facts.sample_cpu_s); cpu_s > 0)
    reads = std::ceil(kLatencyMargin * known(facts.read_latency_s) * threads / cpu_s);
  double ahead = 2 * threads + 2 + std::ceil(reads / rows);
  if (const double chunk_bytes = rows * known(facts.record_bytes); chunk_bytes > 0)
    ahead = std::min(ahead, std::max(2.0, std::floor(static_cast<double>(facts.memory_bytes) / chunk_bytes)));
  return {.chunk_rows = static_cast<std::uint64_t>(rows),
          .ahead_chunks = static_cast<std::uint32_t>(std::min<double>(ahead, kAheadChunksMax)),
          .reads = static_cast<std::uint32_t>(std::clamp(reads, 1.0, kReadsMax))};
}

std::uint32_t slots_for(std::uint32_t threads, std::uint64_t batch_rows) {
  const double rows = std::min(kSlotChunkRows, std::ceil(threads / (kPhotoCpuS * kChunksPerSMax)));
  const double batches =
      std::ceil(rows * threads / static_cast<double>(std::max<std::uint64_t>(batch_rows, 1)));
  return static_cast<std::uint32_t>(std::min(kSlotsTaken + batches, 1e6));
}

Flow steadied(const Flow& present, const Flow& better) {
  const bool other =
      better.chunk_rows >= 2 * present.chunk_rows || 2 * better.chunk_rows <= present.chunk_rows;
  return {other ? better.chunk_rows : present.chunk_rows, std::max(present.ahead_chunks, better.ahead_chunks),
          std::max(present.reads, better.reads)};
}

}  // namespace carya::autotune
