#include "loader/job/job.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/clock.h"
#include "loader/host/leak.h"
#include "loader/job/local_stream.h"
#include "loader/stream/slot_meta.h"
#include "loader/trace/trace.h"

namespace carya::loader {
namespace {

/// A wait is cut into pieces of this length, so that close() by another thread ends it, and so that it sees the loss of
/// a daemon.
constexpr std::int64_t kWaitMs = 50;

bool is_timeout(const Error& error) {
  return error.code == Code::kTimeout && error.sys_errno == 0;
}

/// Whether the stream's maker is gone, so that another one may be found. False if the maker was told to stop.
bool is_lost(const Error& error) {
  return error.code == Code::kClosed && error.sys_errno != ECANCELED;
}

}  // namespace

Attach attach_embedded(std::shared_ptr<const transforms::Pipeline> pipeline,
                       std::shared_ptr<const Dataset> dataset, const JobOptions& given, GivenParts parts) {
  return [pipeline, dataset, given, parts](std::uint64_t epoch, std::uint64_t position,
                                           transforms::OnError on_error) -> Result<Attachment> {
    JobOptions options = given;
    options.epoch = epoch;
    options.position = position;
    options.on_error = on_error;
    if (options.node == kNoNode) options.node = own_node();
    ASSIGN(const auto stream, LocalStream::create(pipeline, dataset, options, {}, parts));
    ASSIGN(const std::uint32_t index, stream->attach_reader());
    const shm::SlotRing::ReaderFds fds = stream->reader_fds(index);
    ASSIGN(auto reader, shm::RingReader::attach(fds, index));
    TRY(stream->start());
    return Attachment{.producer = stream,
                      .reader = std::move(reader),
                      .session = stream->session(),
                      .shape = stream->shape(),
                      .seed = stream->seed(),
                      .threads = stream->threads(),
                      .slots = stream->slots(),
                      .dataset = dataset->fingerprint(),
                      .traced_as = stream->traced_as(),
                      .io_engine = stream->io_name(),
                      .slot_files = fds.slots};
  };
}

Result<std::shared_ptr<Job>> Job::create(std::shared_ptr<const transforms::Pipeline> pipeline,
                                         std::shared_ptr<const Dataset> dataset, const JobOptions& options) {
  return create(attach_embedded(std::move(pipeline), std::move(dataset), options), options);
}

Result<std::shared_ptr<Job>> Job::create(Attach attach, const JobOptions& options) {
  auto job = std::shared_ptr<Job>(new Job());
  job->attach_ = std::move(attach);
  job->prefetch_epochs_ = options.prefetch_epochs;
  job->on_error_ = options.on_error;
  job->trains_ = options.trains;
  job->epoch_ = options.epoch;
  job->position_ = options.position;
  TRY(job->attach());
  return job;
}

/// Get a stream that begins at the reader's place. Leased batches of an older stream stay readable.
Status Job::attach() {
  ASSIGN(Attachment found, attach_(epoch_, position_, on_error_));
  if (layout_ &&
      (found.dataset != dataset_ || found.seed != seed_ || found.shape.global_size != shape_.global_size ||
       found.reader->layout().tensors() != layout_->tensors()))
    return fail(Code::kInvalidArgument,
                "loader: the stream's maker was lost, and what " + found.place +
                    " offers is another stream: the dataset or the version changed; make a new Loader");
  const MutexLock lock(facts_);
  if (!layout_) {
    layout_ = found.reader->layout();
    shape_ = found.shape;
    seed_ = found.seed;
    dataset_ = found.dataset;
  }
  at_ = std::move(found);
  lost_ = false;
  return {};
}

Job::~Job() {
  if (forked()) {  // everything belongs to the parent, and threads that are not here may hold the locks
    leak(std::move(at_));
    leak(std::move(attach_));
    return;
  }
  close();
}

Status Job::check_usable() const {
  if (forked())
    return fail(
        Code::kForked,
        "loader: used in a forked child; make a Loader of your own there, or start processes with spawn");
  if (closed_) return fail(Code::kClosed, "loader: it was closed; make a new one");
  return {};
}

void Job::close() {
  if (forked() || closed_.exchange(true)) return;
  const auto maker = producer();
  if (!maker) return;
  maker->note_demand(trainer().demand_per_s);
  maker->close();
}

std::shared_ptr<Stream> Job::producer() const {
  const MutexLock lock(facts_);
  return at_.producer;
}

/// Wait for the next slot of the present session. Errors: those of next().
Result<shm::Lease> Job::wait(std::int64_t end_ns) {
  while (true) {
    if (closed_) return fail(Code::kClosed, "loader: it was closed while it waited; make a new one");
    const std::int64_t left_ms = std::max<std::int64_t>(0, (end_ns - monotonic_ns()) / 1'000'000);
    if (lost_) {
      if (const Status found = attach(); !found) {
        if (found.error().code != Code::kTimeout || left_ms == 0) return std::unexpected(found.error());
        continue;
      }
      ++reattached_;
    }
    Result<shm::Lease> lease = at_.reader->next(static_cast<int>(std::min(left_ms, kWaitMs)));
    if (lease) {
      if (lease->meta()[kMetaSession] == at_.session) return lease;
      continue;  // the slot is from before a seek, and goes back at once
    }
    const bool gone = lease.error().code == Code::kClosed && at_.remote;
    if (!gone && !is_timeout(lease.error())) return lease;
    if (closed_) continue;
    if (const Status there = at_.producer->check(); gone || !there) {
      if (!there && !is_lost(there.error())) return std::unexpected(there.error());
      lost_ = true;
    } else if (left_ms <= kWaitMs) {
      return lease;
    }
  }
}

Result<Batch> Job::next(int timeout_ms) {
  TRY(check_usable());
  const std::int64_t begin = monotonic_ns();
  {
    const MutexLock lock(facts_);
    if (failure_) return std::unexpected(failure_->error);
    trainer_.asked(begin, lost_ ? 0 : at_.reader->pending());
  }
  Result<Batch> batch = fail(Code::kTimeout, "");
  while (true) {
    Result<shm::Lease> lease = wait(begin + timeout_ms * 1'000'000LL);
    batch = lease ? deliver(std::move(*lease)) : Result<Batch>(std::unexpected(std::move(lease.error())));
    const bool again = !batch && lease && lost_ && is_lost(batch.error());
    if (!again)
      break;  // else the maker was lost while it was asked about this batch, which comes again from another
  }
  note(batch);
  if (!trace_on())
    traced_ns_ = asked_ns_ = 0;
  else if (asked_ns_ == 0)
    asked_ns_ = begin;  // a wait may be cut into several calls
  if (batch && asked_ns_ != 0) trace_next(std::exchange(asked_ns_, 0), *batch);
  return batch;
}

/// The wait for this batch, and before it the trainer's own work since the last one.
void Job::trace_next(std::int64_t begin_ns, Batch& batch) {
  batch.stream = at_.traced_as;
  batch.taken_ns = monotonic_ns();
  const std::uint64_t sequence = batch.lease.sequence();
  if (traced_ns_ != 0)
    trace_note({.kind = TraceKind::kTrainer,
                .stream = batch.stream,
                .begin_ns = traced_ns_,
                .end_ns = begin_ns,
                .of = traced_sequence_});
  trace_note({.kind = TraceKind::kNext,
              .lane = batch.lease.slot(),
              .stream = batch.stream,
              .begin_ns = begin_ns,
              .end_ns = batch.taken_ns,
              .of = sequence,
              .rows = batch.rows,
              .value = batch.epoch});
  trace_clocks(batch.taken_ns);
  traced_sequence_ = sequence;
  traced_ns_ = batch.taken_ns;
}

void Job::note(const Result<Batch>& batch) {
  const MutexLock lock(facts_);
  const std::int64_t now = monotonic_ns();
  if (!batch) return trainer_.waited(now);
  trainer_.delivered(now, batch->rows);
  // The demand is noted on the way too, since a training may be killed.
  if (trains_ && trainer_.block_ended()) at_.producer->note_demand(trainer_.figures(now).demand_per_s);
}

/// Move the reader's place past the batch, and show the broken records of it.
Result<Batch> Job::deliver(shm::Lease lease) {
  const shm::Meta meta = lease.meta();
  Batch batch{.epoch = meta[kMetaEpoch],
              .step = meta[kMetaStep],
              .position = meta[kMetaPosition],
              .rows = meta[kMetaRows],
              .last = meta[kMetaLast] != 0};
  const bool failed = meta[kMetaKind] == static_cast<std::uint64_t>(SlotKind::kFailure);
  if (meta[kMetaFound] != 0) {
    Result<DeliveredErrors> found = at_.producer->take_errors(lease.sequence());
    if (!found) {
      // The lease goes back unread. The place has not moved: a new attachment gives this batch again.
      lost_ = at_.remote && found.error().sys_errno != ECANCELED;
      if (lost_ && (is_lost(found.error()) || found.error().code == Code::kTimeout))
        return fail(Code::kClosed, "loader: the daemon was lost");
      return std::unexpected(std::move(found.error()));
    }
    const MutexLock lock(facts_);
    for (RecordError& entry : found->quarantine) keep(std::move(entry));
    if (failed) {
      if (!found->failure) return fail(Code::kCorrupt, "loader: a batch failed and nobody says why");
      failure_ = std::move(found->failure);
      if (failure_->error.code == Code::kCorrupt) keep(*failure_);
      return std::unexpected(failure_->error);
    }
  }
  at_epoch_end_ = batch.last;
  epoch_ = batch.last ? batch.epoch + 1 : batch.epoch;
  position_ = batch.last ? 0 : batch.position;
  batch.lease = std::move(lease);
  return batch;
}

void Job::keep(RecordError failure) {
  if (quarantine_.size() < kQuarantineMax)
    quarantine_.push_back(std::move(failure));
  else
    ++quarantine_left_out_;
}

Status Job::seek(std::uint64_t epoch, std::uint64_t position) {
  TRY(check_usable());
  {
    const MutexLock lock(facts_);
    const bool parked = at_epoch_end_ && !prefetch_epochs_;
    if (!failure_ && !parked && epoch == epoch_ && position == position_) return {};
  }
  return restart(epoch, position);
}

Status Job::restart(std::uint64_t epoch, std::uint64_t position) {
  epoch_ = epoch;
  position_ = position;
  at_epoch_end_ = false;
  Result<std::uint64_t> session = lost_ ? fail(Code::kClosed, "") : producer()->seek(epoch, position);
  const MutexLock lock(facts_);
  failure_.reset();
  if (session) {
    at_.session = *session;
  } else if (is_lost(session.error())) {
    lost_ = true;  // the next attachment begins at this place
  } else {
    return std::unexpected(std::move(session.error()));
  }
  return {};
}

Status Job::set_on_error(transforms::OnError policy) {
  TRY(check_usable());
  on_error_ = policy;
  Result<bool> changed = lost_ ? fail(Code::kClosed, "") : producer()->set_on_error(policy);
  if (!changed && !is_lost(changed.error())) return std::unexpected(std::move(changed.error()));
  if (changed && !*changed) return {};
  const bool parked = at_epoch_end_ && !prefetch_epochs_;  // nothing was prefetched
  return parked ? Status() : restart(epoch_, position_);
}

// In a forked child, threads that are not there may hold the locks for ever.

std::uint32_t Job::held() const {
  if (forked()) return 0;
  const MutexLock lock(facts_);
  return at_.reader->held();
}

std::vector<int> Job::slot_files() const {
  if (forked()) return {};
  const MutexLock lock(facts_);
  return at_.slot_files;
}

std::uint32_t Job::attachment_figure(std::uint32_t Attachment::* figure) const {
  if (forked()) return 0;
  const MutexLock lock(facts_);
  return at_.*figure;
}

std::string Job::io_engine() const {
  if (forked()) return {};
  const MutexLock lock(facts_);
  return at_.io_engine;
}

std::string Job::place() const {
  if (forked()) return {};
  const MutexLock lock(facts_);
  return at_.place;
}

std::pair<std::uint64_t, std::vector<std::string>> Job::skipped() const {
  if (forked()) return {};
  const MutexLock lock(facts_);
  return {at_.skipped_count, at_.skipped_examples};
}

std::optional<RecordError> Job::failure() const {
  if (forked()) return std::nullopt;
  const MutexLock lock(facts_);
  return failure_;
}

std::vector<RecordError> Job::quarantine() const {
  if (forked()) return {};
  const MutexLock lock(facts_);
  return quarantine_;
}

TrainerStats Job::trainer() const {
  const MutexLock lock(facts_);
  TrainerStats figures = trainer_.figures(monotonic_ns());
  if (!trains_) figures.step_s = figures.demand_per_s = 0;
  return figures;
}

JobStats Job::stats() const {
  JobStats stats;
  if (forked()) return stats;
  // A maker that is lost has no statistics.
  if (auto made = producer()->stats()) static_cast<StreamStats&>(stats) = std::move(*made);
  stats.trainer = trainer();
  stats.rates = joined(stats.rates, {.demand_per_s = stats.trainer.demand_per_s, .demand_at_s = unix_s()});
  const MutexLock lock(facts_);
  stats.slots = at_.slots;
  stats.threads = at_.threads;
  stats.held = at_.reader->held();
  stats.quarantine_left_out = quarantine_left_out_;
  return stats;
}

}  // namespace carya::loader
