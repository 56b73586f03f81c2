#include "autotune/placement/placement.h"

#include <fmt/core.h>
#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "autotune/order/cost.h"

namespace carya::autotune {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();
/// Differences below this share are rounding.
constexpr double kSame = 1e-9;

/// A limit that may be unknown.
double limit(double number) {
  return std::isfinite(number) && number > 0 ? number : kInfinite;
}

Status wrong(const std::string& subject, const char* part, double number, const char* wanted) {
  return fail(Code::kInvalidArgument,
              fmt::format("{}: {} is {}; it must be {}", subject, part, number, wanted));
}

bool known(double number) {
  return number > 0 && std::isfinite(number);
}

/// A rate with what keeps it there.
struct Bound {
  double rate = kInfinite;
  Limit limit = Limit::kDemand;
  void at_most(double other, Limit by) {
    if (other < rate) *this = {other, by};
  }
};

/// What nobody can exceed, wherever samples are made.
Bound stream_bound(const PlacementInputs& facts, const PlacementGoal& goal) {
  Bound bound{limit(facts.demand), Limit::kDemand};
  if (goal.objective == Objective::kCostAtTarget) bound.at_most(limit(goal.target), Limit::kDemand);
  bound.at_most(per_second(limit(facts.source_bytes_per_s), facts.source_bytes), Limit::kSource);
  return bound;
}

/// What one worker beyond those that are known brings.
double further_speed(const std::vector<double>& speeds) {
  if (speeds.empty()) return 1;
  return std::accumulate(speeds.begin(), speeds.end(), 0.0) / static_cast<double>(speeds.size());
}

/// What so many workers bring together.
double speed_of(const PlacementInputs& facts, std::uint32_t workers) {
  const std::vector<double>& speeds = facts.worker_speeds;
  const std::size_t known = std::min<std::size_t>(workers, speeds.size());
  return std::accumulate(speeds.begin(), speeds.begin() + static_cast<std::ptrdiff_t>(known), 0.0) +
         static_cast<double>(workers - known) * further_speed(speeds);
}

/// As few as bring that, at most `allowed`.
std::uint32_t workers_of_speed(const PlacementInputs& facts, double wanted, std::uint32_t allowed) {
  std::uint32_t workers = 0;
  for (const double speed : facts.worker_speeds) {
    if (!(wanted > 0) || workers == allowed) return workers;
    wanted -= speed;
    ++workers;
  }
  const double further = std::ceil(std::max(0.0, wanted) / further_speed(facts.worker_speeds));
  return workers + static_cast<std::uint32_t>(std::min<double>(further, allowed - workers));
}

/// Samples/s that can come from the workers.
Bound remote_bound(const PlacementInputs& facts, const RemoteCut& cut, std::uint32_t workers) {
  const double cores = speed_of(facts, workers) * facts.worker_cores;
  Bound bound{per_second(cores, cut.worker_cpu_s), Limit::kWorkers};
  bound.at_most(per_second(limit(facts.link_in_bytes_per_s), cut.bytes_in), Limit::kLinkIn);
  bound.at_most(per_second(limit(facts.link_out_bytes_per_s), cut.bytes_out), Limit::kLinkOut);
  bound.at_most(per_second(facts.cores, cut.host_cpu_s), Limit::kLocalCores);
  return bound;
}

void set_cost(Choice& choice, const PlacementInputs& facts, const Prices& prices) {
  const double demand = limit(facts.demand);
  choice.stall = std::isfinite(demand) ? std::max(0.0, 1 - choice.rate / demand) : 0;
  choice.cost_per_hour = prices.host_per_hour + choice.workers * prices.worker_per_hour;
  choice.cost_per_sample = choice.rate > 0 ? choice.cost_per_hour / kSecondsPerHour / choice.rate : kInfinite;
}

/// From this number on, more workers change nothing at the cut.
std::uint32_t workers_useful(const PlacementInputs& facts, const PlacementGoal& goal, const RemoteCut& cut,
                             std::uint32_t allowed, bool all_remote) {
  const double each = per_second(facts.worker_cores, cut.worker_cpu_s);
  const double gain = 1 - cut.host_cpu_s / facts.local_cpu_s;  // of the stream, per remote sample
  if (!(each > 0) || (gain <= 0 && !all_remote)) return 0;
  const double wanted = stream_bound(facts, goal).rate;
  Bound most = remote_bound(facts, cut, kAnyWorkersMax);
  most.at_most(all_remote ? wanted : (wanted - facts.cores / facts.local_cpu_s) / gain, Limit::kDemand);
  return workers_of_speed(facts, most.rate / each, allowed);
}

std::vector<Choice> choices_at(const PlacementInputs& facts, const Prices& prices, const PlacementGoal& goal,
                               std::size_t cut, bool all_remote) {
  std::vector<Choice> all;
  const std::uint32_t last =
      workers_useful(facts, goal, facts.cuts[cut], workers_allowed(prices, goal), all_remote);
  for (std::uint32_t n = 1; n <= last; ++n) all.push_back(predict(facts, prices, goal, cut, n, all_remote));
  return all;
}

bool any_fits(const std::vector<Choice>& all) {
  return std::any_of(all.begin(), all.end(), [](const Choice& choice) { return choice.stall <= kStallMax; });
}

/// There is one.
const Choice& best_of(const PlacementGoal& goal, const std::vector<Choice>& all, bool reachable) {
  const Choice* best = &all.front();
  for (const Choice& choice : all)
    if (better(goal, choice, *best, reachable)) best = &choice;
  return *best;
}

Best search(const PlacementInputs& facts, const Prices& prices, const PlacementGoal& goal, bool serve) {
  std::vector<Choice> all = {predict(facts, prices, goal, std::nullopt, 0)};
  for (std::size_t cut = 0; cut < facts.cuts.size(); ++cut)
    for (const Choice& choice : choices_at(facts, prices, goal, cut, false)) all.push_back(choice);
  const bool fits = serve && any_fits(all);
  return {best_of(goal, all, fits), fits};
}

}  // namespace

