#include "loader/stream/stream_scheduler.h"

#include <algorithm>
#include <atomic>
#include <new>
#include <utility>

#include "base/clock.h"
#include "loader/stream/broken_rows.h"
#include "loader/stream/chunk_results.h"
#include "loader/trace/trace.h"
#include "loader/wire/worker_plan.h"

namespace carya::loader {
namespace {

ReadAheadOptions read_ahead_options(const StreamParts& parts, const PlanInUse& plan,
                                    const SchedulerOptions& options, const SlotRows& rows) {
  return {.budget_bytes = options.read_ahead_bytes,
          .batch_rows = options.shape.rank_rows_max(),
          .row_bytes = rows.bytes(),
          .threads = options.threads,
          .slots = parts.ring->slots(),
          .earlier_cpu_s = plan.earlier_cpu_s,
          .earlier_read_latency_s = parts.planner->earlier_read_latency_s(),
          .stores = parts.stores};
}

}  // namespace

std::shared_ptr<StreamScheduler> StreamScheduler::create(StreamParts parts, std::shared_ptr<PlanInUse> plan,
                                                         ReadBufferPool& pool,
                                                         const SchedulerOptions& options) {
  static std::atomic<std::uint64_t> streams{0};
  return std::shared_ptr<StreamScheduler>(
      new StreamScheduler(++streams, std::move(parts), std::move(plan), pool, options));
}

StreamScheduler::StreamScheduler(std::uint64_t number, StreamParts parts, std::shared_ptr<PlanInUse> plan,
                                 ReadBufferPool& pool, const SchedulerOptions& options)
    : ReadClient(number, options.io_timeout_ns),
      parts_(std::move(parts)),
      options_(options),
      rows_(parts_.ring, *plan->plan, options.label_int32),
      sequencer_({.shape = options.shape,
                  .seed = options.seed,
                  .shuffled = parts_.pipeline->shuffled(),
                  .epochs = options.epochs,
                  .prefetch_epochs = options.prefetch_epochs,
                  .traced_as = trace_stream(number)},
                 parts_.dataset, parts_.ring, rows_),
      read_ahead_(parts_.dataset, pool, read_ahead_options(parts_, *plan, options, rows_)),
      parallelism_(options.threads, parts_.executor != nullptr),
      plans_(std::move(plan), parts_.plan_chooser) {}

void StreamScheduler::seek(std::uint64_t epoch, std::uint64_t position) {
  drop_session();
  sequencer_.seek(epoch, position);
  parallelism_.interrupt();
}

/// Prepared and ready chunks leave at once. Chunks that are read, computed or away end later, and find their step
/// dropped.
void StreamScheduler::drop_session() {
  if (prepared_ != nullptr) recycle(*std::exchange(prepared_, nullptr));
  while (Chunk* const chunk = chunks_.any_ready()) {
    CHECK(chunk->step->chunks_open > 0);
    --chunk->step->chunks_open;
    recycle(*chunk);
  }
  for (const auto& chunk : chunks_.all())
    if (chunk->state() == ChunkState::kReading) chunk->reads->unwanted = true;
  sequencer_.drop();
}

void StreamScheduler::pump(Outbox& out) {
  try {
    begin_work(out);
  } catch (const std::bad_alloc&) {
    sequencer_.run_out_of_memory();
    publish_complete();
  }
  const std::uint32_t running = chunks_.count(ChunkState::kLocal);
  const std::uint32_t free = parallelism_.cores() - std::min(parallelism_.cores(), running);
  out.runnable += std::min(static_cast<std::uint32_t>(chunks_.runnable().size()), free);
}

void StreamScheduler::begin_work(Outbox& out) {
  assign_slots();
  publish_complete();  // a step without positions is complete as soon as it has a slot
  while (Chunk* const chunk = read_ahead_.take_fetched())
    chunk->step->dropped ? end_chunk(*chunk) : make_ready(*chunk, out);
  while (true) {
    Step* step = sequencer_.open_step();
    if (step == nullptr) {
      step = sequencer_.begin_step();
      if (step == nullptr) break;
      assign_slots();
    }
    if (step->part.count == 0) {  // a rank without positions in the last step, which has only padding
      if (!step->slot) break;
      publish_complete();
      continue;
    }
    if (prepared_ == nullptr) prepare_chunk(*step);
    const bool from_cache = wants_cache();
    if (!may_issue(from_cache)) break;
    Chunk& chunk = *std::exchange(prepared_, nullptr);
    step->rows_issued += chunk.tasks.size();
    ++step->chunks_open;
    if (!from_cache) {
      issue(chunk, out);
      continue;
    }
    chunk.tries_cache = true;
    read_ahead_.tries().begin();
    make_ready(chunk, out);
  }
}

void StreamScheduler::assign_slots() {
  while (const Step* const step = sequencer_.assign_slot())
    if (!step->unread_slot) parallelism_.note_taken(step->part.count, parts_.ring->least_waited_ns());
  chunks_.note_slots();
}

void StreamScheduler::publish_complete() {
  const std::uint64_t batches = sequencer_.stats().batches;
  const bool failed = sequencer_.publish_complete();
  if (trace_on() && sequencer_.stats().batches != batches) trace_figures();
  if (failed) drop_session();
}

void StreamScheduler::set_tasks(Chunk& chunk, std::uint64_t first_row, std::uint64_t count) {
  const Step& step = *chunk.step;
  chunk.tasks.clear();
  for (std::uint64_t row = first_row; row < first_row + count; ++row) {
    const std::uint64_t position = step.part.first + row;
    const auto [record, occurrence] = sequencer_.row_at(step.epoch, position);
    chunk.tasks.push_back({.row = row, .position = position, .record = record, .occurrence = occurrence});
  }
  look_up(chunk);
}

/// Find the samples of the chunk's tasks that were kept. A chunk most of which was kept is cheap, and stays on this
/// machine. Of the others all records are read while there are workers, so that they may have it; what memory has of
/// such a chunk is used if it stays. May throw std::bad_alloc.
void StreamScheduler::look_up(Chunk& chunk) {
  if (!parts_.cache) return;
  chunk.reads_all = false;
  const std::uint64_t epoch = chunk.step->epoch;
  look_up_kept(chunk, parts_.cache->place_of(epoch), *parts_.dataset, read_ahead_.has_reads());
  chunk.fills = chunk.place && chunk.place->outlives(epoch) && parts_.cache->fills(epoch);
  if (!parts_.executor || !parts_.executor->has_workers()) return;
  if (2 * chunk.count_kept() >= chunk.tasks.size()) return;
  chunk.reads_all = true;
  chunk.found.clear();
}

void StreamScheduler::prepare_chunk(Step& step) {
  const std::uint64_t rows = read_ahead_.flow().chunk_rows;
  Chunk& chunk = chunks_.take(step, rows);
  chunk.order = chunks_.next_order();
  if (parts_.cache) parts_.cache->enter(step.epoch);
  set_tasks(chunk, step.rows_issued, std::min(rows, step.part.count - step.rows_issued));
  prepared_ = &chunk;
  prepared_bytes_ = read_ahead_.wanted_bytes(chunk);
}

/// Whether the thread of the prepared chunk looks for its records in the page cache.
bool StreamScheduler::wants_cache() {
  if (!parts_.cached_reads || !read_ahead_.has_reads() || !prepared_->found.empty()) return false;
  CachedTries& tries = read_ahead_.tries();
  return tries.may_begin(monotonic_ns()) &&
         read_ahead_.has_cache_room(prepared_bytes_, parallelism_.threads());
}

bool StreamScheduler::may_issue(bool from_cache) const {
  const std::size_t ready = chunks_.count(ChunkState::kReady);
  if (from_cache && !read_ahead_.tries().is_warm()) return true;  // a few tries hold up nothing
  // Nothing is read ahead here, so threads need no more ready chunks than they take soon.
  if (from_cache || !read_ahead_.has_reads())
    return prepared_->step->slot && ready < 2ULL * parallelism_.threads() + 2;
  return read_ahead_.has_room(prepared_bytes_, chunks_.count(ChunkState::kReading) + ready);
}

/// Give the chunk its inputs: those in memory at once, the others by reads.
void StreamScheduler::issue(Chunk& chunk, Outbox& out) {
  bool placed = false;
  try {
    placed = read_ahead_.place_inputs(chunk, *this);
    // Room is made before the chunk changes its state, so that nothing behind this fails.
    out.reads.reserve(out.reads.size() + chunk.reads->reads.size());
  } catch (const std::bad_alloc&) {
    placed = false;
  }
  if (!placed) {
    sequencer_.fail(
        *chunk.step, chunk.tasks.front(),
        {Code::kExhausted, "read: no memory", ENOMEM});  // short enough for a string that needs no memory
    return end_chunk(chunk);
  }
  read_ahead_.begin(chunk, monotonic_ns());
  if (chunk.reads->open == 0 && !chunk.is_fetching()) return make_ready(chunk, out);
  chunks_.move(chunk, ChunkState::kReading);
  for (ReadOp& op : chunk.reads->reads) {
    op.due_ns = chunk.tasks[op.task].due_ns;
    out.reads.push_back(&op);
  }
}

void StreamScheduler::make_ready(Chunk& chunk, Outbox& out) {
  chunks_.move(chunk, ChunkState::kReady);
  out.runnable += chunk.step->slot ? 1 : 0;
}

void StreamScheduler::read_done(ReadOp& op, const io::ReadCompletion& completion, std::optional<Error> error,
                                Outbox& out) {
  Chunk& chunk = *static_cast<ChunkReads&>(*op.batch).chunk;
  CHECK(chunk.state() == ChunkState::kReading && op.batch->open > 0);
  read_ahead_.note_read(op, completion, !error);
  if (trace_on()) trace_read(op, completion);
  // The error of the lowest row counts, in whatever order reads end, so that a stream always stops at the same row.
  if (error && (!chunk.read_error || op.task < chunk.read_error->first))
    chunk.read_error.emplace(op.task, std::move(*error));
  read_ahead_.end(1, monotonic_ns());
  if (--op.batch->open > 0) return;
  if (chunk.step->dropped) return end_chunk(chunk);
  if (!chunk.read_error && chunk.is_fetching()) return;
  if (!chunk.read_error) return make_ready(chunk, out);
  sequencer_.fail(*chunk.step, chunk.tasks[chunk.read_error->first], chunk.read_error->second);
  end_chunk(chunk);
}

std::unique_ptr<ReadBatch> StreamScheduler::give_up(ReadOp& op, const Error& error, Outbox& out) {
  Chunk& chunk = *static_cast<ChunkReads&>(*op.batch).chunk;
  CHECK(chunk.state() == ChunkState::kReading);
  if (!chunk.step->dropped) sequencer_.fail(*chunk.step, chunk.tasks[op.task], error);
  read_ahead_.end(op.batch->open, monotonic_ns());
  std::unique_ptr<ChunkReads> reads = std::move(chunk.reads);
  read_ahead_.forget(*reads);
  reads->client = nullptr;
  // These own the paths that the requests name, and what counts them.
  reads->keeps = parts_.stores ? std::shared_ptr<const void>(parts_.stores) : parts_.dataset;
  chunk.delivered = {};  // the rows are not in place, whoever computed them
  end_chunk(chunk);
  pump(out);
  return reads;
}

Chunk* StreamScheduler::take_runnable() {
  if (!has_runnable()) return nullptr;
  Chunk& chunk = **chunks_.runnable().begin();
  if (!chunk.plan) chunk.plan = plans_.next();
  chunks_.move(chunk, ChunkState::kLocal);
  read_ahead_.begin_use(chunk);
  return &chunk;
}

void StreamScheduler::compute(Chunk& chunk, ComputeScratch& scratch) const {
  chunk.missed =
      (chunk.tries_cache && !read_cached(chunk, *parts_.dataset, *parts_.cached_reads, scratch.cached)) ||
      !has_all_found(chunk);
  if (chunk.missed) return;
  compute_chunk({*chunk.plan->plan, *parts_.dataset, rows_, *parts_.index, !read_ahead_.has_reads()}, chunk,
                scratch);
}

void StreamScheduler::finish(Chunk& chunk, ComputeScratch scratch, const ThreadTime& took, Outbox& out) {
  CHECK(chunk.state() == ChunkState::kLocal);
  read_ahead_.end_use(chunk);
  if (trace_on()) trace_computed(chunk, took);
  if (std::exchange(chunk.tries_cache, false))
    read_ahead_.note_tried(!chunk.missed, scratch.cached.tally, monotonic_ns());
  if (std::exchange(chunk.missed, false)) {
    parallelism_.give_scratch(std::move(scratch));
    if (!chunk.found.empty()) read_ahead_.forget_found(chunk);
    if (chunk.step->dropped) return end_chunk(chunk);
    chunks_.move(chunk, ChunkState::kPrepared);
    return issue(chunk, out);
  }
  parallelism_.note_made(chunk.tasks.size(), took, chunk.is_rest());
  try {
    PlanInUse& plan = *chunk.plan;
    plan.plan->collect_profile(scratch.transforms, plan.profile.stages);
    plan.plan->collect_decodes(scratch.transforms, decodes_);
    plan.profile.measured_at_s = unix_s();
    read_ahead_.adjust(*plans_.present(), parallelism_.all_threads());
  } catch (const std::bad_alloc&) {  // the figures stay in the scratch, for the next time
  }
  parallelism_.give_scratch(std::move(scratch));
  if (chunk.distrusted && !chunk.step->dropped) return begin_again(chunk, out);
  if (!chunk.step->dropped && !chunk.broken.empty()) {
    try {
      settle_broken(chunk);
      look_up(chunk);
    } catch (const std::bad_alloc&) {
      if (!chunk.tasks.empty()) sequencer_.fail(*chunk.step, chunk.tasks.front(), out_of_memory());
      chunk.tasks.clear();
    }
    if (chunk.is_rest()) chunk.plan.reset();  // a substitute is computed here from its record
    read_ahead_.release_received(chunk);
    if (!chunk.tasks.empty()) {  // rows to read again, and substitutes
      chunks_.move(chunk, ChunkState::kPrepared);
      return issue(chunk, out);
    }
  }
  end_chunk(chunk);
}

/// Whether to read a row again later, until the stream's io_timeout. A file that is not as it was listed may be so only
/// for a moment, like a read that fails.
bool StreamScheduler::ask_again(RowTask& task, const Error& error) {
  if (error.code != Code::kIo || !read_ahead_.has_reads()) return false;
  const std::int64_t now = monotonic_ns();
  if (task.changed_ns == 0) task.changed_ns = now;
  const std::int64_t wait = std::clamp(now - task.changed_ns, kRetryFirstNs, kRetryMaxNs);
  if (now + wait - task.changed_ns >= io_timeout_ns()) return false;
  task.due_ns = now + wait;
  note_retry();
  return true;
}

/// Apply the policy to the rows that could not be computed. The rows that stay in `chunk.tasks` are to be read: again,
/// or from a substitute.
void StreamScheduler::settle_broken(Chunk& chunk) {
  Step& step = *chunk.step;
  std::vector<RowTask> again;
  const BrokenRowRules rules{*parts_.dataset, options_.on_error, options_.seed, parts_.pipeline->shuffled()};
  for (auto& [index, error] : chunk.broken) {
    RowTask task = chunk.tasks[index];
    if (trace_on()) trace_moment(TraceKind::kBroken, traced_as(), task.record);
    if (ask_again(task, error)) {
      again.push_back(task);
      continue;
    }
    RowVerdict verdict = judge_broken_row(rules, step.epoch, task, std::move(error));
    switch (verdict.fate) {
      case RowVerdict::Fate::kStop:
        sequencer_.fail(step, task, verdict.error);
        break;
      case RowVerdict::Fate::kMask:
        rows_.clear(*step.slot, task.row, static_cast<std::int64_t>(task.record));
        ++masked_;
        break;
      case RowVerdict::Fate::kReplace:
        again.push_back(task);
        ++replaced_;
        break;
    }
    if (verdict.entry) Sequencer::note_broken(step, std::move(*verdict.entry));
  }
  chunk.broken.clear();
  chunk.tasks = std::move(again);
}

void StreamScheduler::end_chunk(Chunk& chunk) {
  Step& step = *chunk.step;
  const bool dropped = step.dropped;
  if (chunk.delivered.worker != 0) step.delivered.push_back(chunk.delivered);  // take_remote() made room
  recycle(chunk);
  sequencer_.leave(step);
  if (!dropped) publish_complete();
}

void StreamScheduler::recycle(Chunk& chunk) {
  read_ahead_.release(chunk);
  if (std::exchange(chunk.tries_cache, false)) read_ahead_.tries().drop();
  chunk.plan.reset();
  chunk.kept.clear();
  chunk.reads_all = false;
  chunk.found.clear();
  chunk.fetching.reset();
  chunk.place.reset();
  chunk.fills = false;
  chunk.stays_here = chunk.distrusted = false;
  chunk.delivered = {};
  chunk.broken.clear();
  chunk.read_error.reset();
  chunks_.move(chunk, ChunkState::kFree);
}

std::unique_ptr<ChunkWork> StreamScheduler::take_remote(std::shared_ptr<const PlanCut> cut,
                                                        const ChunkWanted& wanted) {
  const ChunksByDue& ready = chunks_.runnable();
  if (ready.size() <= wanted.keep_local) return nullptr;
  const bool with_entries = cut->compiled && cut->compiled->wants_entries();
  const std::size_t published = wanted.min_batches_ahead > 0 ? parts_.ring->stats().ready : 0;
  const std::uint64_t front = sequencer_.steps().front()->number;
  Chunk* found = nullptr;
  std::unique_ptr<ChunkWork> work;
  try {
    auto next = ready.begin();
    std::advance(next, wanted.keep_local);
    for (; next != ready.end(); ++next) {
      const bool far_enough = published + ((*next)->step->number - front) >= wanted.min_batches_ahead;
      if ((far_enough || wanted.allow_final) && may_go(**next, with_entries)) found = *next;
      if (far_enough && found) break;
    }
    if (!found) return nullptr;
    Step& step = *found->step;
    work = std::make_unique<ChunkWork>(ChunkWork{.chunk = found,
                                                 .cut = std::move(cut),
                                                 .epoch = step.epoch,
                                                 .traced_as = traced_as(),
                                                 .traced_step = traced_step(*found)});
    place_results(*work, rows_, read_ahead_.pool());
    step.delivered.reserve(step.delivered.size() + step.chunks_open);
  } catch (const std::bad_alloc&) {
    return nullptr;  // the chunk stays ready
  }
  chunks_.move(*found, ChunkState::kRemote);
  read_ahead_.begin_use(*found);
  return work;
}

const Step* StreamScheduler::waited_for() const {
  const auto& steps = sequencer_.steps();
  if (chunks_.count(ChunkState::kLocal) > 0 || chunks_.count(ChunkState::kRemote) == 0) return nullptr;
  if (steps.empty() || !steps.front()->slot || !chunks_.runnable().empty()) return nullptr;
  return parts_.ring->stats().ready == 0 ? steps.front().get() : nullptr;
}

/// Whether another machine may compute the chunk. Records, files or index entries that are wrong are found on this one.
bool StreamScheduler::may_go(const Chunk& chunk, bool with_entries) const {
  const Dataset& data = *parts_.dataset;
  std::uint32_t checked = UINT32_MAX;
  return chunk.is_fresh() && data.check_arrays() &&
         std::ranges::all_of(chunk.tasks, [&](const RowTask& task) {
           return data.check_record(task.record) && data.check_marks(task.record, checked) &&
                  !(with_entries &&
                    parts_.index->verifies(data.source_index(task.record), chunk.step->epoch));
         });
}

void StreamScheduler::end_remote(ChunkWork& work, bool computed, Outbox& out) {
  Chunk& chunk = *work.chunk;
  CHECK(chunk.state() == ChunkState::kRemote);
  read_ahead_.end_use(chunk);
  if (chunk.step->dropped || !computed || std::ranges::find(distrusted_, work.worker) != distrusted_.end()) {
    read_ahead_.pool().give(std::move(work.aside));
    if (chunk.step->dropped) return end_chunk(chunk);
    chunk.stays_here = true;
    return make_ready(chunk, out);
  }
  chunk.delivered = {work.worker, chunk.order, chunk.tasks.front().row, chunk.tasks.size()};
  ++remote_chunks_;
  remote_bytes_ += work.result_bytes() + (work.sent ? work.sent->bytes(work.by_address) : 0);
  if (work.cut->rest) {
    if (take_results_as_inputs(work)) return make_ready(chunk, out);
    sequencer_.fail(*chunk.step, chunk.tasks.front(), out_of_memory());
    return end_chunk(chunk);
  }
  finish_results(work, rows_);
  read_ahead_.pool().give(std::move(work.aside));
  end_chunk(chunk);
}

void StreamScheduler::distrust(std::uint64_t worker, Outbox& out) {
  std::vector<Chunk*> again;
  try {
    distrusted_.push_back(worker);
    list_distrusted(worker, again);
  } catch (const std::bad_alloc&) {  // no row of the worker may be published, so the stream stops
    if (const auto& steps = sequencer_.steps(); !steps.empty())
      sequencer_.fail(*steps.front(), {.position = steps.front()->part.first}, out_of_memory());
  }
  for (Chunk* chunk : again) begin_again(*chunk, out);
}

/// List the worker's chunks: those that have ended, as new chunks, and those that wait for the ops behind the cut.
/// Chunks that are computed now are only marked.
void StreamScheduler::list_distrusted(std::uint64_t worker, std::vector<Chunk*>& again) {
  const auto is_theirs = [&](const Delivered& delivered) { return delivered.worker == worker; };
  std::size_t count = chunks_.count(ChunkState::kReady);
  for (const auto& step : sequencer_.steps()) count += step->delivered.size();
  again.reserve(count);
  for (const auto& chunk : chunks_.all()) {
    chunk->distrusted |= is_theirs(chunk->delivered);
    if (chunk->distrusted && chunk->state() == ChunkState::kReady) again.push_back(chunk.get());
  }
  for (Chunk* chunk : again) chunks_.move(*chunk, ChunkState::kPrepared);
  for (const auto& step : sequencer_.steps()) {
    for (const Delivered& delivered : step->delivered) {
      if (!is_theirs(delivered)) continue;
      Chunk& chunk = chunks_.take(*step, delivered.count);
      chunk.order = delivered.order;
      chunk.delivered = delivered;
      ++step->chunks_open;
      again.push_back(&chunk);
    }
    std::erase_if(step->delivered, is_theirs);
  }
}

/// Compute all of the chunk's rows on this machine, from their records. Entries of these rows are dropped and found
/// anew.
void StreamScheduler::begin_again(Chunk& chunk, Outbox& out) {
  if (chunk.step->dropped) return end_chunk(chunk);  // the stream failed before it was this chunk's turn
  if (chunk.state() == ChunkState::kLocal) chunks_.move(chunk, ChunkState::kPrepared);
  const std::uint64_t first = chunk.step->part.first + chunk.delivered.row;
  std::erase_if(chunk.step->quarantined, [&](const RecordError& entry) {
    return entry.position >= first && entry.position < first + chunk.delivered.count;
  });
  set_tasks(chunk, chunk.delivered.row, chunk.delivered.count);
  chunk.plan.reset();
  read_ahead_.release_received(chunk);
  chunk.broken.clear();
  chunk.read_error.reset();
  chunk.delivered = {};
  chunk.distrusted = false;
  chunk.stays_here = true;
  issue(chunk, out);
}

void StreamScheduler::note_starved() {
  if (chunks_.count(ChunkState::kReading) == 0 || chunks_.count(ChunkState::kReady) > 0) return;
  if (sequencer_.has_slotted()) read_ahead_.note_starved(chunks_.issued());
}

std::uint64_t StreamScheduler::traced_step(const Chunk& chunk) const {
  return chunk.step->dropped ? 0 : trace_step(sequencer_.session(), chunk.step->number);
}

void StreamScheduler::trace_computed(const Chunk& chunk, const ThreadTime& took) {
  name_traced();
  const std::uint32_t from_cache = chunk.tries_cache && !chunk.missed ? kTraceFromCache : 0;
  trace_note({.kind = TraceKind::kCompute,
              .lane = from_cache | (chunk.missed ? kTraceMissed : 0U) | (chunk.is_rest() ? kTraceRest : 0U),
              .stream = traced_as(),
              .begin_ns = took.begin_ns,
              .end_ns = took.end_ns,
              .of = chunk.order,
              .step = traced_step(chunk),
              .rows = chunk.tasks.size(),
              .value = chunk.tasks.empty() ? 0 : chunk.tasks.front().record});
}

void StreamScheduler::trace_read(const ReadOp& op, const io::ReadCompletion& completion) {
  name_traced();
  const Chunk& chunk = *static_cast<ChunkReads&>(*op.batch).chunk;
  trace_note({.kind = TraceKind::kRead,
              .lane = static_cast<std::uint32_t>(op.task),
              .stream = traced_as(),
              .begin_ns = op.first_ns,
              .end_ns = monotonic_ns(),
              .of = chunk.order,
              .rows = static_cast<std::uint64_t>(std::max<std::int64_t>(completion.bytes, 0)),
              .value = chunk.tasks[op.task].record});
}

void StreamScheduler::trace_figures() {
  const std::int64_t now = monotonic_ns();
  trace_note({.kind = TraceKind::kFigures,
              .stream = traced_as(),
              .begin_ns = now,
              .of = parts_.ring->stats().ready,
              .step = read_ahead_.stats(now).buffered_bytes,
              .rows = read_ahead_.reads_open(),
              .value = chunks_.count(ChunkState::kLocal)});
  trace_clocks(now);
}

/// A trace asks for names of records when it is written, which may be after the stream's end.
void StreamScheduler::name_traced() {
  if (std::exchange(named_in_, trace_session()) == trace_session()) return;
  trace_names(traced_as(),
              {.record = [dataset = parts_.dataset](std::uint64_t record) { return dataset->path(record); },
               .worker = {}});
}

SchedulerStats StreamScheduler::stats() const {
  SchedulerStats stats;
  static_cast<SequenceStats&>(stats) = sequencer_.stats();
  static_cast<ReadStats&>(stats) = read_ahead_.stats(monotonic_ns());
  static_cast<ComputeStats&>(stats) = parallelism_.stats();
  stats.replaced = replaced_;
  stats.masked = masked_;
  stats.ops = plans_.ops();
  stats.decodes = decodes_;
  stats.plan_switches = plans_.switches();
  stats.remote_chunks = remote_chunks_;
  stats.remote_bytes = remote_bytes_;
  if (parts_.stores) stats.stores = parts_.stores->figures();
  stats.flow = read_ahead_.flow();
  stats.cores = parallelism_.cores();
  return stats;
}

PlanProfile measured(StreamScheduler& stream) {
  PlanProfile measured{.orders = stream.plans().measured()};
  const ReadStats reads = stream.read_ahead().stats(monotonic_ns());
  if (reads.reads > 0)
    measured.rates = {.read_latency_s = reads.mean_read_s(),
                      .read_bytes_per_s = reads.read_bytes_per_s(),
                      .reads_at_s = unix_s()};
  return measured;
}

}  // namespace carya::loader
