#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "autotune/sharing/chunking.h"
#include "io/read/read_engine.h"
#include "loader/data/dataset.h"
#include "loader/data/store_sources.h"
#include "loader/plan/stream_planner.h"
#include "loader/read/cached_tries.h"
#include "loader/read/read_buffer.h"
#include "loader/read/read_tally.h"
#include "loader/stream/chunk.h"

namespace carya::loader {

/// Figures of a stream's reads so far.
struct ReadStats {
  std::uint64_t reads = 0, read_retries = 0, bytes_read = 0;
  std::int64_t read_latency_ns = 0;  ///< the sum over all reads
  std::int64_t reading_ns = 0;       ///< the time in which at least one read was under way
  /// The part of `reads` and `bytes_read` that compute threads took from the page cache; it is not in reading_ns.
  std::uint64_t cached_reads = 0, cached_bytes = 0;
  /// Reads by the first bound that they did not exceed; slower ones count in `reads` only. Not sent to other processes.
  std::array<std::uint64_t, kReadLatencyBoundsS.size()> reads_within{};
  std::uint64_t buffered_bytes = 0, buffered_bytes_max = 0;

  /// The mean time of a read, in seconds, and the bytes per second while some read was under way; 0 without reads.
  double mean_read_s() const {
    return reads == 0 ? 0 : static_cast<double>(read_latency_ns) * 1e-9 / static_cast<double>(reads);
  }
  double read_bytes_per_s() const {
    return reading_ns <= 0
               ? 0
               : static_cast<double>(bytes_read - cached_bytes) * 1e9 / static_cast<double>(reading_ns);
  }
};

/// The inputs, beside measurements, of the size of chunks and the depth of the read-ahead.
struct ReadAheadOptions {
  /// The most bytes of read buffers ahead of the threads; one chunk is always allowed.
  std::uint64_t budget_bytes = 0;
  std::uint64_t batch_rows = 1;                  ///< rows of this rank's batch
  std::uint64_t row_bytes = 0;                   ///< bytes of a row's outputs in the slot
  std::uint32_t threads = 1;                     ///< compute threads, here and elsewhere
  std::uint32_t slots = 0;                       ///< slots of the ring
  double earlier_cpu_s = 0;                      ///< CPU time of a sample in earlier streams; 0: not known
  double earlier_read_latency_s = 0;             ///< latency of a read in earlier streams; 0: not known
  std::shared_ptr<const StoreSources> stores{};  ///< where reads of objects are counted; null: there are none
};

/// How much of a stream is read before it is needed: rows in a chunk, chunks ahead of the threads, bytes in buffers.
/// ReadAhead also gives chunks their inputs and buffers, and counts their reads.
///
/// The size of a chunk follows from the cost of a sample. The number of chunks ahead follows from the latency of
/// storage. Both follow measurements; the read-ahead never shrinks.
class ReadAhead {
 public:
  /// `pool` outlives this object.
  ReadAhead(std::shared_ptr<const Dataset> dataset, ReadBufferPool& pool, const ReadAheadOptions& options);

  /// Whether some field comes from storage.
  bool has_reads() const { return has_reads_; }
  const autotune::Flow& flow() const { return flow_; }
  void set_budget(std::uint64_t bytes) { options_.budget_bytes = bytes; }

  /// The bytes of the buffer that the chunk's reads need.
  std::uint64_t wanted_bytes(const Chunk& chunk) const;
  /// Whether the reads of a chunk with a buffer of `bytes` may begin, beside `chunks_ahead` others.
  bool has_room(std::uint64_t bytes, std::size_t chunks_ahead) const;
  /// Give the chunk its inputs: those in memory at once, the others as reads into its buffer. The reads of samples from
  /// files begin at once. Returns false if there is no memory for the buffer. May throw std::bad_alloc.
  bool place_inputs(Chunk& chunk, ReadClient& client);
  /// Take a chunk that waited for samples from files and has its inputs now, or whose session is over; null if there is
  /// none.
  Chunk* take_fetched();
  /// The chunk's samples from files did not all come: it needs the records. Its buffer is given up.
  void forget_found(Chunk& chunk);
  /// The chunk's reads begin at `now_ns` (monotonic).
  void begin(Chunk& chunk, std::int64_t now_ns);
  /// The read `op` has ended. `has_bytes`: it succeeded; its bytes are counted, and the slack behind them is cleared.
  void note_read(const ReadOp& op, const io::ReadCompletion& completion, bool has_bytes);
  /// Whether `threads` compute threads may each read `bytes` themselves: half as much again as the budget at most,
  /// since chunks differ and little is read ahead meanwhile.
  bool has_cache_room(std::uint64_t bytes, std::uint32_t threads);
  /// A thread tried to take a chunk's inputs from the page cache. `tally` has its reads, and is cleared.
  void note_tried(bool found, ReadTally& tally, std::int64_t now_ns);
  CachedTries& tries() { return tries_; }
  const CachedTries& tries() const { return tries_; }
  /// This many reads have ended.
  void end(std::uint32_t reads, std::int64_t now_ns);
  /// The chunk is being computed, here or elsewhere, until end_use(). Its bytes are not ahead of the threads any more,
  /// so that other chunks may be read.
  void begin_use(const Chunk& chunk) { used_bytes_ += chunk.reads->buffer.bytes; }
  void end_use(const Chunk& chunk);
  /// The chunk needs its memory no more.
  void release(Chunk& chunk);
  /// The chunk needs the rows that came from another machine no more.
  void release_received(Chunk& chunk) { pool_.give(std::exchange(chunk.received, {})); }
  /// The batch leaves the stream, and takes its buffer along.
  void forget(const ReadBatch& batch) { stats_.buffered_bytes -= batch.buffer.bytes; }
  ReadBufferPool& pool() { return pool_; }

  void note_retry() { ++stats_.read_retries; }
  /// A thread found nothing to compute while reads were under way: read further ahead. `issued`: the chunks issued so
  /// far.
  void note_starved(std::uint64_t issued);
  /// Choose the sizes again if enough is known: each time that twice as much is known of `plan`, and after a change of
  /// plan or threads. May throw std::bad_alloc.
  void adjust(const PlanInUse& plan, std::uint32_t threads);

  std::uint32_t reads_open() const { return reads_open_; }
  ReadStats stats(std::int64_t now_ns) const;

 private:
  void add(const ReadTally& tally);

  const std::shared_ptr<const Dataset> dataset_;
  ReadBufferPool& pool_;
  ReadAheadOptions options_;
  bool has_reads_ = false;

  autotune::ChunkingInputs facts_;  // its measured fields change
  autotune::Flow flow_;
  // The inputs of the last flow_.
  const PlanInUse* plan_ = nullptr;
  std::uint32_t threads_ = 0;
  std::uint64_t timed_samples_ = 0;
  std::uint64_t next_growth_ = 0;  // chunks issued until threads may starve again

  CachedTries tries_;
  std::vector<Chunk*> fetching_;  // chunks that wait for samples from files
  std::uint32_t reads_open_ = 0;
  std::int64_t reading_since_ns_ = 0;  // while reads_open_ > 0
  double waited_s_ = 0;                // mean latency of the reading thread's last reads; 0: none
  ReadStats stats_;
  std::uint64_t used_bytes_ = 0;  // the part of stats_.buffered_bytes in chunks that are computed
};

}  // namespace carya::loader
