#include "loader/overflow/remote_executor.h"

#include <fmt/core.h>
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <utility>

#include "base/clock.h"
#include "base/hash.h"
#include "loader/stream/stream_scheduler.h"
#include "loader/trace/trace.h"
#include "loader/wire/compatibility.h"
#include "loader/wire/worker_plan.h"
#include "remote/pool/name_lookups.h"

namespace carya::loader {
namespace {

/// The trainer's rate is measured over at least kTakenNs. A chunk is expected home within kHomeMargin times the
/// predicted time.
constexpr std::int64_t kTakenNs = 500'000'000;
constexpr double kHomeMargin = 1.5, kBatchesMax = 1e6;

/// ChunkWork::worker is unique in the process: the executor's number above kMemberBits, the member's number below.
constexpr unsigned kMemberBits = 32;

std::uint64_t member_of(std::uint64_t worker) {
  return worker & ((1ULL << kMemberBits) - 1);
}

std::uint64_t next_number() {
  static std::atomic<std::uint64_t> last{0};
  return ++last;
}

remote::Payload document_of(const RemotePlan& plan) {
  const auto text = std::make_shared<const std::string>(encode_remote(plan));
  return {.parts = {std::as_bytes(std::span(*text))}, .owner = text};
}

remote::Payload payload_of(const ChunkWork& work) {
  remote::Payload payload{.parts = {work.sent->table_of(work.by_address)}, .owner = work.sent};
  const auto& parts = work.sent->parts_of(work.by_address);
  payload.parts.insert(payload.parts.end(), parts.begin(), parts.end());
  return payload;
}

}  // namespace

RemoteExecutor::RemoteExecutor(const RemoteExecutorOptions& options)
    : options_(options), number_(next_number()), workers_(hash64(options.pool.hello.client, number_)) {
  if (!options_.log) options_.log = [](const std::string&) {};
  options_.pool.hello.facts = remote_facts();
}

Result<std::shared_ptr<RemoteExecutor>> RemoteExecutor::create(const RemoteExecutorOptions& options) {
  std::shared_ptr<RemoteExecutor> crew(new RemoteExecutor(options));
  crew->check_ = std::make_unique<ResultVerifier>(
      [self = crew.get()](std::unique_ptr<ChunkWork> work, ResultVerifier::Verdict verdict, bool ours) {
        self->checked(std::move(work), verdict, ours);
      });
  crew->encoder_ =
      std::make_unique<WorkEncoder>([self = crew.get()](std::unique_ptr<ChunkWork> work, bool encoded) {
        self->encoded(std::move(work), encoded);
      });
  ASSIGN(crew->pool_, remote::WorkerPool::create(crew->options_.pool, *crew));
  for (const std::string& worker : options.workers) TRY(crew->add_worker(worker));
  return crew;
}

Status RemoteExecutor::set_plan(const RemotePlan& plan, std::shared_ptr<PlanInUse> rest) {
  ASSIGN(const auto compiled, WorkerPlan::compile(plan));  // workers compile it in the same way
  auto cut = std::make_shared<PlanCut>(PlanCut{
      .plan = plan.id, .outputs = compiled->outputs(), .rest = std::move(rest), .compiled = compiled});
  std::vector<std::uint64_t> old;
  {
    const MutexLock lock(mutex_);
    cut_ = std::move(cut);
    workers_.set_plan(plan.id);
    plans_.push_back(plan.id);
    while (plans_.size() > remote::WorkerPool::kPlansMax) {
      old.push_back(plans_.front());
      plans_.erase(plans_.begin());
    }
  }
  for (const std::uint64_t number : old) pool_->drop_plan(number);  // its chunks that are out come back lost
  return pool_->add_plan(plan.id, {}, document_of(plan));
}

Result<std::uint64_t> RemoteExecutor::add_worker(const std::string& address) {
  ASSIGN(const std::uint64_t member, pool_->add_member(address));
  const MutexLock lock(mutex_);
  workers_.add(member, address);
  addresses_[member] = address;
  return member;
}

void RemoteExecutor::remove_worker(std::uint64_t member) {
  pool_->remove_member(member);
  const MutexLock lock(mutex_);
  workers_.remove(member);
}

void RemoteExecutor::set_retired(std::uint64_t member, bool retired) {
  const MutexLock lock(mutex_);
  WorkerEntry* const entry = workers_.find(member);
  if (entry == nullptr) return;
  entry->retired = retired;
  workers_.note_came();
}

bool RemoteExecutor::is_idle(std::uint64_t member) {
  const MutexLock lock(mutex_);
  const WorkerEntry* const entry = workers_.find(member);
  return entry == nullptr || entry->out == 0;
}

void RemoteExecutor::set_workers(std::uint32_t workers) {
  const MutexLock lock(mutex_);
  workers_.set_count(workers);
  has_workers_ = workers > 0;
}

RemoteTotals RemoteExecutor::totals() {
  const auto all = pool_->figures();
  const MutexLock lock(mutex_);
  workers_.look(all);
  RemoteTotals totals = totals_;
  for (const remote::WorkerStats& one : all) totals.link_out_bytes_per_s += one.link_out_bytes_per_s;
  if (receiving_ > 0) totals.receiving_ns += monotonic_ns() - receiving_since_ns_;
  totals.host_ns = cpu_ns_of(thread_) + encoder_->cpu_ns();
  totals.away_p99_ns = late_.p99_ns();
  const WorkerTable::Counts counts = workers_.counts();
  totals.used = counts.used;
  totals.ready = counts.ready;
  totals.worker_speeds = workers_.speeds();
  totals.worker_cores = workers_.mean_cores();
  return totals;
}

std::size_t RemoteExecutor::members() const {
  const MutexLock lock(mutex_);
  return workers_.size();
}

RemoteExecutor::~RemoteExecutor() {
  end();
}

void RemoteExecutor::end() {
  stop();
  if (thread_.joinable()) thread_.join();
  if (encoder_) encoder_->end();
  if (check_) check_->end();
}

void RemoteExecutor::begin(ChunkDone done, std::function<void()> wake) {
  done_ = std::move(done);
  wake_ = std::move(wake);
  check_->begin();
  encoder_->begin();
  thread_ = std::thread([this] { pool_->run(); });
  // Nobody waits for a resolver.
  if (const auto lookups = pool_->lookups()) std::thread([lookups] { lookups->run(); }).detach();
}

void RemoteExecutor::stop() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
  }
  if (encoder_) encoder_->stop();
  if (pool_) pool_->stop();
  if (check_) check_->stop();
}

