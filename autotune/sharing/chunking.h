#pragma once

#include <cstdint>

namespace carya::autotune {

/// What is known of a stream's work, by measurement or by the cost model.
struct ChunkingInputs {
  double sample_cpu_s = 0;         ///< CPU time of one sample; 0: unknown
  double record_bytes = 0;         ///< bytes read for one sample; 0: nothing is read
  double read_latency_s = 0;       ///< time of one read; 0: unknown
  double row_bytes = 1;            ///< bytes of one sample in memory, in and out
  std::uint32_t threads = 1;       ///< threads that compute the stream
  std::uint64_t batch_rows = 1;    ///< rows of a batch of this rank
  std::uint64_t memory_bytes = 0;  ///< memory for records that are read ahead
  /// Batches that there may be at the same time, two of them the trainer's; 0: unknown.
  std::uint32_t slots = 0;
};

/// The largest number of chunks under way.
inline constexpr std::uint32_t kAheadChunksMax = 4096;

/// How much of a stream's work is one task, and how much of it is under way. Changes no bit.
struct Flow {
  std::uint64_t chunk_rows = 1;
  std::uint32_t ahead_chunks = 1;  ///< being read, or waiting for a thread
  std::uint32_t reads = 1;         ///< under way at the same time, so that the threads never lack any

  bool operator==(const Flow&) const = default;
};

/// Chunks of about 8 ms of work, so that a batch's tail is short, and of no less than 0.5 ms where the batch
/// has it, so that scheduling (5 us) does not show; two for each thread where that leaves them long enough. No more
/// than 50,000 per second, so that the lock through which all threads go has room, where the slots hold enough of them.
/// Ahead of the threads as many as storage needs to answer (Little's law: rate times latency, twice), within
/// the memory. Without a cost: 8 records, as photos want it. Numbers that cannot be count as unknown.
Flow flow(const ChunkingInputs& facts);

/// The slots that let the chunks of `threads` threads be as long as flow() wants them for samples of 400 us, such as
/// photos: where many threads share few slots, each chunk has one row, and the threads wait for the lock.
std::uint32_t slots_for(std::uint32_t threads, std::uint64_t batch_rows);

/// The flow to go on with: `better` where its chunks are of twice or half the size, else the present one;
/// what is read ahead never shrinks, so that a measurement that wavers changes nothing.
Flow steadied(const Flow& present, const Flow& better);

}  // namespace carya::autotune
