#include "loader/overflow/worker_table.h"

#include <algorithm>
#include <functional>
#include <ranges>

#include "base/hash.h"

namespace carya::loader {
namespace {

/// If more than this share of a worker is free, the part that others use is noise.
constexpr double kAllFree = 0.9;

/// The largest time for a chunk that a worker may report: a day.
constexpr double kThreadNsMax = 86'400e9;

/// One look at the workers in this many may leave a worker that others use too. If all hosts left it at once, nobody
/// would use it.
constexpr std::uint64_t kLooksPerMove = 4;

}  // namespace

WorkerTable::WorkerTable(std::uint64_t seed)
    : seed_(seed), random_(op_key(seed, "loader/overflow/worker_table", 0), 0, 0, 0) {}

void WorkerTable::add(std::uint64_t member, const std::string& address) {
  entries_[member].seen.order = hash64(address, seed_);
}

WorkerEntry* WorkerTable::find(std::uint64_t member) {
  const auto found = entries_.find(member);
  return found == entries_.end() ? nullptr : &found->second;
}

void WorkerTable::set_plan(std::uint64_t plan) {
  plan_ = plan;
  for (auto& [member, entry] : entries_) entry.speed.forget();
}

void WorkerTable::set_count(std::uint32_t count) {
  count_ = count;
  choose(false);
}

void WorkerTable::look(std::span<const remote::WorkerStats> measured) {
  for (const remote::WorkerStats& one : measured) {
    WorkerEntry* const entry = find(one.member);
    if (entry == nullptr) continue;
    entry->window.note_round_trip(static_cast<std::int64_t>(one.round_trip_s * 1e9));
    entry->chunks_max = one.window.requests;
    entry->free = one.free >= kAllFree ? 1 : one.free;
    entry->drains = one.state == remote::WorkerStats::State::kDraining;
  }
  choose(random_.next_below(kLooksPerMove) == 0);
}

// A worker with an older plan counts as there, since it will soon have this plan.
void WorkerTable::choose(bool moves) {
  std::vector<WorkerSeen> there;
  for (auto& [member, entry] : entries_) {
    entry.seen.used = entry.seen.used && entry.is_there();
    entry.seen.room = entry.speed.beside() * static_cast<double>(entry.chunks_max);
    if (entry.is_there()) there.push_back(entry.seen);
  }
  choose_workers(there, count_, moves);
  auto seen = there.begin();
  for (auto& [member, entry] : entries_)
    if (entry.is_there()) entry.seen = *seen++;
}

std::optional<WorkerTable::Next> WorkerTable::next() {
  const auto home_ns = [](const WorkerEntry& one) { return one.window.next_home_ns(one.out, one.cores); };
  std::optional<Next> best;
  for (auto& [member, entry] : entries_) {
    if (!entry.seen.used || !is_ready(entry) || !entry.room) continue;
    if (entry.out >= (entry.proven ? entry.window.chunks(entry.cores) : 1)) continue;
    if (!best || home_ns(entry) < home_ns(*best->entry)) best = {member, &entry};
  }
  return best;
}

bool WorkerTable::any_reads() const {
  return std::ranges::any_of(entries_, [](const auto& one) { return one.second.reads; });
}

double WorkerTable::note_speed(WorkerEntry& entry, std::uint64_t thread_ns, std::uint64_t rows) {
  const double ns = std::min(static_cast<double>(thread_ns), kThreadNsMax);
  entry.speed.note(ns, rows, entry.cores);
  WorkerSpeed::compare(entries_ | std::views::values | std::views::transform(&WorkerEntry::speed));
  return ns * entry.speed.beside() * mean_cores() / std::max(entry.cores, 1.0);
}

double WorkerTable::mean_cores() const {
  double cores = 0, came = 0;
  for (const auto& [member, entry] : entries_) {
    cores += entry.cores;
    came += entry.cores > 0 ? 1 : 0;
  }
  return came > 0 ? cores / came : 0;
}

std::vector<double> WorkerTable::speeds() const {
  std::vector<double> speeds;
  for (const auto& [member, entry] : entries_)
    if (entry.is_there() && entry.speed.known()) speeds.push_back(entry.speed.beside() * entry.free);
  std::ranges::sort(speeds, std::greater());
  return speeds;
}

WorkerTable::Counts WorkerTable::counts() const {
  Counts counts;
  for (const auto& [member, entry] : entries_) {
    if (!entry.seen.used) continue;
    counts.used += entry.is_there() ? 1 : 0;
    counts.ready += is_ready(entry) ? 1 : 0;
  }
  return counts;
}

}  // namespace carya::loader
