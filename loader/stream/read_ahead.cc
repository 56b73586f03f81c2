#include "loader/stream/read_ahead.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "loader/plan/order_choice.h"
#include "loader/plan/stream_cache.h"
#include "loader/stream/chunk_inputs.h"

namespace carya::loader {
namespace {

using Kind = transforms::SourceField::Kind;

/// Records whose mean size stands for that of all records.
/// Reads whose mean latency stands for the present latency of storage.
constexpr double kReadsRemembered = 256;

}  // namespace

ReadAhead::ReadAhead(std::shared_ptr<const Dataset> dataset, ReadBufferPool& pool,
                     const ReadAheadOptions& options)
    : dataset_(std::move(dataset)), pool_(pool), options_(options) {
  facts_.row_bytes = static_cast<double>(1 + options.row_bytes);
  for (const Dataset::Field& field : dataset_->fields()) {
    has_reads_ = has_reads_ || field.kind == Kind::kEncoded;
    facts_.row_bytes += static_cast<double>(field.array.row_bytes);
  }
  facts_.record_bytes = has_reads_ ? std::max(mean_record_bytes(*dataset_), 1.0) : 0;
  facts_.batch_rows = options.batch_rows;
  facts_.sample_cpu_s = options.earlier_cpu_s;
  facts_.read_latency_s = options.earlier_read_latency_s;
  facts_.threads = options.threads;
  facts_.slots = options.slots;
  facts_.memory_bytes = options.budget_bytes;
  flow_ = autotune::flow(facts_);
}

std::uint64_t ReadAhead::wanted_bytes(const Chunk& chunk) const {
  std::uint64_t bytes = 0;
  if (!has_reads_) return bytes;
  for (std::size_t t = 0; t < chunk.tasks.size(); ++t) {
    if (chunk.has_found(t)) bytes += buffer_room(chunk.found[t].sample.bytes());
    if (!chunk.needs_inputs(t)) continue;
    for (const Dataset::Field& field : dataset_->fields())
      if (field.kind == Kind::kEncoded)
        bytes += buffer_room(field.manifest->record(dataset_->source_index(chunk.tasks[t].record)).bytes);
  }
  return bytes;
}

bool ReadAhead::has_room(std::uint64_t bytes, std::size_t chunks_ahead) const {
  if (chunks_ahead >= flow_.ahead_chunks) return false;
  // One chunk is always allowed, since a budget below its size would stop the stream.
  const std::uint64_t ahead_bytes = stats_.buffered_bytes - used_bytes_;
  return ahead_bytes == 0 ||
         (ahead_bytes + ReadBufferPool::rounded(bytes) <= options_.budget_bytes && pool_.has_room(bytes));
}

bool ReadAhead::place_inputs(Chunk& chunk, ReadClient& client) {
  ReadBatch& batch = *chunk.reads;
  batch.client = &client;
  batch.unwanted = false;
  const std::uint64_t room = list_inputs(chunk, *dataset_, client.number(), options_.stores.get());
  if (room == 0) return true;
  if (batch.buffer.bytes < room) {
    stats_.buffered_bytes -= batch.buffer.bytes;
    pool_.give(std::exchange(batch.buffer, {}));
    batch.buffer = pool_.take(room);
    if (!batch.buffer.memory) return false;
    stats_.buffered_bytes += batch.buffer.bytes;
    stats_.buffered_bytes_max = std::max(stats_.buffered_bytes_max, stats_.buffered_bytes);
  }
  place_reads(chunk, *dataset_, batch.buffer.data());
  if (chunk.found.empty()) return true;
  fetching_.reserve(fetching_.size() + 1);
  chunk.fetching = std::make_shared<FetchGroup>(chunk.found.size(), chunk.place->bell);
  begin_fetches(chunk, *dataset_, batch.buffer.lend());
  fetching_.push_back(&chunk);
  return true;
}

void ReadAhead::begin(Chunk& chunk, std::int64_t now_ns) {
  ReadBatch& batch = *chunk.reads;
  batch.open = static_cast<std::uint32_t>(batch.reads.size());
  if (batch.open == 0) return;
  if (reads_open_ == 0) reading_since_ns_ = now_ns;
  reads_open_ += batch.open;
}

void ReadAhead::note_read(const ReadOp& op, const io::ReadCompletion& completion, bool has_bytes) {
  ReadTally one{.bytes = has_bytes ? op.request.length : 0};
  one.note(completion.latency_ns);
  add(one);
  const double waited_s = static_cast<double>(completion.latency_ns) * 1e-9;
  waited_s_ = waited_s_ == 0 ? waited_s : waited_s_ + (waited_s - waited_s_) / kReadsRemembered;
  if (!has_bytes) return;
  // Decoders may look at these bytes, so they are the same each time.
  std::memset(op.request.dest + op.request.length, 0, kSlackBytes);
}

void ReadAhead::add(const ReadTally& tally) {
  stats_.reads += tally.reads;
  stats_.bytes_read += tally.bytes;
  stats_.read_latency_ns += tally.latency_ns;
  for (std::size_t i = 0; i < tally.within.size(); ++i) stats_.reads_within[i] += tally.within[i];
}

bool ReadAhead::has_cache_room(std::uint64_t bytes, std::uint32_t threads) {
  return bytes <= kCachedBytesMax && threads * bytes <= options_.budget_bytes + options_.budget_bytes / 2 &&
         pool_.has_room(bytes);
}

void ReadAhead::note_tried(bool found, ReadTally& tally, std::int64_t now_ns) {
  add(tally);
  stats_.cached_reads += tally.reads;
  stats_.cached_bytes += tally.bytes;
  tally = {};
  tries_.end(found, now_ns, static_cast<std::int64_t>(waited_s_ * 1e9));
}

Chunk* ReadAhead::take_fetched() {
  const auto found = std::ranges::find_if(fetching_, [](const Chunk* chunk) {
    return chunk->state() == ChunkState::kReading && chunk->reads->open == 0 &&
           (chunk->step->dropped || !chunk->is_fetching());
  });
  if (found == fetching_.end()) return nullptr;
  Chunk* const chunk = *found;
  fetching_.erase(found);
  return chunk;
}

void ReadAhead::forget_found(Chunk& chunk) {
  std::erase(fetching_, &chunk);
  chunk.found.clear();
  chunk.fetching.reset();
  release(chunk);  // a late answer may still come to the buffer
}

void ReadAhead::end(std::uint32_t reads, std::int64_t now_ns) {
  CHECK(reads <= reads_open_);
  reads_open_ -= reads;
  if (reads_open_ == 0 && reads > 0) stats_.reading_ns += now_ns - reading_since_ns_;
}

void ReadAhead::end_use(const Chunk& chunk) {
  CHECK(chunk.reads->buffer.bytes <= used_bytes_);
  used_bytes_ -= chunk.reads->buffer.bytes;
}

void ReadAhead::release(Chunk& chunk) {
  std::erase(fetching_, &chunk);
  if (chunk.reads) {
    forget(*chunk.reads);
    pool_.give(std::exchange(chunk.reads->buffer, {}));
  }
  release_received(chunk);
}

void ReadAhead::note_starved(std::uint64_t issued) {
  if (issued < next_growth_ || flow_.ahead_chunks >= autotune::kAheadChunksMax) return;
  // The next growth waits until the chunks ahead have gone by twice, so that the effect of this one shows.
  flow_.ahead_chunks += flow_.ahead_chunks / 2;
  next_growth_ = issued + 2ULL * flow_.ahead_chunks;
}

void ReadAhead::adjust(const PlanInUse& plan, std::uint32_t threads) {
  if (plan_ != &plan || threads_ != threads) timed_samples_ = 0;
  plan_ = &plan;
  threads_ = threads;
  const std::uint64_t timed = plan.profile.timed_samples();
  // Storage may change, as where a page cache ends. The twofold samples are not waited for then.
  const bool slower = facts_.read_latency_s > 0 && waited_s_ > 2 * facts_.read_latency_s;
  if (timed < std::max(kTrustedSamples, slower ? 0 : 2 * timed_samples_)) return;
  timed_samples_ = timed;
  facts_.sample_cpu_s = plan.profile.cpu_ns() * 1e-9;
  if (waited_s_ > 0) facts_.read_latency_s = waited_s_;
  facts_.threads = threads;
  facts_.memory_bytes = options_.budget_bytes;
  flow_ = autotune::steadied(flow_, autotune::flow(facts_));
}

ReadStats ReadAhead::stats(std::int64_t now_ns) const {
  ReadStats stats = stats_;
  if (reads_open_ > 0)
    stats.reading_ns += now_ns - reading_since_ns_;  // with the reads that are under way now
  return stats;
}

}  // namespace carya::loader