std::string_view objective_name(Objective objective) {
  switch (objective) {
    case Objective::kCost:
      return "cost";
    case Objective::kSpeed:
      return "speed";
    case Objective::kCostAtTarget:
      return "cost-at-target";
  }
  return "";
}

Result<Objective> objective_from_name(std::string_view name) {
  for (const Objective objective : {Objective::kCost, Objective::kSpeed, Objective::kCostAtTarget})
    if (name == objective_name(objective)) return objective;
  return fail(Code::kInvalidArgument,
              "objective: got \"" + std::string(name) + "\"; give \"cost\", \"speed\" or \"cost-at-target\"");
}

std::string_view limit_name(Limit limit) {
  switch (limit) {
    case Limit::kDemand:
      return "the trainer";
    case Limit::kLocalCores:
      return "the host's cores";
    case Limit::kWorkers:
      return "the workers";
    case Limit::kLinkIn:
      return "the link to the host";
    case Limit::kLinkOut:
      return "the link from the host";
    case Limit::kSource:
      return "the source";
    case Limit::kWorkersThere:
      return "the workers that there are";
    case Limit::kWorkersMax:
      return "max_workers";
    case Limit::kWorkersCostMax:
      return "max_cost_per_hour";
  }
  return "";
}

Status check(const PlacementInputs& facts) {
  if (!known(facts.local_cpu_s)) return wrong("placement", "local_cpu_s", facts.local_cpu_s, "above 0");
  if (!known(facts.cores)) return wrong("placement", "cores", facts.cores, "above 0");
  if (!known(facts.worker_cores)) return wrong("placement", "worker_cores", facts.worker_cores, "above 0");
  for (const double speed : facts.worker_speeds)
    if (!known(speed)) return wrong("placement", "worker_speeds", speed, "above 0");
  for (const RemoteCut& cut : facts.cuts) {
    const std::string name = fmt::format("placement: the cut after {} ops", cut.ops_remote);
    if (!known(cut.worker_cpu_s)) return wrong(name, "worker_cpu_s", cut.worker_cpu_s, "above 0");
    const std::pair<const char*, double> rest[] = {
        {"host_cpu_s", cut.host_cpu_s}, {"bytes_in", cut.bytes_in}, {"bytes_out", cut.bytes_out}};
    for (const auto& [part, number] : rest)
      if (!(number >= 0 && std::isfinite(number))) return wrong(name, part, number, "at least 0 and finite");
  }
  return {};
}

Status check(const Prices& prices) {
  for (const auto& [part, number] :
       {std::pair{"host", prices.host_per_hour}, {"worker", prices.worker_per_hour}})
    if (!(number >= 0 && std::isfinite(number)))
      return wrong("prices", part, number, "at least 0 and finite");
  return {};
}

Status check(const PlacementGoal& goal) {
  if (goal.workers_max > kAnyWorkersMax)
    return wrong("goal", "max_workers", goal.workers_max, "at most 100,000");
  if (!(goal.workers_cost_per_hour_max >= 0))
    return wrong("goal", "max_cost_per_hour", goal.workers_cost_per_hour_max, "at least 0");
  if (!(goal.target >= 0 && std::isfinite(goal.target)))
    return wrong("goal", "target", goal.target, "at least 0 and finite");
  return {};
}