void RemoteExecutor::note_taken(StreamScheduler& stream) {
  const Parallelism& parallelism = stream.parallelism();
  const double batches = (parallelism.totals().taken_samples - taken_samples_) /
                         static_cast<double>(stream.sequencer().options().shape.rank_rows_max());
  const std::int64_t took_ns = parallelism.taken_at_ns() - taken_at_ns_;
  if (took_ns < kTakenNs && took_ns >= 0) return;
  batch_ns_ = taken_at_ns_ > 0 && batches > 0 ? static_cast<double>(took_ns) / batches : 0;
  taken_samples_ = parallelism.totals().taken_samples;
  taken_at_ns_ = parallelism.taken_at_ns();
}

// Number of batches that the trainer will take before a chunk that is sent now returns.
std::size_t RemoteExecutor::batches_ahead(const WorkerEntry& entry) const {
  if (batch_ns_ == 0) return 0;
  const double home_ns = kHomeMargin * entry.window.next_home_ns(entry.out, entry.cores);
  return static_cast<std::size_t>(std::min(home_ns / batch_ns_, kBatchesMax));
}

void RemoteExecutor::offer(StreamScheduler& stream, Outbox& out) {
  const MutexLock lock(mutex_);
  if (stopping_) return;
  for (const std::uint64_t worker : std::exchange(distrusted_, {})) {
    stream.distrust(worker, out);
    tell_what_went_out(worker, stream.sequencer().went_out(worker));
  }
  take_back_late(stream, out);
  take_back_waited_for(stream, out);
  note_taken(stream);
  while (const auto next = workers_.next()) {
    auto work = stream.take_remote(cut_, {.keep_local = options_.lead,
                                          .min_batches_ahead = batches_ahead(*next->entry),
                                          .allow_final = next->entry->out == 0});
    if (!work) return;
    work->worker = number_ << kMemberBits | next->member;
    if (!encoder_->add(work, stream.parts(), workers_.any_reads()))
      return stream.end_remote(*work, false, out);
    ++next->entry->out;
  }
}

