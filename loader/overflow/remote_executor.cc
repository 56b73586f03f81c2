#include "loader/overflow/remote_executor.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <ctime>
#include <functional>
#include <ranges>
#include <utility>

#include "base/clock.h"
#include "base/hash.h"
#include "loader/stream/scheduler.h"
#include "loader/wire/compatibility.h"
#include "loader/wire/worker_plan.h"

namespace carya::loader {
namespace {

/// A chunk is late after this at the earliest, and before anything is known of its workers.
constexpr std::int64_t kLateMinNs = 250'000'000;
constexpr std::int64_t kLateFirstNs = 5'000'000'000;

/// What others take of a worker below this is noise.
constexpr double kAllFree = 0.9;

/// What a worker may say of its time for a chunk: a day.
constexpr double kThreadNsMax = 86'400e9;

/// One look at the workers in so many may leave one that others use too.
constexpr unsigned kLooksPerMove = 4;

/// The trainer's rate is looked at after so long; chunks may take so many times what they took in the mean.
constexpr std::int64_t kTakenNs = 500'000'000;
constexpr double kHomeMargin = 1.5, kBatchesMax = 1e6;

/// Numbers of members are their crew's; those of workers are no other crew's.
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

remote::Payload payload_of(const RemoteWork& work) {
  remote::Payload payload{.parts = {work.table()}, .owner = work.sent};
  payload.parts.insert(payload.parts.end(), work.parts().begin(), work.parts().end());
  return payload;
}

std::int64_t cpu_ns_of(std::thread& thread) {
  clockid_t clock{};
  timespec time{};
  if (!thread.joinable() || pthread_getcpuclockid(thread.native_handle(), &clock) != 0 ||
      clock_gettime(clock, &time) != 0)
    return 0;
  return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

}  // namespace

PoolCrew::PoolCrew(const PoolCrewOptions& options)
    : options_(options),
      number_(next_number()),
      random_(static_cast<std::uint32_t>(hash64(options.pool.hello.client, number_))),
      late_ns_(kLateFirstNs) {
  if (!options_.log) options_.log = [](const std::string&) {};
  options_.pool.hello.facts = remote_facts();
}

Result<std::shared_ptr<PoolCrew>> PoolCrew::create(const PoolCrewOptions& options) {
  std::shared_ptr<PoolCrew> crew(new PoolCrew(options));
  crew->check_ = std::make_unique<ChunkCheck>(
      [self = crew.get()](std::unique_ptr<RemoteWork> work, ChunkCheck::Verdict verdict, bool ours) {
        self->checked(std::move(work), verdict, ours);
      });
  ASSIGN(crew->pool_, remote::WorkerPool::create(crew->options_.pool, *crew));
  for (const std::string& worker : options.workers) TRY(crew->add_worker(worker));
  return crew;
}

Status PoolCrew::set_plan(const RemotePlan& plan, std::shared_ptr<PlanInUse> rest) {
  ASSIGN(const auto compiled, WorkerPlan::compile(plan));  // as workers will
  auto cut = std::make_shared<PlanCut>(PlanCut{
      .plan = plan.id, .outputs = compiled->outputs(), .rest = std::move(rest), .compiled = compiled});
  std::vector<std::uint64_t> old;
  {
    const std::lock_guard lock(mutex_);
    cut_ = std::move(cut);
    for (auto& [number, member] : members_) member.speed.forget();
    plans_.push_back(plan.id);
    while (plans_.size() > remote::WorkerPool::kPlansMax) {
      old.push_back(plans_.front());
      plans_.erase(plans_.begin());
    }
  }
  for (const std::uint64_t number : old) pool_->drop_plan(number);  // what is out of it comes back lost
  return pool_->add_plan(plan.id, {}, document_of(plan));
}

Result<std::uint64_t> PoolCrew::add_worker(const std::string& address) {
  ASSIGN(const std::uint64_t member, pool_->add_member(address));
  const std::lock_guard lock(mutex_);
  // It may have come already.
  members_[member].seen.order = hash64(address, hash64(options_.pool.hello.client, number_));
  return member;
}

void PoolCrew::remove_worker(std::uint64_t member) {
  pool_->remove_member(member);
  const std::lock_guard lock(mutex_);
  members_.erase(member);
}

void PoolCrew::set_workers(std::uint32_t workers) {
  const std::lock_guard lock(mutex_);
  workers_ = workers;
  choose(false);
}

CrewTotals PoolCrew::totals() {
  const auto all = pool_->figures();
  const std::lock_guard lock(mutex_);
  for (const remote::WorkerFigures& one : all)
    if (const auto member = members_.find(one.member); member != members_.end()) {
      member->second.window.note_round_trip(static_cast<std::int64_t>(one.round_trip_s * 1e9));
      member->second.chunks_max = one.window.requests;
      member->second.free = one.free >= kAllFree ? 1 : one.free;
    }
  choose(random_() % kLooksPerMove == 0);
  CrewTotals totals = totals_;
  for (const remote::WorkerFigures& one : all) totals.link_out_bytes_per_s += one.link_out_bytes_per_s;
  if (receiving_ > 0) totals.receiving_ns += monotonic_ns() - receiving_since_ns_;
  totals.host_ns = cpu_ns_of(thread_);
  for (const auto& [number, member] : members_) {
    totals.used += member.seen.used && is_there(member) ? 1 : 0;
    totals.ready += member.seen.used && is_ready(member) ? 1 : 0;
    if (is_there(member) && member.speed.known())
      totals.worker_speeds.push_back(member.speed.beside() * member.free);
  }
  std::ranges::sort(totals.worker_speeds, std::greater());
  totals.worker_cores = mean_cores();
  return totals;
}

double PoolCrew::mean_cores() const {
  double cores = 0, came = 0;
  for (const auto& [number, member] : members_) {
    cores += member.cores;
    came += member.cores > 0 ? 1 : 0;
  }
  return came > 0 ? cores / came : 0;
}

/// The time that a worker of speed 1 would have needed, in ns.
double PoolCrew::note_speed(Member& member, std::uint64_t thread_ns, std::uint64_t rows) {
  const double ns = std::min(static_cast<double>(thread_ns), kThreadNsMax);
  member.speed.note(ns, rows, member.cores);
  WorkerSpeed::compare(members_ | std::views::values | std::views::transform(&Member::speed));
  return ns * member.speed.beside() * mean_cores() / std::max(member.cores, 1.0);
}

std::size_t PoolCrew::members() const {
  const std::lock_guard lock(mutex_);
  return members_.size();
}

PoolCrew::~PoolCrew() {
  end();
}

void PoolCrew::end() {
  stop();
  if (thread_.joinable()) thread_.join();
  if (check_) check_->end();
}

void PoolCrew::begin(RemoteDone done, std::function<void()> wake) {
  done_ = std::move(done);
  wake_ = std::move(wake);
  check_->begin();
  thread_ = std::thread([this] { pool_->run(); });
}

void PoolCrew::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  if (pool_) pool_->stop();
  if (check_) check_->stop();
}

// Who has an older plan will soon have this one. Under the mutex.
void PoolCrew::choose(bool moves) {
  std::vector<WorkerSeen> there;
  for (auto& [number, member] : members_) {
    member.seen.used = member.seen.used && is_there(member);
    member.seen.room = member.speed.beside() * static_cast<double>(member.chunks_max);
    if (is_there(member)) there.push_back(member.seen);
  }
  choose_workers(there, workers_, moves);
  auto seen = there.begin();
  for (auto& [number, member] : members_)
    if (is_there(member)) member.seen = *seen++;
}

// The one that will have it home first; whose first chunk is not checked yet gets no second one.
PoolCrew::Member* PoolCrew::next_member() {
  Member* best = nullptr;
  for (auto& [number, member] : members_) {
    if (!member.seen.used || !is_ready(member)) continue;
    const std::size_t most = member.proven ? member.window.chunks(member.cores) : 1;
    const auto home_ns = [](const Member& one) { return one.window.next_home_ns(one.out, one.cores); };
    if (member.room && member.out < most && (best == nullptr || home_ns(member) < home_ns(*best)))
      best = &member;
  }
  return best;
}

void PoolCrew::note_taken(const Production& production) {
  const double batches = (production.totals().taken_samples - taken_samples_) /
                         static_cast<double>(production.options().shape.rank_rows_max());
  const std::int64_t took_ns = production.taken_at_ns() - taken_at_ns_;
  if (took_ns < kTakenNs && took_ns >= 0) return;
  batch_ns_ = taken_at_ns_ > 0 && batches > 0 ? static_cast<double>(took_ns) / batches : 0;
  taken_samples_ = production.totals().taken_samples;
  taken_at_ns_ = production.taken_at_ns();
}

// What it is given now is home before so many are taken.
std::size_t PoolCrew::batches_before(const Member& member) const {
  if (batch_ns_ == 0) return 0;
  const double home_ns = kHomeMargin * member.window.next_home_ns(member.out, member.cores);
  return static_cast<std::size_t>(std::min(home_ns / batch_ns_, kBatchesMax));
}

void PoolCrew::feed(Production& production, Outbox& out) {
  const std::lock_guard lock(mutex_);
  if (stopping_) return;
  for (const std::uint64_t worker : std::exchange(distrusted_, {})) {
    production.distrust(worker, out);
    tell_what_went_out(worker, production.went_out(worker));
  }
  take_back_late(production, out);
  take_back_waited_for(production, out);
  note_taken(production);
  while (const Member* const member = next_member()) {
    auto work = production.take_remote(cut_, {.lead = options_.lead,
                                              .batches_before = batches_before(*member),
                                              .or_last = member->out == 0,
                                              .addresses = any_reads()});
    if (!work) return;
    if (!submit(work)) return production.end_remote(*work, false, out);
  }
}

// Takes the work if a worker took it.
bool PoolCrew::submit(std::unique_ptr<RemoteWork>& work) {
  while (Member* const member = next_member()) {
    const auto at =
        std::ranges::find_if(members_, [&](const auto& entry) { return &entry.second == member; });
    const std::uint64_t request = ++requests_;
    work->worker = number_ << kMemberBits | at->first;
    work->by_address = member->reads && !work->sent->address_table.empty();
    const remote::Submission submission{.request = request,
                                        .plan = work->cut->plan,
                                        .about = encode_remote(work->head()),
                                        .payload = payload_of(*work),
                                        .result_bytes = work->result_bytes()};
    const double home_ns = member->window.next_home_ns(member->out, member->cores);
    ++member->out;
    out_[request] = {std::move(work), at->first, monotonic_ns(), home_ns};
    const Status sent = pool_->submit(at->first, submission);
    if (sent) return true;
    work = std::move(out_[request].work);
    out_.erase(request);
    --member->out;
    if (sent.error().code == Code::kExhausted || sent.error().code == Code::kClosed)
      member->room = false;  // until room() or registered() says otherwise
    else
      return false;  // too large for a worker: this chunk stays here
  }
  return false;
}

// One writer: what was withdrawn is written by nobody any more.
bool PoolCrew::take_back(std::uint64_t request, Production& production, Outbox& out) {
  if (!pool_->withdraw(request)) return false;  // it is home, or lost
  note_away(out_[request]);
  production.end_remote(*take_out(request), false, out);
  return true;
}

// While this machine idles it waits no longer for a chunk than it would take to compute it, and not at all
// for one that needs longer.
void PoolCrew::take_back_waited_for(Production& production, Outbox& out) {
  const Step* const step = production.waited_for();
  const std::int64_t now_ns = monotonic_ns();
  if (std::exchange(waited_for_, step) != step) waited_since_ns_ = now_ns;
  if (step == nullptr) return;
  const auto is_due = [&](const auto& one) { return one.second.work->chunk->step == step; };
  const auto due = std::ranges::find_if(out_, is_due);
  if (due == out_.end()) return;
  const Out& one = due->second;
  const double here_ns = static_cast<double>(one.work->sent->head.rows) * production.local_sample_ns();
  const bool is_far = static_cast<double>(one.since_ns - now_ns) + one.home_ns >= here_ns;
  if (!is_far && static_cast<double>(now_ns - waited_since_ns_) < here_ns) return;
  if (take_back(due->first, production, out)) waited_since_ns_ = now_ns;
}

void PoolCrew::take_back_late(Production& production, Outbox& out) {
  const std::int64_t now_ns = monotonic_ns();
  std::vector<std::uint64_t> late;
  for (const auto& [request, one] : out_)
    if (now_ns - one.since_ns > late_ns_) late.push_back(request);
  for (const std::uint64_t request : late) take_back(request, production, out);
}

// How long it has been away, if it came home or was given up now.
void PoolCrew::note_away(const Out& one) {
  if (const auto member = members_.find(one.member); member != members_.end())
    member->second.window.note_away(static_cast<double>(monotonic_ns() - one.since_ns), one.home_ns);
}

void PoolCrew::note_latency(std::int64_t ns) {
  latencies_[latencies_count_++ % latencies_.size()] = ns;
  if (latencies_count_ % 16 != 0) return;
  auto sorted = latencies_;
  const std::size_t count = std::min(latencies_count_, sorted.size());
  std::sort(sorted.begin(), sorted.begin() + static_cast<std::ptrdiff_t>(count));
  totals_.away_p99_ns = sorted[count - 1 - count / 100];
  late_ns_ = std::max(2 * totals_.away_p99_ns, kLateMinNs);
}

std::unique_ptr<RemoteWork> PoolCrew::take_out(std::uint64_t request) {
  const auto found = out_.find(request);
  if (found == out_.end()) return nullptr;
  std::unique_ptr<RemoteWork> work = std::move(found->second.work);
  if (const auto member = members_.find(found->second.member); member != members_.end()) --member->second.out;
  if (found->second.arriving_since_ns != 0 && --receiving_ == 0)
    totals_.receiving_ns += monotonic_ns() - receiving_since_ns_;
  out_.erase(found);
  return work;
}

void PoolCrew::give_back(std::uint64_t request) {
  std::unique_ptr<RemoteWork> work;
  {
    const std::lock_guard lock(mutex_);
    work = take_out(request);
  }
  if (work) done_(std::move(work), false);
}

// From now on its worker is sent records.
void PoolCrew::note_unread(std::uint64_t request, const std::string& why) {
  const std::lock_guard lock(mutex_);
  const auto found = out_.find(request);
  const auto member = found == out_.end() ? members_.end() : members_.find(found->second.member);
  if (member == members_.end() || !std::exchange(member->second.reads, false)) return;
  options_.log("worker=" + std::to_string(member->first) + " is sent records now why=\"" + why + "\"");
}

// It is computed.
void PoolCrew::take_home(std::uint64_t request, std::uint64_t thread_ns) {
  std::unique_ptr<RemoteWork> work;
  bool checks = false;
  {
    const std::lock_guard lock(mutex_);
    const auto found = out_.find(request);
    if (found == out_.end()) return;
    const std::int64_t now_ns = monotonic_ns();
    note_latency(now_ns - found->second.since_ns);
    note_away(found->second);
    Member& member = members_[found->second.member];
    const std::uint64_t rows = found->second.work->sent->head.rows;
    totals_.rows += rows;
    totals_.worker_ns += static_cast<std::uint64_t>(note_speed(member, thread_ns, rows));
    totals_.received_bytes += found->second.work->result_bytes();
    member.window.note(static_cast<std::int64_t>(std::min<std::uint64_t>(thread_ns, INT64_MAX)),
                       now_ns - found->second.arriving_since_ns);
    checks = !member.proven || dice_.roll(options_.verify);
    work = take_out(request);
    if (checks) ++member.out;
  }
  if (checks)
    check_->add(std::move(work));
  else
    done_(std::move(work), true);
}

void PoolCrew::checked(std::unique_ptr<RemoteWork> work, ChunkCheck::Verdict verdict, bool rows_are_ours) {
  const std::uint64_t worker = work->worker;
  {
    const std::lock_guard lock(mutex_);
    if (const auto member = members_.find(member_of(worker)); member != members_.end()) {
      --member->second.out;
      member->second.proven |= verdict == ChunkCheck::Verdict::kSame;
    }  // else its fleet took it away meanwhile
  }
  // Before the chunk goes back: until then its batch, and all behind it, are not published.
  if (verdict == ChunkCheck::Verdict::kDiffers && expel(worker)) wake_();
  if (rows_are_ours) work->worker = 0;
  done_(std::move(work), rows_are_ours);
}

// Its rows in batches that are published cannot be taken back; whoever trains on them is to know. Under the
// mutex.
void PoolCrew::tell_what_went_out(std::uint64_t worker, const std::string& batches) {
  const std::string text = batches.empty() ? "no batch that went out had rows of it"
                                           : "batches that went out with rows of it: " + batches;
  const auto found = std::ranges::find(expelled_, member_of(worker), &remote::WorkerFigures::member);
  if (found != expelled_.end()) found->reason += "; " + text;
  options_.log("worker=" + std::to_string(member_of(worker)) + " delivered=\"" + text + "\"");
}

// False: it was before.
bool PoolCrew::expel(std::uint64_t worker) {
  const std::uint64_t number = member_of(worker);
  const std::string why =
      "its bits differ from those of this machine: it is expelled, for as long as the loader lives";
  std::string address;
  const auto all = pool_->figures();
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(members_[number].expelled, true)) return false;
    distrusted_.push_back(worker);
    const auto seen = std::ranges::find(all, number, &remote::WorkerFigures::member);
    if (seen != all.end()) {
      expelled_.push_back(*seen);
      expelled_.back().state = remote::WorkerFigures::State::kExpelled;
      expelled_.back().reason = why;
      address = seen->address;
    }
  }
  options_.log("worker=" + std::to_string(number) + " address=" + address + " expelled why=\"" + why + "\"");
  pool_->remove_member(number);
  return true;
}