Choice predict(const PlacementInputs& facts, const Prices& prices, const PlacementGoal& goal,
               std::optional<std::size_t> cut, std::uint32_t workers, bool all_remote) {
  Choice choice{.cut = cut, .workers = workers, .all_remote = all_remote};
  const double local_most = facts.cores / facts.local_cpu_s;
  Bound bound = stream_bound(facts, goal);
  double remote = 0;
  if (cut && workers > 0) {
    const RemoteCut& costs = facts.cuts[*cut];
    const Bound most = remote_bound(facts, costs, workers);
    // Each remote sample takes host_cpu_s from the cores that make local ones.
    const double gain = 1 - costs.host_cpu_s / facts.local_cpu_s;
    if (all_remote)
      remote = std::min(most.rate, bound.rate);
    else if (gain > 0)
      remote = std::clamp((bound.rate - local_most) / gain, 0.0, most.rate);
    bound.at_most(all_remote ? most.rate : local_most + remote * gain,
                  gain > 0 || all_remote ? most.limit : Limit::kLocalCores);
    choice.cores = remote * costs.host_cpu_s;
  } else {
    bound.at_most(all_remote ? 0 : local_most, all_remote ? Limit::kWorkers : Limit::kLocalCores);
  }
  choice.rate = bound.rate;
  choice.limit = bound.limit;
  choice.cores =
      std::min(facts.cores, choice.cores + std::max(0.0, choice.rate - remote) * facts.local_cpu_s);
  choice.remote_share = choice.rate > 0 ? std::min(1.0, remote / choice.rate) : 0;
  set_cost(choice, facts, prices);
  return choice;
}

std::uint32_t workers_allowed(const Prices& prices, const PlacementGoal& goal) {
  const double affordable = prices.worker_per_hour > 0
                                ? goal.workers_cost_per_hour_max / prices.worker_per_hour + kSame
                                : kInfinite;
  return static_cast<std::uint32_t>(
      std::min<double>({1.0 * goal.workers_max, 1.0 * goal.workers_there, std::floor(affordable)}));
}

bool better(const PlacementGoal& goal, const Choice& a, const Choice& b, bool reachable) {
  const auto less = [](double x, double y) { return x < y * (1 - kSame); };
  const auto first = [&less](double x, double y, bool next) { return less(x, y) || (!less(y, x) && next); };
  switch (goal.objective) {
    case Objective::kCost: {
      const bool fits_a = a.stall <= kStallMax, fits_b = b.stall <= kStallMax;
      if (reachable && fits_a != fits_b) return fits_a;
      return first(a.cost_per_sample, b.cost_per_sample, a.workers < b.workers);
    }
    case Objective::kSpeed:
    case Objective::kCostAtTarget:  // rates end at the target
      return first(b.rate, a.rate, first(a.cost_per_hour, b.cost_per_hour, a.workers < b.workers));
  }
  return false;
}

bool reachable(const PlacementInputs& facts, const Prices& prices, const PlacementGoal& goal) {
  const auto fits = [&](std::optional<std::size_t> cut, std::uint32_t workers) {
    return predict(facts, prices, goal, cut, workers).stall <= kStallMax;
  };
  if (fits(std::nullopt, 0)) return true;
  const std::uint32_t most = workers_allowed(prices, goal);  // no rate falls with their number
  for (std::size_t cut = 0; cut < facts.cuts.size(); ++cut)
    if (fits(cut, most)) return true;
  return false;
}

Result<Best> place(const PlacementInputs& facts, const Prices& prices, const PlacementGoal& goal,
                   bool serve) {
  TRY(check(facts));
  TRY(check(prices));
  TRY(check(goal));
  Best best = search(facts, prices, goal, serve);
  name_limit(best.choice, facts, prices, goal, serve);
  return best;
}

void name_limit(Choice& choice, const PlacementInputs& facts, const Prices& prices, const PlacementGoal& goal,
                bool serve) {
  const std::uint32_t allowed = workers_allowed(prices, goal);
  if (choice.limit == Limit::kDemand || choice.limit == Limit::kSource || allowed == kAnyWorkersMax) return;
  PlacementGoal open = goal;
  open.workers_max = open.workers_there = allowed + 1;
  open.workers_cost_per_hour_max = kInfinite;
  if (search(facts, prices, open, serve).choice.workers <= allowed) return;
  choice.limit = allowed == goal.workers_there ? Limit::kWorkersThere
                 : allowed == goal.workers_max ? Limit::kWorkersMax
                                               : Limit::kWorkersCostMax;
}

std::optional<Choice> best_all_remote(const PlacementInputs& facts, const Prices& prices,
                                      const PlacementGoal& goal, bool reachable) {
  std::optional<Choice> best;
  for (std::size_t cut = 0; cut < facts.cuts.size(); ++cut)
    if (const auto here = best_at_cut(facts, prices, goal, cut, true);
        here && (!best || better(goal, *here, *best, reachable)))
      best = here;
  return best;
}

std::optional<Choice> best_at_cut(const PlacementInputs& facts, const Prices& prices,
                                  const PlacementGoal& goal, std::size_t cut, bool all_remote) {
  const std::vector<Choice> all = choices_at(facts, prices, goal, cut, all_remote);
  if (all.empty()) return std::nullopt;
  return best_of(goal, all, any_fits(all));
}

}  // namespace carya::autotune
