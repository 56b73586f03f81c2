#include "loader/plan/stream_planner.h"

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "loader/plan/frozen_plan.h"
#include "loader/plan/profile_file.h"

namespace carya::loader {
namespace {

constexpr std::int64_t kKeepEveryNs = 10'000'000'000;
constexpr std::int64_t kGapMaxNs = 300'000'000'000;
/// Who turned so often has not found what it looks for.
constexpr std::size_t kTriesMax = 16;

std::uint64_t timed_samples(const PlanProfile& measured) {
  std::uint64_t sum = 0;
  for (const OrderProfile& order : measured.orders) sum += order.timed_samples();
  return sum;
}

}  // namespace

StreamPlanner::StreamPlanner(std::shared_ptr<const transforms::Pipeline> pipeline,
                             StreamPlannerOptions options)
    : pipeline_(std::move(pipeline)), options_(std::move(options)), gap_ns_(options_.look_after_ns) {}

Result<std::shared_ptr<PlanInUse>> StreamPlanner::first_plan() {
  const MutexLock lock(planning_);
  if (!options_.cache_dir.empty()) {
    path_ = profile_path(options_.cache_dir, *pipeline_, ProfileMachine::here());
    auto earlier = load_profile(path_, *pipeline_, unix_s());
    if (earlier)
      earlier_ = std::move(*earlier);
    else if (earlier.error().code != Code::kNotFound)
      note(earlier.error().message + "; begun without it");
    kept_overflow_ = earlier_.overflow;
    kept_storages_ = earlier_.storages;
  }
  if (!options_.frozen_order.empty()) {
    TRY(check_frozen_order(*pipeline_, options_.frozen_order, options_.reorder));
    return compile(options_.frozen_order);
  }
  std::vector<std::size_t> order = options_.first_order;
  if (order.empty() && plans()) {
    auto first = first_order(*pipeline_, earlier_);
    if (first)
      order = std::move(*first);
    else
      note("not planned: " + first.error().message);
  }
  if (order.empty()) order = declared_order(*pipeline_);
  auto plan = compile(order);
  if (!plan && !std::ranges::is_sorted(order)) {
    note(plan.error().message);
    order = declared_order(*pipeline_);
    plan = compile(order);
  }
  tried_.begun.push_back(std::move(order));
  return plan;
}

Result<std::shared_ptr<PlanInUse>> StreamPlanner::compile(std::vector<std::size_t> order) const {
  ASSIGN(auto plan, transforms::Plan::compile(
                        pipeline_, {.seed = options_.seed, .fuse = options_.fuse, .order = order}));
  const OrderProfile* const known = earlier_.find(order);
  const bool trusted = known && known->timed_samples() >= kTrustedSamples;
  return std::make_shared<PlanInUse>(
      PlanInUse{std::move(plan), {.order = std::move(order)}, trusted ? known->cpu_ns() * 1e-9 : 0});
}

bool StreamPlanner::ask(std::uint64_t timed_samples) {
  if (asked_.load(std::memory_order_relaxed)) return false;
  const std::int64_t now = monotonic_ns();
  std::int64_t none = 0;
  if (look_ns_.compare_exchange_strong(none, now + gap_ns_)) keep_ns_ = now + kKeepEveryNs;
  const bool due =
      (plans() && now >= look_ns_ && timed_samples >= kTrustedSamples) || (!path_.empty() && now >= keep_ns_);
  return due && !asked_.exchange(true);
}

std::shared_ptr<PlanInUse> StreamPlanner::look(const PlanProfile& measured) {
  const MutexLock lock(planning_);
  asked_ = false;
  const std::int64_t now = monotonic_ns();
  const bool keeps = now >= keep_ns_;
  if (keeps) keep_ns_ = now + kKeepEveryNs;
  std::shared_ptr<PlanInUse> next;
  if (plans() && now >= look_ns_ && !measured.orders.empty() &&
      measured.orders.back().timed_samples() >= kTrustedSamples)
    next = turn(measured, now);
  if (keeps) keep(measured);
  return next;
}

std::shared_ptr<PlanInUse> StreamPlanner::turn(const PlanProfile& measured, std::int64_t now_ns) {
  gap_ns_ = std::min(2 * gap_ns_, kGapMaxNs);
  look_ns_ = now_ns + gap_ns_;
  if (tried_.begun.size() > kTriesMax) return nullptr;
  auto better = better_order(*pipeline_, profile(measured), measured.orders.back().order, tried_);
  if (!better) note("not planned: " + better.error().message);
  if (!better || !*better) return nullptr;
  tried_.begun.push_back((*better)->order);
  auto plan = compile((*better)->order);
  if (!plan) {
    note(plan.error().message);
    return nullptr;
  }
  note((*better)->reason);
  gap_ns_ = options_.look_after_ns;
  look_ns_ = now_ns + gap_ns_;
  return std::move(*plan);
}

void StreamPlanner::keep(const PlanProfile& measured) {
  if (path_.empty()) return;
  const std::uint64_t samples = timed_samples(measured);
  const double demand = demand_per_s_;
  const PlanProfile all = profile(measured);
  if (samples == kept_samples_ && demand == kept_demand_ && all.overflow == kept_overflow_ &&
      all.storages == kept_storages_)
    return;
  kept_samples_ = samples;
  kept_demand_ = demand;
  kept_overflow_ = all.overflow;
  kept_storages_ = all.storages;
  if (const Status kept = store_profile(path_, all, ProfileMachine::here()); !kept)
    note("profile not kept: " + kept.error().message);
  else if (!std::exchange(pruned_, true))
    remove_old_profiles(path_, kProfileFilesMax);
}

void StreamPlanner::close(const PlanProfile& measured) {
  const MutexLock lock(planning_);
  keep(measured);
}

PlanProfile StreamPlanner::profile(const PlanProfile& measured) const {
  PlanProfile all = earlier_;
  for (const OrderProfile& order : measured.orders) all.add(order.order, order.stages, order.measured_at_s);
  all.rates =
      joined(joined(all.rates, measured.rates), {.demand_per_s = demand_per_s_, .demand_at_s = unix_s()});
  const MutexLock lock(saying_);
  if (overflow_) all.overflow = overflow_;
  all.add(storages_);
  return all;
}

void StreamPlanner::note_overflow(OverflowProfile known) {
  const MutexLock lock(saying_);
  overflow_ = std::move(known);
}

void StreamPlanner::note_storages(std::vector<StorageProfile> known) {
  const MutexLock lock(saying_);
  storages_ = std::move(known);
}

std::optional<autotune::EarlierRun> StreamPlanner::earlier_overflow(
    std::span<const std::size_t> order) const {
  if (!earlier_.overflow || !std::ranges::equal(earlier_.overflow->order, order)) return std::nullopt;
  return earlier_.overflow->run;
}

void StreamPlanner::note_demand(double per_s) {
  const StreamRates said = checked(StreamRates{.demand_per_s = per_s}, 0);
  if (said.demand_per_s > 0) demand_per_s_ = said.demand_per_s;
}

void StreamPlanner::note(std::string line) {
  const MutexLock lock(saying_);
  if (!lines_.empty() && lines_.back() == line) return;
  lines_.push_back(std::move(line));
  if (lines_.size() > kLinesKept) lines_.pop_front();
}

std::vector<std::string> StreamPlanner::lines() const {
  const MutexLock lock(saying_);
  return {lines_.begin(), lines_.end()};
}

}  // namespace carya::loader
