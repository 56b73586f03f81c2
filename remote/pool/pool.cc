#include "remote/pool/pool.h"

#include <fmt/core.h>
#include <algorithm>
#include <atomic>

#include "base/clock.h"
#include "base/mutex.h"
#include "remote/pool/name_lookups.h"
#include "remote/pool/pool_member.h"

namespace carya::remote {

constexpr double kWorthMax = 1e9;  // $ per hour
/// Who does not find a name for so long asks a resolver that does not answer.
constexpr std::int64_t kSilentResolverNs = 1'000'000'000;

/// Members are made and forgotten under the mutex; the thread in run() works on its own list of them.
class WorkerPool::Loop {
 public:
  Loop(const PoolOptions& options, PoolEvents& events, Poller poller, std::shared_ptr<TlsContext> tls)
      : shared_{options,
                options.hello,
                events,
                std::move(poller),
                std::move(tls),
                std::make_shared<NameLookups>(options.look_up),
                {},
                {},
                {}} {}

  void run();
  void stop();
  Result<std::uint64_t> add_member(const std::string& text);
  void remove_member(std::uint64_t member);
  Status add_plan(std::uint64_t plan, std::string about, Payload document);
  void drop_plan(std::uint64_t plan);
  Status submit(std::uint64_t member, Submission submission);
  bool withdraw(std::uint64_t request);
  void set_worth(double worth) {
    shared_.worth = worth > 0 ? static_cast<std::uint64_t>(std::min(worth, kWorthMax) * 1e6) : 0;
  }
  void set_weight(double weight) {
    shared_.weight = static_cast<std::uint64_t>(std::clamp(weight * Ping::kOne, 1.0, 1e9));
  }
  std::vector<WorkerStats> figures() const;
  std::shared_ptr<NameLookups> lookups() const {
    const MutexLock lock(shared_.mutex);
    return any_name_ ? shared_.lookups : nullptr;
  }

 private:
  void serve_all(const std::vector<std::uint64_t>& ready, std::int64_t now_ns);
  void renew_list();
  void write_to(std::uint64_t member) REQUIRES(shared_.mutex);

  PoolShared shared_;
  std::atomic<bool> stopped_{false};

  std::map<std::uint64_t, std::shared_ptr<PoolMember>> members_ GUARDED_BY(shared_.mutex);
  std::uint64_t next_member_ GUARDED_BY(shared_.mutex) = 1;
  std::set<std::uint64_t> written_to_ GUARDED_BY(shared_.mutex);  // members that have something to send
  bool changed_ GUARDED_BY(shared_.mutex) = false;                // members, or plans: all are looked at
  bool any_name_ GUARDED_BY(shared_.mutex) = false;               // some member has one

  std::atomic<bool> silent_resolver_ = false;  // a name was not found for long

