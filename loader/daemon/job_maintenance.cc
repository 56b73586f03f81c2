// What a job table does by and by: lingering, rates, cores, memory; and what it tells of itself.

#include <algorithm>

#include "base/clock.h"
#include "loader/daemon/job_table.h"
#include "loader/host/host.h"
#include "loader/host/pressure.h"

namespace carya::loader {
namespace {

constexpr std::int64_t kRateNs = 1'000'000'000;

}  // namespace

std::optional<std::int64_t> JobTable::tick(std::int64_t now_ns) {
  std::vector<std::shared_ptr<RankStream>> ended;
  bool busy = false;
  {
    const std::lock_guard lock(mutex_);
    follow_cores();
    if (now_ns - shared_ns_ >= kRateNs) {
      share_host();
      shared_ns_ = now_ns;
    }
    follow_memory();
    std::vector<std::pair<std::shared_ptr<HostJob>, std::uint64_t>> over;
    for (const auto& [name, job] : jobs_) {
      for (auto& [number, rank] : job->ranks) {
        busy = true;
        end_departed(rank);
        if (rank.lingers_until_ns != 0 && now_ns >= rank.lingers_until_ns) over.emplace_back(job, number);
        if (now_ns - rank.before_ns < kRateNs) continue;
        const std::uint64_t samples = rank.stream->figures().production.samples;
        if (rank.before_ns != 0)
          rank.samples_per_s = static_cast<double>(samples - rank.samples_before) * 1e9 /
                               static_cast<double>(now_ns - rank.before_ns);
        rank.samples_before = samples;
        rank.before_ns = now_ns;
      }
    }
    for (const auto& [job, number] : over) end_rank(*job, number, ended);
    std::erase_if(datasets_, [&](const auto& entry) {
      return !in_use(entry.second.dataset) &&
             now_ns - entry.second.used_ns > static_cast<std::int64_t>(limits_.linger_s * 1e9);
    });
    busy = busy || !datasets_.empty();
  }
  for (const auto& stream : ended) stream->close();
  return busy ? std::optional(kRateNs) : std::nullopt;
}

/// Affinity and quota may change at any time. Under the lock.
void JobTable::follow_cores() {
  const std::uint32_t now = cores_allowed();
  if (now == cores_) return;
  bool followed = true;
  for (const auto& [name, job] : jobs_)
    for (auto& [number, rank] : job->ranks)
      followed =
          (rank.threads_auto ? rank.stream->set_threads(now) : rank.stream->set_cores(now)) && followed;
  if (followed) cores_ = now;  // else again at the next tick
}

/// Cores and workers among the streams that somebody reads. Under the lock.
void JobTable::share_host() {
  std::vector<std::shared_ptr<RankStream>> streams;
  std::vector<HostShares::Bidder> bidders;
  for (const auto& [name, job] : jobs_)
    for (const auto& [number, rank] : job->ranks) {
      if (!rank.threads_auto || !rank.running || rank.members.empty()) continue;
      autotune::Claim claim = rank.stream->claim();
      claim.prices = limits_.remote.prices;
      streams.push_back(rank.stream);
      bidders.push_back({rank.stream.get(), std::move(claim), rank.stream->workers_of(limits_.remote)});
    }
  const auto shares = shares_.look(bidders, cores_);
  for (std::size_t i = 0; shares && i < streams.size(); ++i)
    streams[i]->set_share((*shares)[i].threads, (*shares)[i].workers);
}

/// Under the lock.
void JobTable::follow_memory() {
  const bool changed = memory_.follow(read_memory_pressure());
  // A ring of fewer slots is not told of takes: it is looked at here.
  if (!changed && memory_.slots() == 1) return;
  for (const auto& [name, job] : jobs_)
    for (auto& [number, rank] : job->ranks) share_memory(rank);
}

void JobTable::set_limits(const JobLimits& limits) {
  const std::lock_guard lock(mutex_);
  limits_ = limits;
  budget_->set_limit(limits.shared_bytes);
}

void JobTable::drain() {
  const std::lock_guard lock(mutex_);
  draining_ = true;
}

Status JobTable::stop(const std::string& name) {
  std::vector<std::shared_ptr<RankStream>> ended;
  {
    const std::lock_guard lock(mutex_);
    const auto found = jobs_.find(name);
    if (found == jobs_.end())
      return fail(Code::kNotFound, "job " + name + ": not here; carya status lists those that are");
    const std::shared_ptr<HostJob> job = found->second;
    for (auto& [number, rank] : job->ranks) ended.push_back(std::move(rank.stream));
    job->ranks.clear();
    job->ended = job->stopped = true;
    jobs_.erase(found);
  }
  for (const auto& stream : ended) stream->close();
  return {};
}

void JobTable::stop_all() {
  std::vector<std::string> names;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [name, job] : jobs_) names.push_back(name);
  }
  for (const std::string& name : names) static_cast<void>(stop(name));
}

