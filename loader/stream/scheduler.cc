#include "loader/stream/scheduler.h"

#include <algorithm>
#include <cstring>

#include "base/clock.h"
#include "loader/stream/broken_rows.h"
#include "loader/stream/chunk_inputs.h"

namespace carya::loader {
namespace {

using Kind = transforms::SourceField::Kind;

/// Entries that one step keeps; the counters count all.
constexpr std::size_t kQuarantinedMax = 10'000;

}  // namespace

std::shared_ptr<Production> Production::create(std::shared_ptr<const transforms::Pipeline> pipeline,
                                               std::shared_ptr<PlanInUse> plan,
                                               std::shared_ptr<const Dataset> dataset,
                                               std::shared_ptr<shm::SlotRing> ring, ReadBufferPool& pool,
                                               const ProductionOptions& options) {
  static std::atomic<std::uint64_t> productions{0};
  auto self = std::shared_ptr<Production>(new Production());
  self->number_ = ++productions;
  self->options_ = options;
  self->pipeline_ = std::move(pipeline);
  self->plan_ = std::move(plan);
  self->plans_ = options.forced_plans;
  if (self->plans_.empty()) self->plans_.push_back(self->plan_);
  self->dataset_ = std::move(dataset);
  self->ring_ = std::move(ring);
  self->rows_.emplace(self->ring_, *self->plan_->plan, options.label_int32);
  self->pool_ = &pool;
  for (const Dataset::Field& field : self->dataset_->fields())
    self->has_reads_ = self->has_reads_ || field.kind == Kind::kEncoded;
  self->begin_flow();
  self->cores_.set_cores(options.threads);
  self->places_.resize(self->ring_->slots());
  self->scratches_.resize(options.threads);  // a thread that takes one never lacks memory for it
  return self;
}

void Production::seek(std::uint64_t epoch, std::uint64_t position) {
  drop_session();
  paused_ = false;
  ++session_;
  epoch_ = epoch;
  position_ = position;
  failure.reset();
  failing_ = exhausted_ = mixed_ = false;
  std::ranges::fill(places_, Place());
  cores_.interrupt();
  published_quarantine_.clear();  // of batches that nobody will be given
}

void Production::set_on_error(transforms::OnError policy) {
  options_.on_error = policy;
  mixed_ = true;
}

void Production::set_threads(std::uint32_t threads) {
  scratches_.reserve(threads);  // they come back: a thread that takes one never lacks memory for it
  if (scratches_.size() + running_ < threads) scratches_.resize(threads - running_);
  options_.threads = threads;
  cores_.set_cores(threads);
  flow_samples_ = 0;
}

void Production::set_remote_threads(std::uint32_t threads) {
  if (std::exchange(remote_threads_, threads) != threads) flow_samples_ = 0;
}

double Production::samples_left() const {
  if (!options_.epochs) return 0;
  const double all = static_cast<double>(*options_.epochs) * static_cast<double>(options_.shape.records);
  const double done = static_cast<double>(stats_.epoch) * static_cast<double>(options_.shape.records) +
                      static_cast<double>(stats_.position);
  return std::max(0.0, all - done) / static_cast<double>(options_.shape.world_size);
}

void Production::stop() {
  stopped_ = true;
  drop_session();
}

void Production::pump(Outbox& out) {
  try {
    begin_work(out);
  } catch (const std::bad_alloc&) {
    stop_exhausted();
  }
  std::uint32_t runnable = 0;
  for (const Chunk* chunk : ready_) runnable += chunk->step->slot ? 1 : 0;
  out.runnable += std::min(runnable, cores() - std::min(cores(), running_));
}

void Production::begin_work(Outbox& out) {
  assign_slots();
  publish_complete();  // a step without positions is complete as soon as it has a slot
  while (!stopped_ && !paused_ && !failing_) {
    if (steps_.empty() || steps_.back()->rows_issued == steps_.back()->part.count) {
      if (!begin_step()) break;
      assign_slots();
    }
    Step& step = *steps_.back();
    if (step.part.count == 0) {  // a rank without positions in the last step: padding only
      if (!step.slot) break;
      publish_complete();
      continue;
    }
    if (prepared_ == nullptr) prepare_chunk(step);
    if (!may_issue()) break;
    Chunk& chunk = *std::exchange(prepared_, nullptr);
    step.rows_issued += chunk.tasks.size();
    ++step.chunks_open;
    issue(chunk, out);
  }
}

Chunk& Production::take_chunk(Step& step, std::uint64_t rows) {
  if (free_chunks_.empty()) {  // with room for it on every list: only here memory can be short
    free_chunks_.reserve(chunks_.size() + 1);
    ready_.reserve(chunks_.size() + 1);
    chunks_.push_back(std::make_unique<Chunk>());
    free_chunks_.push_back(chunks_.back().get());
  }
  Chunk& chunk = *free_chunks_.back();
  chunk.tasks.reserve(rows);
  free_chunks_.pop_back();
  chunk.owner = this;
  chunk.step = &step;
  return chunk;
}

void Production::set_tasks(Chunk& chunk, std::uint64_t first_row, std::uint64_t count) {
  const Step& step = *chunk.step;
  chunk.tasks.clear();
  for (std::uint64_t row = first_row; row < first_row + count; ++row) {
    RowTask task{.row = row, .position = step.part.first + row};
    task.record = record_at(step.epoch, task.position);
    chunk.tasks.push_back(task);
  }
}

void Production::prepare_chunk(Step& step) {
  Chunk& chunk = take_chunk(step, flow_.chunk_rows);
  chunk.order = order_++;
  set_tasks(chunk, step.rows_issued, std::min(flow_.chunk_rows, step.part.count - step.rows_issued));
  prepared_bytes_ = 0;
  prepared_ = &chunk;
  if (!has_reads_) return;
  for (const RowTask& task : chunk.tasks)
    for (const Dataset::Field& field : dataset_->fields())
      if (field.kind == Kind::kEncoded)
        prepared_bytes_ += buffer_room(field.manifest->record(dataset_->source_index(task.record)).bytes);
}

bool Production::may_issue() const {
  if (!has_reads_) return prepared_->step->slot && ready_.size() < 2ull * options_.threads + 2;
  if (reading_ + ready_.size() >= flow_.ahead_chunks) return false;
  // One chunk is always allowed: with less there is no stream.
  return stats_.buffered_bytes == 0 ||
         (stats_.buffered_bytes + ReadBufferPool::rounded(prepared_bytes_) <= options_.read_ahead_bytes &&
          pool_->has_room(prepared_bytes_));
}

/// Give the chunk's tasks their inputs: memory at once, files by reads.
void Production::issue(Chunk& chunk, Outbox& out) {
  bool placed = false;
  try {
    placed = place_inputs(chunk);
    out.reads.reserve(out.reads.size() + chunk.reads.size());
  } catch (const std::bad_alloc&) {
    placed = false;
  }
  if (!placed) {
    fail_step(*chunk.step, chunk.tasks.front(),
              {Code::kExhausted, "read: no memory", ENOMEM});  // these words fit a string that needs none
    return end_chunk(chunk);
  }
  chunk.reads_open = static_cast<std::uint32_t>(chunk.reads.size());
  if (chunk.reads_open == 0) return make_ready(chunk, out);
  if (reads_open_ == 0) reading_since_ns_ = monotonic_ns();
  reads_open_ += chunk.reads_open;
  ++reading_;
  for (ReadOp& op : chunk.reads) {
    op.due_ns = chunk.tasks[op.task].due_ns;
    out.reads.push_back(&op);
  }
}

/// False: no memory for what must be read.
bool Production::place_inputs(Chunk& chunk) {
  const std::uint64_t room = list_inputs(chunk, *dataset_, number_);
  if (chunk.reads.empty()) return true;
  if (chunk.buffer.bytes < room) {
    stats_.buffered_bytes -= chunk.buffer.bytes;
    pool_->give(std::exchange(chunk.buffer, {}));
    chunk.buffer = pool_->take(room);
    if (!chunk.buffer.memory) return false;
    stats_.buffered_bytes += chunk.buffer.bytes;
    stats_.buffered_bytes_max = std::max(stats_.buffered_bytes_max, stats_.buffered_bytes);
  }
  place_reads(chunk, *dataset_);
  return true;
}

void Production::make_ready(Chunk& chunk, Outbox& out) {
  ready_.push_back(&chunk);
  out.runnable += chunk.step->slot ? 1 : 0;
}

void Production::read_done(ReadOp& op, const io::ReadCompletion& completion, std::optional<Error> error,
                           Outbox& out) {
  Chunk& chunk = *op.chunk;
  ++stats_.reads;
  stats_.read_latency_ns += completion.latency_ns;
  const auto* within =
      std::ranges::lower_bound(kReadLatencyBoundsS, static_cast<double>(completion.latency_ns) * 1e-9);
  if (within != kReadLatencyBoundsS.end())
    ++stats_.reads_within[static_cast<std::size_t>(within - kReadLatencyBoundsS.begin())];
  if (!error) {
    stats_.bytes_read += op.request.length;
    std::memset(op.request.dest + op.request.length, 0,
                kSlackBytes);  // what a decoder may look at is the same every time
  } else if (!chunk.read_error || op.task < chunk.read_error->first) {
    chunk.read_error.emplace(op.task, std::move(*error));
  }
  end_reads(1);
  if (--chunk.reads_open > 0) return;
  --reading_;
  if (chunk.step->dropped) return end_chunk(chunk);
  if (!chunk.read_error) return make_ready(chunk, out);
  fail_step(*chunk.step, chunk.tasks[chunk.read_error->first], chunk.read_error->second);
  end_chunk(chunk);
}

void Production::end_reads(std::uint32_t count) {
  reads_open_ -= count;
  if (reads_open_ == 0) stats_.reading_ns += monotonic_ns() - reading_since_ns_;
}

/// Also of those that are under way now.
std::int64_t Production::reading_ns() const {
  return stats_.reading_ns + (reads_open_ > 0 ? monotonic_ns() - reading_since_ns_ : 0);
}

std::unique_ptr<Chunk> Production::give_up(ReadOp& op, const Error& error, Outbox& out) {
  Chunk& chunk = *op.chunk;
  const auto found =
      std::find_if(chunks_.begin(), chunks_.end(), [&](const auto& other) { return other.get() == &chunk; });
  CHECK(found != chunks_.end());
  std::unique_ptr<Chunk> owned = std::move(*found);
  chunks_.erase(found);
  chunk.owner = nullptr;
  end_reads(chunk.reads_open);
  --reading_;
  stats_.buffered_bytes -= chunk.buffer.bytes;
  Step& step = *std::exchange(chunk.step, nullptr);
  if (!step.dropped) fail_step(step, chunk.tasks[op.task], error);
  leave_step(step);
  pump(out);
  return owned;
}

Chunk* Production::take_runnable() {
  if (running_ >= cores()) return nullptr;
  std::size_t best = ready_.size();
  for (std::size_t i = 0; i < ready_.size(); ++i)
    if (ready_[i]->step->slot && (best == ready_.size() || ready_[i]->order < ready_[best]->order)) best = i;
  if (best == ready_.size()) return nullptr;
  Chunk* chunk = ready_[best];
  ready_[best] = ready_.back();
  ready_.pop_back();
  ++running_;
  if (!chunk->plan) give_plan(*chunk);
  return chunk;
}

ComputeScratch Production::take_scratch() {
  ComputeScratch scratch = std::move(scratches_.back());
  scratches_.pop_back();
  return scratch;
}

void Production::compute(Chunk& chunk, ComputeScratch& scratch) const {
  compute_chunk({*chunk.plan->plan, *dataset_, *rows_, *options_.index, !has_reads_}, chunk, scratch);
}

void Production::finish(Chunk& chunk, ComputeScratch scratch, const ThreadTime& took, Outbox& out) {
  --running_;
  (chunk.received.memory ? stats_.rest_samples : stats_.local_samples) += chunk.tasks.size();
  (chunk.received.memory ? stats_.rest_ns : stats_.local_ns) += took.ns;
  stats_.cpu_ns += took.cpu_ns;
  totals_.made_samples += static_cast<double>(chunk.tasks.size());
  totals_.thread_s += static_cast<double>(took.ns) * 1e-9;
  try {
    PlanInUse& plan = *chunk.plan;
    plan.plan->collect_profile(scratch.transforms, plan.profile.stages);
    plan.plan->collect_decodes(scratch.transforms, stats_.decodes);
    plan.profile.measured_at_s = unix_s();
    adjust_flow();
  } catch (const std::bad_alloc&) {  // they stay in the scratch, for the next time
  }
  scratches_.push_back(std::move(scratch));
  if (chunk.distrusted && !chunk.step->dropped) return begin_again(chunk, out);
  if (!chunk.step->dropped && !chunk.broken.empty()) {
    try {
      settle_broken(chunk);
    } catch (const std::bad_alloc&) {
      fail_step(*chunk.step, chunk.tasks.front(), out_of_memory());
      chunk.tasks.clear();
    }
    if (chunk.received.memory) chunk.plan.reset();  // a substitute is computed here from the start
    pool_->give(std::exchange(chunk.received, {}));
    if (!chunk.tasks.empty()) return issue(chunk, out);  // substitutes to read and compute
  }
  end_chunk(chunk);
}

/// A file that is not as it was listed may be so for a moment only, like a read that fails: whether to read
/// it again, later, until the job's io_timeout.
bool Production::ask_again(RowTask& task, const Error& error) {
  if (error.code != Code::kIo || !has_reads_) return false;
  const std::int64_t now = monotonic_ns();
  if (task.changed_ns == 0) task.changed_ns = now;
  const std::int64_t wait = std::clamp(now - task.changed_ns, kRetryFirstNs, kRetryMaxNs);
  if (now + wait - task.changed_ns >= options_.io_timeout_ns) return false;
  task.due_ns = now + wait;
  count_retry();
  return true;
}

/// Apply the policy to the rows that could not be computed. What stays in `chunk.tasks` is to be read: again,
/// or a substitute.
void Production::settle_broken(Chunk& chunk) {
  Step& step = *chunk.step;
  std::vector<RowTask> again;
  const BrokenRowRules rules{*dataset_, options_.on_error, options_.seed};
  for (auto& [index, error] : chunk.broken) {
    RowTask task = chunk.tasks[index];
    if (ask_again(task, error)) {
      again.push_back(task);
      continue;
    }
    RowVerdict verdict = judge_broken_row(rules, step.epoch, task, std::move(error));
    switch (verdict.fate) {
      case RowVerdict::Fate::kStop:
        fail_step(step, task, verdict.error);
        break;
      case RowVerdict::Fate::kMask:
        rows_->clear(*step.slot, task.row, static_cast<std::int64_t>(task.record));
        ++stats_.masked;
        break;
      case RowVerdict::Fate::kReplace:
        again.push_back(task);
        ++stats_.replaced;
        break;
    }
    if (!verdict.entry || step.quarantined.size() == kQuarantinedMax) continue;
    // Chunks end in any order; a position's own entries stay in theirs.
    const auto place = std::ranges::upper_bound(step.quarantined, task.position, {}, &Failure::position);
    step.quarantined.insert(place, std::move(*verdict.entry));
  }
  chunk.broken.clear();
  chunk.tasks = std::move(again);
}

void Production::end_chunk(Chunk& chunk) {
  Step& step = *chunk.step;
  if (chunk.delivered.worker != 0) step.delivered.push_back(chunk.delivered);  // take_remote() made room
  recycle(chunk);
  leave_step(step);
}

void Production::recycle(Chunk& chunk) {
  stats_.buffered_bytes -= chunk.buffer.bytes;
  pool_->give(std::move(chunk.buffer));
  chunk.buffer = {};
  chunk.plan.reset();
  pool_->give(std::exchange(chunk.received, {}));
  chunk.came_back = chunk.distrusted = false;
  chunk.delivered = {};
  chunk.broken.clear();
  chunk.read_error.reset();
  free_chunks_.push_back(&chunk);
}

}  // namespace carya::loader
