#include "loader/daemon/shared_streams.h"

#include <fmt/core.h>
#include <algorithm>
#include <utility>

namespace carya::loader {
namespace {

/// How long members have waited since the last look, by replica. A member says so itself: no more than passed is believed.
std::map<std::uint32_t, double> waited_s(HostRank& rank, double passed_s) {
  std::map<std::uint32_t, double> found;
  for (auto& [replica, member] : rank.members) {
    if (member.parted) continue;
    const std::uint64_t total_ns = rank.stream->waited_ns(member.reader);
    const std::uint64_t more_ns = total_ns - std::min(std::exchange(member.waited_ns, total_ns), total_ns);
    found[replica] = std::min(static_cast<double>(more_ns) * 1e-9, passed_s);
  }
  return found;
}

/// Where no slot is left to fill, the reader that owes the most keeps one waiting that owes one at most. It does not in a
/// stream that is slow for all, or between trainers that are all slow. Of readers that keep pace one is always the last,
/// with all slots, where batches are made faster than they are taken: what counts is how long the others wait for it.
void part_who_is_behind(HostRank& rank, std::int64_t now_ns) {
  const std::int64_t before_ns = std::exchange(rank.shares_looked_ns, now_ns);
  const double passed_s = before_ns == 0 ? 0 : static_cast<double>(now_ns - before_ns) * 1e-9;
  const std::map<std::uint32_t, double> waited = waited_s(rank, passed_s);
  if (!rank.running || rank.live() < 2) return;
  std::map<std::uint32_t, std::uint32_t> owed;
  std::uint32_t least = UINT32_MAX, most = 0;
  for (const auto& [replica, member] : rank.members) {
    if (member.parted) continue;
    owed[replica] = rank.stream->owed_by(member.reader);
    least = std::min(least, owed[replica]);
    most = std::max(most, owed[replica]);
  }
  double longest_s = 0;  // that one waited which is ahead
  for (const auto& [replica, seconds] : waited)
    if (owed.at(replica) <= 1) longest_s = std::max(longest_s, seconds);
  // Not only the slots that one owes count: others may hold the rest, here or after they have left.
  const shm::SlotRingStats ring = rank.stream->figures().ring;
  const bool is_full = ring.free + ring.filling <= 1;
  bool parted = false;
  for (const auto& [replica, slots] : owed) {
    HostRank::Member& member = rank.members.at(replica);
    const bool behind = is_full && least <= 1 && slots == most && slots > least;
    member.kept_waiting_s = std::max(0.0, member.kept_waiting_s - kMayWaitShare * passed_s);
    // Where it waited itself, all waited for what was being made.
    if (behind) member.kept_waiting_s += std::max(0.0, longest_s - waited.at(replica));
    if (member.kept_waiting_s < kKeptWaitingMaxS) continue;
    rank.send_away(member, "it fell behind the others that share its batches");
    parted = true;
  }
  // One that comes again and again to lag would hold up the others all the time.
  if (parted) rank.closed_until_ns = now_ns + (kClosedNs << std::min(rank.lagged++, kClosedDoublings));
}

/// Who was sent away may hold its slots for ever. Where those that are left are too few to work with, the others go on
/// with new ones.
void give_up_if_short(HostRank& rank) {
  const bool is_short =
      rank.running && rank.live() > 0 && rank.stream->held_by_retired() + 2 > rank.stream->slots();
  rank.short_of_slots = is_short ? rank.short_of_slots + 1 : 0;
  if (rank.short_of_slots < kShortMax || rank.given_up) return;
  rank.given_up = true;
  rank.send_all_away("others hold the slots of its stream");
}

bool same_stream(const HostJob& a, const HostRank& one, const HostJob& b, const HostRank& other) {
  return a.pipeline->to_json() == b.pipeline->to_json() &&
         a.dataset->fingerprint() == b.dataset->fingerprint() && makes_the_same(one.options, other.options);
}

/// The readers of `one` go to `other`, if that has what they need next, or waits for others where they do.
void join(HostRank& one, const HostRank& other, std::int64_t now_ns) {
  if (one.running != other.running || other.live() == 0 || one.live() == 0) return;
  if (one.live() > other.live() || other.given_up || now_ns < other.closed_until_ns) return;
  if (!one.running) {
    if (one.epoch != other.epoch || one.position != other.position) return;
    one.send_all_away("it waits with others that share its batches");
    return;
  }
  const SchedulerStats made = one.stream->figures().scheduler;
  if (made.batches == 0) return;
  // Not those that are far behind what is made: they would not find their place.
  for (const auto& [replica, member] : one.members)
    if (!member.parted && one.stream->owed_by(member.reader) > 1) return;
  if (!other.stream->sequence_at(made.epoch, made.position)) return;
  one.send_all_away("it joins others that share its batches");
}

}  // namespace

std::string free_name(const HostJobs& jobs, const std::string& share) {
  for (std::uint64_t number = 1;; ++number)
    if (std::string name = fmt::format("{}~{}", share, number); !jobs.contains(name)) return name;
}

void look_after_shares(const HostJobs& jobs, std::int64_t now_ns) {
  for (const auto& [name, job] : jobs) {
    if (job->share.empty()) continue;
    for (auto& [number, rank] : job->ranks) {
      if (!rank.running && !rank.members.empty() && now_ns >= rank.gathers_until_ns)
        static_cast<void>(rank.begin());  // else at the next look
      part_who_is_behind(rank, now_ns);
      give_up_if_short(rank);
      for (const auto& [other_name, other] : jobs) {
        const auto found = other->ranks.find(number);
        if (other == job || other->share != job->share || found == other->ranks.end()) continue;
        if (same_stream(*job, rank, *other, found->second)) join(rank, found->second, now_ns);
      }
    }
  }
}

}  // namespace carya::loader