// The worker for which the chunk was taken has one chunk less, and most often gets this chunk.
void RemoteExecutor::encoded(std::unique_ptr<ChunkWork> work, bool encoded) {
  bool sent = false;
  {
    const MutexLock lock(mutex_);
    if (WorkerEntry* const entry = workers_.find(member_of(work->worker))) --entry->out;
    sent = encoded && !stopping_ && submit(work);
  }
  if (!sent) done_(std::move(work), false);
}

// Send the chunk to a worker. Returns whether a worker took it; the work then belongs to out_.
bool RemoteExecutor::submit(std::unique_ptr<ChunkWork>& work) {
  while (const auto next = workers_.next()) {
    WorkerEntry& entry = *next->entry;
    const std::uint64_t request = ++requests_;
    work->worker = number_ << kMemberBits | next->member;
    work->by_address = entry.reads && !work->sent->address_table.empty();
    const remote::Submission submission{.request = request,
                                        .plan = work->cut->plan,
                                        .about = encode_remote(work->sent->head_of(work->by_address)),
                                        .payload = payload_of(*work),
                                        .result_bytes = work->result_bytes()};
    const double home_ns = entry.window.next_home_ns(entry.out, entry.cores);
    ++entry.out;
    out_[request] = {std::move(work), next->member, monotonic_ns(), home_ns};
    const Status sent = pool_->submit(next->member, submission);
    if (sent) return true;
    work = std::move(out_[request].work);
    out_.erase(request);
    --entry.out;
    if (sent.error().code == Code::kExhausted || sent.error().code == Code::kClosed)
      entry.room = false;  // until room() or registered() says otherwise
    else
      return false;  // too large for a worker: this chunk stays here
  }
  return false;
}

// Withdraw a chunk so that this machine computes it. A row has one writer: nobody writes the rows of a withdrawn chunk.
bool RemoteExecutor::take_back(std::uint64_t request, StreamScheduler& stream, Outbox& out) {
  if (!pool_->withdraw(request)) return false;  // the chunk is home, or lost
  note_away(out_[request]);
  stream.end_remote(*take_out(request), false, out);
  return true;
}

// While this machine idles, it waits for a chunk no longer than it needs to compute the chunk itself, and not at all if
// the chunk is predicted to take longer than that.
void RemoteExecutor::take_back_waited_for(StreamScheduler& stream, Outbox& out) {
  const Step* const step = stream.waited_for();
  const std::int64_t now_ns = monotonic_ns();
  if (std::exchange(waited_for_, step) != step) waited_since_ns_ = now_ns;
  if (step == nullptr) return;
  const auto is_due = [&](const auto& one) { return one.second.work->chunk->step == step; };
  const auto due = std::ranges::find_if(out_, is_due);
  if (due == out_.end()) return;
  const Out& one = due->second;
  const double here_ns =
      static_cast<double>(one.work->sent->head.rows) * stream.parallelism().local_sample_ns();
  const bool is_far = static_cast<double>(one.since_ns - now_ns) + one.home_ns >= here_ns;
  if (!is_far && static_cast<double>(now_ns - waited_since_ns_) < here_ns) return;
  if (take_back(due->first, stream, out)) waited_since_ns_ = now_ns;
}

void RemoteExecutor::take_back_late(StreamScheduler& stream, Outbox& out) {
  const std::int64_t now_ns = monotonic_ns();
  std::vector<std::uint64_t> late;
  for (const auto& [request, one] : out_)
    if (now_ns - one.since_ns > late_.ns()) late.push_back(request);
  for (const std::uint64_t request : late) take_back(request, stream, out);
}

// Tell the worker's window how long a chunk was away that came home or was withdrawn now.
void RemoteExecutor::note_away(const Out& one) {
  if (WorkerEntry* const entry = workers_.find(one.member))
    entry->window.note_away(static_cast<double>(monotonic_ns() - one.since_ns), one.home_ns);
}

std::unique_ptr<ChunkWork> RemoteExecutor::take_out(std::uint64_t request) {
  const auto found = out_.find(request);
  if (found == out_.end()) return nullptr;
  std::unique_ptr<ChunkWork> work = std::move(found->second.work);
  if (WorkerEntry* const entry = workers_.find(found->second.member)) --entry->out;
  if (found->second.arriving_since_ns != 0 && --receiving_ == 0)
    totals_.receiving_ns += monotonic_ns() - receiving_since_ns_;
  out_.erase(found);
  return work;
}

