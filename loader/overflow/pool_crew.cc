#include "loader/overflow/pool_crew.h"

#include <pthread.h>

#include <algorithm>
#include <charconv>
#include <ctime>
#include <utility>

#include "base/clock.h"
#include "loader/job_options.h"
#include "loader/overflow/remote_facts.h"
#include "loader/overflow/worker_plan.h"
#include "loader/production.h"

namespace carya::loader {
namespace {

/// A chunk is late after this at the earliest, and before anything is known of its workers.
constexpr std::int64_t kLateMinNs = 250'000'000;
constexpr std::int64_t kLateFirstNs = 5'000'000'000;

remote::Payload document_of(const RemotePlan& plan) {
  const auto text = std::make_shared<const std::string>(encode_remote(plan));
  return {.parts = {std::as_bytes(std::span(*text))}, .owner = text};
}

remote::Payload payload_of(const std::shared_ptr<const RemoteWork::Sent>& sent) {
  remote::Payload payload{.parts = {std::span(sent->table)}, .owner = sent};
  payload.parts.insert(payload.parts.end(), sent->parts.begin(), sent->parts.end());
  return payload;
}

// What a worker says of itself; 1 where it says nothing that can be.
double cores_of(const std::vector<remote::Fact>& facts) {
  std::uint32_t cores = 1;
  for (const remote::Fact& fact : facts)
    if (fact.name == kCoresFact)
      std::from_chars(fact.value.data(), fact.value.data() + fact.value.size(), cores);
  return std::clamp<std::uint32_t>(cores, 1, kThreadsMax);
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

PoolCrew::PoolCrew(const PoolCrewOptions& options) : options_(options), late_ns_(kLateFirstNs) {
  if (!options_.log) options_.log = [](const std::string&) {};
  options_.pool.hello.facts = remote_facts();
}

Result<std::shared_ptr<PoolCrew>> PoolCrew::create(const PoolCrewOptions& options) {
  std::shared_ptr<PoolCrew> crew(new PoolCrew(options));
  ASSIGN(crew->pool_, remote::WorkerPool::create(crew->options_.pool, *crew));
  for (const std::string& worker : options.workers) {
    ASSIGN(const std::uint64_t member, crew->pool_->add_member(worker));
    crew->members_[member] = {};
  }
  return crew;
}

Status PoolCrew::set_plan(const RemotePlan& plan, std::shared_ptr<PlanInUse> rest) {
  ASSIGN(const auto compiled, WorkerPlan::compile(plan));  // as workers will
  auto cut = std::make_shared<PlanCut>(
      PlanCut{.plan = plan.id, .outputs = compiled->outputs(), .rest = std::move(rest)});
  std::vector<std::uint64_t> old;
  {
    const std::lock_guard lock(mutex_);
    cut_ = std::move(cut);
    plans_.push_back(plan.id);
    while (plans_.size() > remote::WorkerPool::kPlansMax) {
      old.push_back(plans_.front());
      plans_.erase(plans_.begin());
    }
  }
  for (const std::uint64_t number : old) pool_->drop_plan(number);  // what is out of it comes back lost
  return pool_->add_plan(plan.id, {}, document_of(plan));
}

void PoolCrew::set_workers(std::uint32_t workers) {
  const std::lock_guard lock(mutex_);
  workers_ = workers;
}

CrewTotals PoolCrew::totals() const {
  const std::lock_guard lock(mutex_);
  CrewTotals totals = totals_;
  if (receiving_ > 0) totals.receiving_ns += monotonic_ns() - receiving_since_ns_;
  totals.host_ns = cpu_ns_of(const_cast<std::thread&>(thread_));
  double cores = 0, came = 0;
  for (const auto& [number, member] : members_) {
    totals.ready += is_ready(member) && totals.ready < workers_ ? 1 : 0;
    cores += member.cores;
    came += member.cores > 0 ? 1 : 0;
  }
  totals.worker_cores = came > 0 ? cores / came : 0;
  return totals;
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
}

void PoolCrew::begin(RemoteDone done, std::function<void()> wake) {
  done_ = std::move(done);
  wake_ = std::move(wake);
  thread_ = std::thread([this] { pool_->run(); });
}

void PoolCrew::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  pool_->stop();
}

// The one with the least to do, of the first that are there.
PoolCrew::Member* PoolCrew::next_member() {
  Member* best = nullptr;
  std::uint32_t used = 0;
  for (auto& [number, member] : members_) {
    if (!is_ready(member)) continue;
    if (++used > workers_) break;
    if (member.room && (best == nullptr || member.out < best->out)) best = &member;
  }
  return best;
}

void PoolCrew::feed(Production& production, Outbox& out) {
  const std::lock_guard lock(mutex_);
  if (stopping_) return;
  take_back_late(production, out);
  while (next_member() != nullptr) {
    auto work = production.take_remote(cut_, options_.lead);
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
    const remote::Submission submission{.request = request,
                                        .plan = work->cut->plan,
                                        .about = encode_remote(work->sent->head),
                                        .payload = payload_of(work->sent),
                                        .result_bytes = work->result_bytes()};
    ++member->out;
    out_[request] = {std::move(work), at->first, monotonic_ns()};
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
void PoolCrew::take_back_late(Production& production, Outbox& out) {
  const std::int64_t now_ns = monotonic_ns();
  std::vector<std::uint64_t> late;
  for (const auto& [request, one] : out_)
    if (now_ns - one.since_ns > late_ns_) late.push_back(request);
  for (const std::uint64_t request : late)
    if (pool_->withdraw(request)) production.end_remote(*take_out(request), false, out);
}

void PoolCrew::note_latency(std::int64_t ns) {
  latencies_[latencies_count_++ % latencies_.size()] = ns;
  if (latencies_count_ % 16 != 0) return;
  auto sorted = latencies_;
  const std::size_t count = std::min(latencies_count_, sorted.size());
  std::sort(sorted.begin(), sorted.begin() + static_cast<std::ptrdiff_t>(count));
  late_ns_ = std::max(2 * sorted[count - 1 - count / 100], kLateMinNs);
}

std::unique_ptr<RemoteWork> PoolCrew::take_out(std::uint64_t request) {
  const auto found = out_.find(request);
  if (found == out_.end()) return nullptr;
  std::unique_ptr<RemoteWork> work = std::move(found->second.work);
  if (const auto member = members_.find(found->second.member); member != members_.end()) --member->second.out;
  if (found->second.arriving && --receiving_ == 0)
    totals_.receiving_ns += monotonic_ns() - receiving_since_ns_;
  out_.erase(found);
  return work;
}

void PoolCrew::give_back(std::uint64_t request, bool computed) {
  std::unique_ptr<RemoteWork> work;
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = out_.find(request); computed && found != out_.end())
      note_latency(monotonic_ns() - found->second.since_ns);
    work = take_out(request);
  }
  if (work) done_(std::move(work), computed);
}

Status PoolCrew::admit(std::uint64_t member, const remote::Welcome& welcome) {
  TRY(check_remote_facts(welcome.facts));
  const std::lock_guard lock(mutex_);
  members_[member].cores = cores_of(welcome.facts);
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
  if (!about)
    return options_.log("worker=" + std::to_string(member) + " refuses the plan why=\"" +
                        about.error().message + "\"");
  {
    const std::lock_guard lock(mutex_);
    members_[member].plan = std::max(members_[member].plan, plan);
    members_[member].room = true;
  }
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
  if (!std::exchange(found->second.arriving, true) && receiving_++ == 0) receiving_since_ns_ = monotonic_ns();
  return {.where = remote::Placement::Where::kParts, .parts = found->second.work->places};
}

void PoolCrew::done(std::uint64_t request, const std::string& about, bool placed) {
  const auto result = decode_remote<RemoteResult>(std::as_bytes(std::span(about)));
  if (!result) options_.log("request=" + std::to_string(request) + " why=\"" + result.error().message + "\"");
  const bool computed = placed && result && result->broken.empty();
  if (computed) note_result(request, result->cpu_ns);
  give_back(request, computed);
}

void PoolCrew::note_result(std::uint64_t request, std::uint64_t cpu_ns) {
  const std::lock_guard lock(mutex_);
  const auto found = out_.find(request);
  if (found == out_.end()) return;
  totals_.rows += found->second.work->sent->head.rows;
  totals_.worker_ns += cpu_ns;
  totals_.received_bytes += found->second.work->result_bytes();
}

void PoolCrew::failed(std::uint64_t request, const Error& error) {
  options_.log("request=" + std::to_string(request) + " failed why=\"" + error.message + "\"");
  give_back(request, false);
}

void PoolCrew::lost(std::uint64_t request, const Error&) {
  give_back(request, false);
}

}  // namespace carya::loader
