#include "autotune/order/cost.h"

#include <fmt/core.h>
#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <utility>

namespace carya::autotune {
namespace {

/// Every op once, and only neighbours that fuse in one stage.
Status check(const Chain& chain, const Plan& plan) {
  OpSet seen = 0;
  for (const Stage& stage : plan.stages) {
    if (stage.ops.empty()) return fail(Code::kInvalidArgument, "plan: a stage has no op");
    for (std::size_t i = 0; i < stage.ops.size(); ++i) {
      const std::size_t op = stage.ops[i];
      if (op >= chain.size())
        return fail(Code::kInvalidArgument,
                    fmt::format("plan: op {} of a chain of {} ops", op, chain.size()));
      if ((seen & op_bit(op)) != 0)
        return fail(Code::kInvalidArgument, "plan: " + chain.label(op) + " runs twice");
      if (i > 0 && (chain.fuses_with(stage.ops[i - 1]) & op_bit(op)) == 0)
        return fail(Code::kInvalidArgument, "plan: " + chain.label(op) + " does not fuse with " +
                                                chain.label(stage.ops[i - 1]) + "; begin a new stage there");
      seen |= op_bit(op);
    }
  }
  if (seen == chain.all()) return {};
  const auto missing = static_cast<std::size_t>(__builtin_ctzll(chain.all() & ~seen));
  return fail(Code::kInvalidArgument, "plan: " + chain.label(missing) + " is missing");
}

/// What each op of a stage costs: a measured beginning is divided by the ops' costs alone.
StageCost stage_cost(const StageModel& model, const Stage& stage, const Size& before) {
  StageCost result;
  StageModel::Walk walk = StageModel::begin(before);
  double alone_ns = 0;  // of the ops so far, each by itself
  for (const std::size_t op : stage.ops) {
    const Size in = walk.at;
    const double walk_ns = walk.ns;
    model.append(walk, op);
    const double own_ns = model.first_ns(op, in, walk.at);
    alone_ns += own_ns;
    result.ops.push_back({.op = op, .in = in, .out = walk.at, .cpu_s = own_ns, .fused = walk.ops > 1});
    if (walk.measured < walk.ops) {
      result.ops.back().cpu_s = walk.ns - walk_ns;
      continue;
    }
    for (OpCost& part : result.ops) {
      const double own = model.first_ns(part.op, part.in, part.out);
      part.cpu_s = alone_ns > 0 ? walk.ns * (own / alone_ns) : walk.ns / static_cast<double>(walk.ops);
    }
  }
  result.cpu_s = walk.ns;
  return result;
}

}  // namespace

std::vector<std::size_t> Plan::order() const {
  std::vector<std::size_t> ops;
  for (const Stage& stage : stages) ops.insert(ops.end(), stage.ops.begin(), stage.ops.end());
  return ops;
}

Plan plan_of(std::span<const std::size_t> order) {
  Plan plan;
  for (const std::size_t op : order) plan.stages.push_back({{op}});
  return plan;
}

Plan declared_plan(const Chain& chain) {
  std::vector<std::size_t> order(chain.size());
  std::iota(order.begin(), order.end(), 0);
  return plan_of(order);
}

Status check(const Machine& machine) {
  const auto wrong = [](const char* part, double number, const char* wanted) {
    return fail(Code::kInvalidArgument,
                fmt::format("machine: {} is {}; it must be {}", part, number, wanted));
  };
  if (!(machine.cores > 0 && std::isfinite(machine.cores))) return wrong("cores", machine.cores, "above 0");
  if (!(machine.speed > 0 && std::isfinite(machine.speed))) return wrong("speed", machine.speed, "above 0");
  if (!(machine.read_bytes_per_s >= 0 && std::isfinite(machine.read_bytes_per_s)))
    return wrong("read_bytes_per_s", machine.read_bytes_per_s, "at least 0");
  return {};
}

Result<PlanCost> cost(const StageModel& model, const Plan& plan, const Machine& machine) {
  TRY(check(machine));
  TRY(check(model.chain(), plan));
  constexpr double kNsPerS = 1e9;
  const double seconds_per_ns = 1 / (kNsPerS * machine.speed);
  PlanCost total;
  Size at = model.profile().source;
  const double source_bytes = at.bytes();
  Cut cut{.stages_before = 0, .bytes = source_bytes, .cpu_s_before = 0, .repeatable = true};
  total.cuts.push_back(cut);
  for (const Stage& stage : plan.stages) {
    StageCost costs = stage_cost(model, stage, at);
    costs.cpu_s *= seconds_per_ns;
    costs.rate = per_second(machine.cores, costs.cpu_s);
    for (OpCost& op : costs.ops) {
      op.cpu_s *= seconds_per_ns;
      if (model.chain().op(op.op).random) cut.repeatable = false;
    }
    at = costs.ops.back().out;
    total.cpu_s += costs.cpu_s;
    ++cut.stages_before;
    cut.bytes = at.bytes();
    cut.cpu_s_before = total.cpu_s;
    total.cuts.push_back(cut);
    total.stages.push_back(std::move(costs));
  }
  total.rate = per_second(machine.cores, total.cpu_s);
  if (machine.read_bytes_per_s > 0)
    total.rate = std::min(total.rate, per_second(machine.read_bytes_per_s, source_bytes));
  return total;
}

Result<PlanCost> cost(const Chain& chain, const Plan& plan, const Profile& profile, const Machine& machine) {
  ASSIGN(const StageModel model, StageModel::create(chain, profile));
  return cost(model, plan, machine);
}

}  // namespace carya::autotune
