#include "loader/daemon/job_status.h"

#include <algorithm>

#include "base/clock.h"

namespace carya::loader {

void describe_jobs(const HostJobs& jobs, DaemonStatus& status) {
  const std::int64_t now_ns = monotonic_ns();
  for (const auto& [name, job] : jobs) {
    JobStatus line{.job = name,
                   .source = job->pipeline->lines().empty() ? "" : job->pipeline->lines().front().text,
                   .records = job->dataset->count(),
                   .world_size = job->world_size,
                   .share = job->share,
                   .state = "lingering"};
    if (!job->ranks.empty()) line.weight = job->ranks.begin()->second.options.weight;
    for (auto& [number, rank] : job->ranks) {
      RankStatus entry{.rank = number,
                       .samples_per_s = rank.samples_per_s,
                       .slot_bytes = rank.stream->ring_bytes(),
                       .quarantined = rank.quarantined,
                       .threads = std::min(rank.stream->threads(), rank.stream->share())};
      if (rank.lingers_until_ns != 0)
        entry.lingers_s =
            static_cast<double>(std::max<std::int64_t>(0, rank.lingers_until_ns - now_ns)) * 1e-9;
      const StreamStats stats = rank.stream->figures();
      entry.placement = rank.stream->placement();
      entry.cache = rank.stream->cache();
      entry.stores = stats.scheduler.stores;
      entry.batches = stats.scheduler.batches;
      entry.samples = stats.scheduler.samples;
      entry.bytes_read = stats.scheduler.bytes_read;
      entry.epoch = stats.scheduler.epoch;
      entry.position = stats.scheduler.position;
      entry.threads_used = stats.scheduler.cores;
      entry.compute_s = static_cast<double>(stats.scheduler.local_ns + stats.scheduler.rest_ns) * 1e-9;
      entry.slots = stats.slots;
      entry.reads = stats.scheduler.reads;
      entry.read_latency_s = static_cast<double>(stats.scheduler.read_latency_ns) * 1e-9;
      entry.reads_within = stats.scheduler.reads_within;
      entry.ops = stats.scheduler.ops;
      entry.op_cpu_s = rank.op_cpu.look(entry.ops);
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
      for (const HostRank::Departed& one : rank.departed)
        entry.closed.push_back(
            {.pid = one.pid, .replica = one.replica, .held = rank.stream->held_by(one.reader)});
      if (!rank.members.empty()) line.state = "running";
      line.ranks.push_back(std::move(entry));
    }
    status.jobs.push_back(std::move(line));
  }
}

void look_for_outages(const HostJobs& jobs, OutageLog& outages, std::int64_t now_ns) {
  outages.begin();
  for (const auto& [name, job] : jobs) {
    for (const auto& [number, rank] : job->ranks) {
      const std::uint64_t stream = rank.stream->traced_as();
      if (rank.stream->may_have_workers()) outages.take_workers(stream, rank.stream->workers());
      if (const std::string report = rank.stream->cache(); !report.empty())
        outages.take_cache(stream, report);
    }
  }
  outages.end(now_ns);
}

}  // namespace carya::loader