void RemoteExecutor::give_back(std::uint64_t request) {
  std::unique_ptr<ChunkWork> work;
  {
    const MutexLock lock(mutex_);
    work = take_out(request);
  }
  if (work) done_(std::move(work), false);
}

// The worker could not read a record itself: it is sent records from now on.
void RemoteExecutor::note_unread(std::uint64_t request, const std::string& why) {
  const MutexLock lock(mutex_);
  const auto found = out_.find(request);
  WorkerEntry* const entry = found == out_.end() ? nullptr : workers_.find(found->second.member);
  if (entry == nullptr || !std::exchange(entry->reads, false)) return;
  options_.log(fmt::format("worker={} is sent records now why=\"{}\"", found->second.member, why));
}

// The worker has computed the chunk: deliver it, or compare it first.
void RemoteExecutor::take_home(std::uint64_t request, std::uint64_t thread_ns) {
  std::unique_ptr<ChunkWork> work;
  bool checks = false;
  {
    const MutexLock lock(mutex_);
    const auto found = out_.find(request);
    if (found == out_.end()) return;
    const std::int64_t now_ns = monotonic_ns();
    late_.note(now_ns - found->second.since_ns);
    note_away(found->second);
    WorkerEntry& entry = workers_.at(found->second.member);
    const std::uint64_t rows = found->second.work->sent->head.rows;
    totals_.rows += rows;
    totals_.worker_ns += static_cast<std::uint64_t>(workers_.note_speed(entry, thread_ns, rows));
    totals_.received_bytes += found->second.work->result_bytes();
    if (trace_on()) trace_away(found->second, thread_ns, now_ns);
    entry.window.note(static_cast<std::int64_t>(std::min<std::uint64_t>(thread_ns, INT64_MAX)),
                      now_ns - found->second.arriving_since_ns);
    checks = !entry.proven || dice_.roll(options_.verify);
    work = take_out(request);
    if (checks) ++entry.out;
  }
  if (checks)
    check_->add(std::move(work));
  else
    done_(std::move(work), true);
}

// The chunk as its holder may read it: nobody else changes it meanwhile.
void RemoteExecutor::trace_away(const Out& one, std::uint64_t thread_ns, std::int64_t now_ns) {
  if (std::exchange(named_in_, trace_session()) != trace_session() ||
      std::exchange(named_, addresses_.size()) != addresses_.size())
    trace_names(one.work->traced_as, {.record = {}, .worker = [addresses = addresses_](std::uint64_t member) {
                                        const auto found = addresses.find(member);
                                        return found == addresses.end() ? std::string() : found->second;
                                      }});
  trace_note({.kind = TraceKind::kAway,
              .lane = static_cast<std::uint32_t>(one.member),
              .stream = one.work->traced_as,
              .begin_ns = one.since_ns,
              .end_ns = now_ns,
              .of = one.work->chunk->order,
              .step = one.work->traced_step,
              .rows = thread_ns,
              .value = static_cast<std::uint64_t>(one.arriving_since_ns)});
}

void RemoteExecutor::checked(std::unique_ptr<ChunkWork> work, ResultVerifier::Verdict verdict,
                             bool rows_are_ours) {
  const std::uint64_t worker = work->worker;
  {
    const MutexLock lock(mutex_);
    if (WorkerEntry* const entry = workers_.find(member_of(worker))) {
      --entry->out;
      entry->proven |= verdict == ResultVerifier::Verdict::kSame;
    }  // else the worker was removed meanwhile
  }
  // The scheduler is told before it gets the chunk back: until then the chunk's batch, and all later ones, are not
  // published.
  if (verdict == ResultVerifier::Verdict::kDiffers && expel(worker)) wake_();
  if (rows_are_ours) work->worker = 0;
  done_(std::move(work), rows_are_ours);
}

// Rows in published batches cannot be taken back, so the log names those batches for the user. Requires mutex_.
void RemoteExecutor::tell_what_went_out(std::uint64_t worker, const std::string& batches) {
  const std::string text = batches.empty() ? "no batch that went out had rows of it"
                                           : "batches that went out with rows of it: " + batches;
  const auto found = std::ranges::find(expelled_, member_of(worker), &remote::WorkerStats::member);
  if (found != expelled_.end()) found->reason += "; " + text;
  options_.log(fmt::format("worker={} delivered=\"{}\"", member_of(worker), text));
}