  std::map<std::uint64_t, std::shared_ptr<PoolMember>> list_;  // the thread in run()
};

void WorkerPool::Loop::run() {
  const auto tick_ms =
      std::clamp<std::int64_t>(static_cast<std::int64_t>(shared_.options.heartbeat_ms) / 4, 1, 250);
  std::int64_t tick_ns = 0;
  bool buffered = false;
  while (!stopped_) {
    const auto ready = shared_.poller.wait(buffered ? 0 : static_cast<int>(tick_ms));
    renew_list();
    const std::int64_t now = monotonic_ns();
    serve_all(ready, now);
    if (now - tick_ns >= tick_ms * 1'000'000) {
      tick_ns = now;
      for (const auto& [id, member] : list_) member->tick(now);
    }
    buffered =
        std::any_of(list_.begin(), list_.end(), [](const auto& one) { return one.second->has_buffered(); });
  }
  for (const auto& [id, member] : list_) member->end({Code::kClosed, "the pool stops", 0});
}

/// Those whose sockets are ready, who have something to send, or who were not through.
void WorkerPool::Loop::serve_all(const std::vector<std::uint64_t>& ready, std::int64_t now_ns) {
  std::set<std::uint64_t> due;
  {
    const MutexLock lock(shared_.mutex);
    due.swap(written_to_);
  }
  due.insert(ready.begin(), ready.end());
  for (const auto& [id, member] : list_)
    if (due.contains(id) || member->has_buffered()) member->serve(now_ns);
}

void WorkerPool::Loop::renew_list() {
  std::vector<std::shared_ptr<PoolMember>> removed;
  {
    const MutexLock lock(shared_.mutex);
    if (!changed_) return;
    changed_ = false;
    for (const auto& [id, member] : members_) {
      if (member->is_removed()) removed.push_back(member);
      written_to_.insert(id);
    }
    for (const auto& member : removed) members_.erase(member->id());
    list_ = members_;
  }
  for (const auto& member : removed) member->end({Code::kClosed, "it is no member any more", 0});
}

void WorkerPool::Loop::stop() {
  stopped_ = true;
  shared_.lookups->stop();
  shared_.poller.wake();
}

Result<std::uint64_t> WorkerPool::Loop::add_member(const std::string& text) {
  ASSIGN(Address address, Address::parse(text));
  // A job waits for one name that nobody answers for, and not for each: the others are left to lookups().
  const std::int64_t begun_ns = monotonic_ns();
  const bool is_name = address.is_name();
  const bool is_later = silent_resolver_ && !address.is_known();
  const Status known =
      is_later ? fail(Code::kNotFound, "its name is not looked up yet, since another one took long")
               : shared_.options.look_up(address);
  if (!known && shared_.options.unknown_names && monotonic_ns() - begun_ns >= kSilentResolverNs)
    silent_resolver_ = true;
  if (!known && !shared_.options.unknown_names)
    return fail(known.error().code, "worker address " + text + ": " + known.error().message);
  if (known) {
    if (const Status allowed = shared_.check_allowed(address); !allowed)
      return fail(allowed.error().code, "worker " + text + " " + allowed.error().message);
  }
  const MutexLock lock(shared_.mutex);
  const std::uint64_t id = next_member_++;
  any_name_ |= is_name;
  members_[id] = std::make_shared<PoolMember>(id, is_name ? text : "", std::move(address),
                                              known ? "" : known.error().message, shared_);
  changed_ = true;
  shared_.poller.wake();
  return id;
}

void WorkerPool::Loop::remove_member(std::uint64_t member) {
  const MutexLock lock(shared_.mutex);
  const auto found = members_.find(member);
  if (found == members_.end()) return;
  found->second->remove();
  changed_ = true;
  shared_.poller.wake();
}

Status WorkerPool::Loop::add_plan(std::uint64_t plan, std::string about, Payload document) {
  const MutexLock lock(shared_.mutex);
  if (shared_.plans.size() >= kPlansMax)
    return fail(Code::kExhausted, fmt::format("more than {} plans", kPlansMax));
  if (plan == 0 ||
      !shared_.plans.emplace(plan, PoolShared::Plan{std::move(about), std::move(document)}).second)
    return fail(Code::kInvalidArgument, fmt::format("plan {} is in use", plan));
  changed_ = true;
  shared_.poller.wake();
  return {};
}

void WorkerPool::Loop::drop_plan(std::uint64_t plan) {
  const MutexLock lock(shared_.mutex);
  shared_.plans.erase(plan);
}

Status WorkerPool::Loop::submit(std::uint64_t member, Submission submission) {
  const MutexLock lock(shared_.mutex);
  const auto found = members_.find(member);
  if (found == members_.end() || found->second->is_removed())
    return fail(Code::kClosed, fmt::format("no worker {}", member));
  TRY(found->second->submit(std::move(submission)));
  write_to(member);
  return {};
}

void WorkerPool::Loop::write_to(std::uint64_t member) {
  if (written_to_.empty()) shared_.poller.wake();
  written_to_.insert(member);
}

bool WorkerPool::Loop::withdraw(std::uint64_t request) {
  std::shared_ptr<Connection> connection;
  {
    const MutexLock lock(shared_.mutex);
    const auto found = shared_.member_of.find(request);
    if (found == shared_.member_of.end()) return false;
    const auto member = members_.find(found->second);
    if (member == members_.end()) return false;  // it was removed: what it has is about to be lost
    connection = member->second->withdraw(request);
    if (connection) write_to(member->first);
  }
  // Without the mutex: it may wait for a read that is under way.
  if (connection) connection->withdraw(request);
  return true;
}

std::vector<WorkerStats> WorkerPool::Loop::figures() const {
  const MutexLock lock(shared_.mutex);
  std::vector<WorkerStats> out;
  for (const auto& [id, member] : members_) out.push_back(member->figures());
  return out;
}

WorkerPool::WorkerPool(std::unique_ptr<Loop> loop) : loop_(std::move(loop)) {}
WorkerPool::~WorkerPool() = default;

Result<std::unique_ptr<WorkerPool>> WorkerPool::create(const PoolOptions& options, PoolEvents& events) {
  std::shared_ptr<TlsContext> tls;
  if (options.tls) {
    ASSIGN(tls, TlsContext::create(*options.tls));
  }
  ASSIGN(Poller poller, Poller::create("worker pool"));
  auto loop = std::make_unique<Loop>(options, events, std::move(poller), std::move(tls));
  return std::unique_ptr<WorkerPool>(new WorkerPool(std::move(loop)));
}

void WorkerPool::run() {
  loop_->run();
}
void WorkerPool::stop() {
  loop_->stop();
}
Result<std::uint64_t> WorkerPool::add_member(const std::string& address) {
  return loop_->add_member(address);
}
void WorkerPool::remove_member(std::uint64_t member) {
  loop_->remove_member(member);
}
Status WorkerPool::add_plan(std::uint64_t plan, std::string about, Payload document) {
  return loop_->add_plan(plan, std::move(about), std::move(document));
}
void WorkerPool::drop_plan(std::uint64_t plan) {
  loop_->drop_plan(plan);
}
Status WorkerPool::submit(std::uint64_t member, Submission submission) {
  return loop_->submit(member, std::move(submission));
}
bool WorkerPool::withdraw(std::uint64_t request) {
  return loop_->withdraw(request);
}
void WorkerPool::set_worth(double worth) {
  loop_->set_worth(worth);
}
void WorkerPool::set_weight(double weight) {
  loop_->set_weight(weight);
}
std::vector<WorkerStats> WorkerPool::figures() const {
  return loop_->figures();
}
std::shared_ptr<NameLookups> WorkerPool::lookups() const {
  return loop_->lookups();
}

}  // namespace carya::remote
