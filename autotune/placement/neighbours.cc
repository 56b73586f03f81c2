#include "autotune/placement/neighbours.h"

#include <fmt/core.h>
#include <cmath>
#include <utility>

namespace carya::autotune {
namespace {

std::string cut_name(const PlacementInputs& facts, std::size_t cut) {
  const RemoteCut& costs = facts.cuts[cut];
  return fmt::format("cut after {}{}{}", costs.ops_remote, (costs.ops_remote == 1 ? " op" : " ops"),
                     (costs.compressed ? ", compressed" : ""));
}

std::string why(const PlacementGoal& goal, const Choice& other, const Choice& chosen, bool reachable) {
  constexpr double kPercent = 100;
  if (goal.objective == Objective::kCost && reachable && other.stall > kStallMax && chosen.stall <= kStallMax)
    return worded("the trainer would wait %.3g %% of the time", kPercent * other.stall);
  if (!(other.rate > 0)) return "it makes nothing";
  if (!(chosen.rate > 0)) return "it makes something; the chosen makes nothing";
  const bool by_rate = goal.objective != Objective::kCost;
  const double slower = 1 - other.rate / chosen.rate;
  if (by_rate && std::abs(slower) > 1e-9)
    return worded(slower > 0 ? "%.3g %% slower" : "%.3g %% faster", kPercent * std::abs(slower));
  const double dearer = by_rate ? other.cost_per_hour / chosen.cost_per_hour - 1
                                : other.cost_per_sample / chosen.cost_per_sample - 1;
  if (!std::isfinite(dearer) && other.cost_per_hour > 0)  // beside what costs nothing a share says nothing
    return worded("$%.3g an hour more", other.cost_per_hour - chosen.cost_per_hour);
  if (!(std::abs(dearer) > 1e-9)) return "the same cost; fewer workers, then the earlier cut, are taken";
  return worded(dearer > 0 ? "%.3g %% more per sample" : "%.3g %% less per sample",
                kPercent * std::abs(dearer));
}

}  // namespace

std::vector<Neighbour> neighbours(const PlacementInputs& facts, const Prices& prices,
                                  const PlacementGoal& goal, const Choice& chosen, bool reachable) {
  std::vector<Neighbour> found;
  const auto add = [&](std::string name, const Choice& choice) {
    found.push_back({std::move(name), choice, why(goal, choice, chosen, reachable)});
  };
  std::optional<std::size_t> first = chosen.cut;  // where a first worker would work
  for (std::size_t cut = 0; cut < facts.cuts.size(); ++cut) {
    if (const auto best = best_at_cut(facts, prices, goal, cut);
        best && chosen.cut && (cut + 1 == *chosen.cut || cut == *chosen.cut + 1))
      add(cut_name(facts, cut), *best);
    const auto one = [&](std::size_t at) { return predict(facts, prices, goal, at, 1); };
    if (!chosen.cut && (!first || better(goal, one(cut), one(*first), reachable))) first = cut;
  }
  if (const std::uint32_t more = chosen.workers + 1; first && more <= goal.workers_there) {
    add("one worker more", predict(facts, prices, goal, first, more));
    const Limit limit = more > goal.workers_max ? Limit::kWorkersMax : Limit::kWorkersCostMax;
    if (more > workers_allowed(prices, goal))
      found.back().why += ", beyond " + std::string(limit_name(limit));
  }
  if (chosen.workers > 1)
    add("one worker less", predict(facts, prices, goal, chosen.cut, chosen.workers - 1));
  if (chosen.workers > 0) add("no workers", predict(facts, prices, goal, std::nullopt, 0));
  if (const auto all = best_all_remote(facts, prices, goal, reachable)) add("all remote", *all);
  return found;
}

std::string choice_text(const PlacementInputs& facts, const Choice& choice) {
  const double per_million = 1e6 * choice.cost_per_sample;
  std::string said = "all local";
  if (choice.cut && choice.workers > 0)
    said = worded("%u worker%s, ", choice.workers, choice.workers == 1 ? "" : "s") +
           cut_name(facts, *choice.cut) + worded(", %.3g %% of the samples", 100 * choice.remote_share);
  return said + worded("; %.3g cores here; %.4g samples/s, limited by ", choice.cores, choice.rate) +
         std::string(limit_name(choice.limit)) + worded("; $%.4g an hour", choice.cost_per_hour) +
         (std::isfinite(per_million) ? worded(", $%.4g per million samples", per_million) : "");
}

}  // namespace carya::autotune