// Returns false if the worker was already expelled.
bool RemoteExecutor::expel(std::uint64_t worker) {
  const std::uint64_t number = member_of(worker);
  const std::string why =
      "its bits differ from those of this machine: it is expelled, for as long as the loader lives";
  std::string address;
  const auto all = pool_->figures();
  {
    const MutexLock lock(mutex_);
    if (std::exchange(workers_.at(number).expelled, true)) return false;
    distrusted_.push_back(worker);
    const auto seen = std::ranges::find(all, number, &remote::WorkerStats::member);
    if (seen != all.end()) {
      expelled_.push_back(*seen);
      expelled_.back().state = remote::WorkerStats::State::kExpelled;
      expelled_.back().reason = why;
      address = seen->address;
    }
  }
  options_.log(fmt::format("worker={} address={} expelled why=\"{}\"", number, address, why));
  pool_->remove_member(number);
  return true;
}

std::vector<remote::WorkerStats> RemoteExecutor::figures() const {
  auto all = pool_->figures();
  const MutexLock lock(mutex_);
  for (const remote::WorkerStats& one : expelled_) {
    std::erase_if(all, [&](const auto& other) { return other.member == one.member; });
    all.push_back(one);
  }
  return all;
}

Status RemoteExecutor::admit(std::uint64_t member, const remote::Welcome& welcome) {
  TRY(check_remote_facts(welcome.facts));
  const MutexLock lock(mutex_);
  workers_.at(member).cores = worker_cores(welcome.facts);
  return {};
}

void RemoteExecutor::down(std::uint64_t member, const Error& reason, bool parked) {
  {
    const MutexLock lock(mutex_);
    workers_.at(member).plan = 0;
  }
  options_.log(fmt::format("worker={} {} why=\"{}\"", member, parked ? "parked" : "down", reason.message));
}

void RemoteExecutor::registered(std::uint64_t member, std::uint64_t plan, Result<std::string> about) {
  if (!about) {
    {
      const MutexLock lock(mutex_);
      workers_.at(member).plan = 0;
    }
    return options_.log(fmt::format("worker={} refuses the plan why=\"{}\"", member, about.error().message));
  }
  const auto ready = decode_remote<RemoteReady>(std::as_bytes(std::span(*about)));
  {
    const MutexLock lock(mutex_);
    WorkerEntry& entry = workers_.at(member);
    entry.reads = ready && ready->reads;
    entry.plan = std::max(entry.plan, plan);
    entry.room = true;
    entry.proven = false;
    workers_.note_came();
  }
  if (ready && !ready->note.empty()) options_.log(fmt::format("worker={} says=\"{}\"", member, ready->note));
  wake_();
}

void RemoteExecutor::room(std::uint64_t member) {
  {
    const MutexLock lock(mutex_);
    workers_.at(member).room = true;
  }
  wake_();
}

remote::ReceiveTarget RemoteExecutor::place(std::uint64_t request, const std::string&, std::uint64_t bytes) {
  const MutexLock lock(mutex_);
  const auto found = out_.find(request);
  if (found == out_.end() || found->second.work->result_bytes() != bytes) return {};
  if (found->second.arriving_since_ns == 0) {
    found->second.arriving_since_ns = monotonic_ns();
    if (receiving_++ == 0) receiving_since_ns_ = found->second.arriving_since_ns;
  }
  return {.where = remote::ReceiveTarget::Where::kParts, .parts = found->second.work->places};
}

void RemoteExecutor::done(std::uint64_t request, const std::string& about, bool placed) {
  const auto result = decode_remote<RemoteResult>(std::as_bytes(std::span(about)));
  if (!result) options_.log(fmt::format("request={} why=\"{}\"", request, result.error().message));
  if (result && !result->unread.empty()) note_unread(request, result->unread);
  if (placed && result && result->broken.empty())
    take_home(request, result->thread_ns);
  else
    give_back(request);
}

void RemoteExecutor::failed(std::uint64_t request, const Error& error) {
  options_.log(fmt::format("request={} failed why=\"{}\"", request, error.message));
  give_back(request);
}

void RemoteExecutor::lost(std::uint64_t request, const Error&) {
  give_back(request);
}

}  // namespace carya::loader