std::uint64_t JobTable::held() const {
  const std::lock_guard lock(mutex_);
  std::uint64_t held = 0;
  for (const auto& [name, job] : jobs_)
    for (const auto& [number, rank] : job->ranks)
      for (const auto& [replica, member] : rank.members) held += rank.stream->held_by(member.reader);
  return held;
}

void JobTable::describe(DaemonStatus& status) const {
  const std::lock_guard lock(mutex_);
  const std::int64_t now_ns = monotonic_ns();
  status.shared_bytes = budget_->used();
  status.shared_bytes_limit = limits_.shared_bytes;
  for (const auto& [name, job] : jobs_) {
    JobStatus line{.job = name,
                   .source = job->pipeline->lines().empty() ? "" : job->pipeline->lines().front().text,
                   .records = job->dataset->count(),
                   .world_size = job->world_size,
                   .state = "lingering"};
    for (const auto& [number, rank] : job->ranks) {
      RankStatus entry{.rank = number,
                       .samples_per_s = rank.samples_per_s,
                       .slot_bytes = rank.stream->ring_bytes(),
                       .quarantined = rank.quarantined,
                       .threads = std::min(rank.stream->threads(), rank.stream->share())};
      if (rank.lingers_until_ns != 0)
        entry.lingers_s =
            static_cast<double>(std::max<std::int64_t>(0, rank.lingers_until_ns - now_ns)) * 1e-9;
      const ProducerStats stats = rank.stream->figures();
      entry.placement = rank.stream->placement();
      entry.batches = stats.production.batches;
      entry.samples = stats.production.samples;
      entry.bytes_read = stats.production.bytes_read;
      entry.epoch = stats.production.epoch;
      entry.position = stats.production.position;
      entry.threads_used = stats.production.cores;
      entry.slots = stats.slots;
      entry.reads = stats.production.reads;
      entry.read_latency_s = static_cast<double>(stats.production.read_latency_ns) * 1e-9;
      entry.reads_within = stats.production.reads_within;
      entry.ops = stats.production.ops;
      entry.free = stats.ring.free;
      entry.filling = stats.ring.filling;
      entry.ready = stats.ring.ready;
      entry.held = stats.ring.held;
      status.io_engine = stats.io_engine;
      status.threads = std::max(status.threads, stats.threads);
      for (const auto& [replica, member] : rank.members) {
        const double attached_s = static_cast<double>(now_ns - member.since_ns) * 1e-9;
        const double stall_s = static_cast<double>(rank.stream->waited_ns(member.reader)) * 1e-9;
        entry.readers.push_back({.pid = member.pid,
                                 .replica = replica,
                                 .held = rank.stream->held_by(member.reader),
                                 .attached_s = attached_s,
                                 .stall_s = std::min(stall_s, attached_s)});
      }
      if (!rank.members.empty()) line.state = "running";
      line.ranks.push_back(std::move(entry));
    }
    status.jobs.push_back(std::move(line));
  }
}

}  // namespace carya::loader