std::vector<remote::WorkerFigures> PoolCrew::figures() const {
  auto all = pool_->figures();
  const std::lock_guard lock(mutex_);
  for (const remote::WorkerFigures& one : expelled_) {
    std::erase_if(all, [&](const auto& other) { return other.member == one.member; });
    all.push_back(one);
  }
  return all;
}

Status PoolCrew::admit(std::uint64_t member, const remote::Welcome& welcome) {
  TRY(check_remote_facts(welcome.facts));
  const std::lock_guard lock(mutex_);
  members_[member].cores = worker_cores(welcome.facts);
  return {};
}

void PoolCrew::down(std::uint64_t member, const Error& reason, bool parked) {
  {
    const std::lock_guard lock(mutex_);
    members_[member].plan = 0;
  }
  options_.log("worker=" + std::to_string(member) + (parked ? " parked why=\"" : " down why=\"") +
               reason.message + "\"");
}

void PoolCrew::registered(std::uint64_t member, std::uint64_t plan, Result<std::string> about) {
  if (!about) {
    {
      const std::lock_guard lock(mutex_);
      members_[member].plan = 0;
    }
    return options_.log("worker=" + std::to_string(member) + " refuses the plan why=\"" +
                        about.error().message + "\"");
  }
  const auto ready = decode_remote<RemoteReady>(std::as_bytes(std::span(*about)));
  {
    const std::lock_guard lock(mutex_);
    Member& seen = members_[member];
    seen.reads = ready && ready->reads;
    seen.plan = std::max(seen.plan, plan);
    seen.room = true;
    seen.proven = false;
    choose(false);
  }
  if (ready && !ready->note.empty())
    options_.log("worker=" + std::to_string(member) + " says=\"" + ready->note + "\"");
  wake_();
}

