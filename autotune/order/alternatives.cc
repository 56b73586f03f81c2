#include "autotune/order/alternatives.h"

#include <fmt/core.h>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <tuple>
#include <utility>

#include "autotune/order/deviations.h"
#include "autotune/order/lower_bound.h"
#include "autotune/order/precedence.h"
#include "autotune/order/search.h"

namespace carya::autotune {
namespace {

constexpr double kNsPerS = 1e9;
constexpr double kReasonShareMin = 0.05;
// Extra time below this share of the plan's is rounding, not a reason.
constexpr double kNothing = 1e-9;

std::string number_text(double number, const char* unit) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g %s", number, unit);
  return text;
}

std::string time_text(double seconds) {
  if (seconds < 1e-6) return number_text(seconds * 1e9, "ns");
  if (seconds < 1e-3) return number_text(seconds * 1e6, "us");
  return number_text(seconds * 1e3, "ms");
}

std::string bytes_text(double bytes) {
  if (bytes < 1024) return number_text(bytes, "B");
  if (bytes < 1024.0 * 1024) return number_text(bytes / 1024, "KiB");
  return number_text(bytes / (1024.0 * 1024), "MiB");
}

std::vector<OpCost> costs_by_op(std::size_t ops, const PlanCost& cost) {
  std::vector<OpCost> found(ops);
  for (const StageCost& stage : cost.stages)
    for (const OpCost& op : stage.ops) found[op.op] = op;
  return found;
}

std::string reason_text(const Chain& chain, const OpCost& best, const OpCost& other) {
  std::string text = chain.label(other.op) + " takes " + time_text(other.cpu_s - best.cpu_s) + " more: ";
  const double in = other.in.bytes(), in_best = best.in.bytes();
  if (std::abs(in - in_best) > kNothing * in_best)
    return text + "it reads " + bytes_text(in) + " instead of " + bytes_text(in_best);
  if (best.fused && !other.fused) return text + "it is not fused with the op before it";
  return text + "it is fused with other ops";
}

std::string alternative_text(const Alternative& alternative) {
  if (alternative.loss <= kNothing)
    return alternative.turned + ": the same CPU time; the plan closest to the declared order is taken";
  std::string text = alternative.turned + ": " + number_text(100 * alternative.loss, "% more CPU time");
  for (std::size_t i = 0; i < alternative.reasons.size(); ++i)
    text += (i == 0 ? "; " : ", ") + alternative.reasons[i].text;
  return text;
}

/// One respect in which a plan may differ from the best.
struct Candidate {
  const Deviations::Deviation* deviation;
  std::string turned;
};

std::vector<Candidate> candidates(const Chain& chain, const Deviations& deviations,
                                  const std::vector<Search::Element>& best) {
  std::vector<Candidate> found;
  for (std::size_t i = 0; i < best.size(); ++i) {
    const std::string& op = chain.label(best[i].op);
    if (const auto& split = deviations.split(best[i].op); split.found())
      found.push_back({&split, op + " not fused with " + chain.label(best[i - 1].op)});
    for (std::size_t k = 0; k < i; ++k)
      if (const auto& turned = deviations.turned(best[i].op, best[k].op); turned.found())
        found.push_back({&turned, op + " before " + chain.label(best[k].op)});
  }
  std::sort(found.begin(), found.end(), [](const Candidate& a, const Candidate& b) {
    return std::tie(a.deviation->ns, a.turned) < std::tie(b.deviation->ns, b.turned);
  });
  return found;
}

Status name_plans(const StageModel& model, const Machine& machine, const Deviations& deviations,
                  const std::vector<Candidate>& found, std::size_t plans_max, Alternatives& result) {
  for (const Candidate& candidate : found) {
    if (result.plans.size() == plans_max) break;
    Plan plan = deviations.plan(*candidate.deviation);
    const auto same = [&](const Alternative& known) { return known.plan == plan; };
    if (std::any_of(result.plans.begin(), result.plans.end(), same)) continue;
    Alternative alternative{.plan = std::move(plan), .turned = candidate.turned};
    ASSIGN(alternative.cost, cost(model, alternative.plan, machine));
    if (result.cost.cpu_s > 0) alternative.loss = alternative.cost.cpu_s / result.cost.cpu_s - 1;
    alternative.reasons = reasons(model.chain(), result.cost, alternative.cost);
    alternative.text = alternative_text(alternative);
    result.plans.push_back(std::move(alternative));
  }
  return {};
}

}  // namespace

std::vector<Reason> reasons(const Chain& chain, const PlanCost& best, const PlanCost& other) {
  const std::vector<OpCost> costs_best = costs_by_op(chain.size(), best);
  const std::vector<OpCost> costs_other = costs_by_op(chain.size(), other);
  const double least = std::max(kReasonShareMin * (other.cpu_s - best.cpu_s), kNothing * best.cpu_s);
  std::vector<Reason> found;
  for (std::size_t op = 0; op < chain.size(); ++op) {
    const double extra = costs_other[op].cpu_s - costs_best[op].cpu_s;
    if (extra > least) found.push_back({op, extra, reason_text(chain, costs_best[op], costs_other[op])});
  }
  std::sort(found.begin(), found.end(), [](const Reason& a, const Reason& b) {
    return std::tie(b.extra_cpu_s, a.op) < std::tie(a.extra_cpu_s, b.op);
  });
  return found;
}

Result<Alternatives> alternatives(const Chain& chain, const Profile& profile, const Machine& machine,
                                  const AlternativesOptions& options) {
  if (!(options.margin >= 0 && std::isfinite(options.margin)))
    return fail(Code::kInvalidArgument,
                fmt::format("alternatives: margin is {}; it must be at least 0", options.margin));
  ASSIGN(const StageModel model, StageModel::create(chain, profile, options.order.fuse));
  const Precedence precedence(chain, options.order.sense);
  const LowerBound bound(precedence, model);
  Search search(precedence, model, bound);
  Alternatives result;
  result.proven = search.run(options.margin, options.order.sets_max);
  const std::vector<Search::Element> best = search.best();
  result.best = Search::to_plan(best);
  ASSIGN(result.cost, cost(model, result.best, machine));

  const double best_ns = search.best_ns();
  const Deviations deviations(search, model, best_ns * (1 + options.margin));
  const double seconds_per_ns = 1 / (kNsPerS * machine.speed);
  const auto saving = [&](const Deviations::Deviation& deviation) {
    const double ns = deviation.found() ? deviation.ns - best_ns : best_ns * options.margin;
    return std::max(0.0, ns) * seconds_per_ns;
  };
  for (const Exchange& exchange : exchanges(chain, result.best)) {
    const auto& kept = deviations.turned(exchange.declared_first, exchange.declared_second);
    result.exchanges.push_back({exchange, saving(kept), !kept.found()});
  }
  for (std::size_t i = 1; i < best.size(); ++i) {
    if (!best[i].joined) continue;
    const auto& split = deviations.split(best[i].op);
    result.fusions.push_back({best[i - 1].op, best[i].op, saving(split), !split.found()});
  }
  TRY(name_plans(model, machine, deviations, candidates(chain, deviations, best), options.plans_max, result));
  return result;
}

}  // namespace carya::autotune