void PoolCrew::room(std::uint64_t member) {
  {
    const std::lock_guard lock(mutex_);
    members_[member].room = true;
  }
  wake_();
}

remote::Placement PoolCrew::place(std::uint64_t request, const std::string&, std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  const auto found = out_.find(request);
  if (found == out_.end() || found->second.work->result_bytes() != bytes) return {};
  if (found->second.arriving_since_ns == 0) {
    found->second.arriving_since_ns = monotonic_ns();
    if (receiving_++ == 0) receiving_since_ns_ = found->second.arriving_since_ns;
  }
  return {.where = remote::Placement::Where::kParts, .parts = found->second.work->places};
}

void PoolCrew::done(std::uint64_t request, const std::string& about, bool placed) {
  const auto result = decode_remote<RemoteResult>(std::as_bytes(std::span(about)));
  if (!result) options_.log("request=" + std::to_string(request) + " why=\"" + result.error().message + "\"");
  if (result && !result->unread.empty()) note_unread(request, result->unread);
  if (placed && result && result->broken.empty())
    take_home(request, result->thread_ns);
  else
    give_back(request);
}

void PoolCrew::failed(std::uint64_t request, const Error& error) {
  options_.log("request=" + std::to_string(request) + " failed why=\"" + error.message + "\"");
  give_back(request);
}

void PoolCrew::lost(std::uint64_t request, const Error&) {
  give_back(request);
}

}  // namespace carya::loader
