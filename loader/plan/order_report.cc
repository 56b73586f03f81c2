#include "loader/plan/order_report.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/clock.h"
#include "loader/host/host.h"
#include "loader/plan/frozen_plan.h"
#include "loader/plan/order_choice.h"
#include "loader/plan/profile_file.h"

namespace carya::loader {
namespace {

using Json = nlohmann::json;
using autotune::BestOrder;
using autotune::Chain;

constexpr double kMicro = 1e6;

Json labels(const Chain& chain, const std::vector<std::size_t>& order) {
  Json names = Json::array();
  for (const std::size_t op : order) names.push_back(chain.label(op));
  return names;
}

/// `sources`: by declared place, what is behind the costs (facts_json()).
Json ops_of(const transforms::Pipeline& pipeline, const Chain& chain, const autotune::PlanCost& cost,
            const Json& sources) {
  Json ops = Json::array();
  for (const autotune::StageCost& stage : cost.stages)
    for (const autotune::OpCost& op : stage.ops)
      ops.push_back({{"op", chain.label(op.op)},
                     {"text", pipeline.ops()[op.op]->text()},
                     {"us", op.cpu_s * kMicro},
                     {"bytes_in", op.in.bytes()},
                     {"bytes_out", op.out.bytes()},
                     {"fused", op.fused},
                     {"source", sources[op.op]["source"]},
                     {"samples", sources[op.op]["samples"]},
                     {"age_s", sources[op.op]["age_s"]}});
  return ops;
}

Json stages_of(const Chain& chain, const autotune::Plan& plan) {
  Json stages = Json::array();
  for (const autotune::Stage& stage : plan.stages) stages.push_back(labels(chain, stage.ops));
  return stages;
}

/// The cheapest way to run the ops in just this order.
Result<BestOrder> cost_of(PlannerInput input, const std::vector<std::size_t>& order) {
  std::vector<std::size_t> place(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) place[order[i]] = i;
  autotune::ChainSpec spec;
  for (const std::size_t op : order) {
    spec.ops.push_back(std::move(input.chain.ops[op]));
    spec.ops.back().depends_on.clear();  // of labels in the declared order, which was checked
  }
  for (const autotune::FusingPair& pair : input.chain.fusing)
    spec.fusing.push_back({place[pair.first], place[pair.second]});
  for (autotune::FusedCost& fused : input.profile.fused)
    for (std::size_t& op : fused.ops) op = place[op];
  ASSIGN(const Chain chain, Chain::create(std::move(spec)));
  ASSIGN(BestOrder best, autotune::best_order(chain, input.profile, {}, {.sense = autotune::Sense::kOff}));
  for (autotune::Stage& stage : best.plan.stages)
    for (std::size_t& op : stage.ops) op = order[op];
  for (autotune::StageCost& stage : best.cost.stages)
    for (autotune::OpCost& op : stage.ops) op.op = order[op.op];
  return best;
}

/// What the order of a loader with reorder="relaxed" would cost, where that is worth while beside `us`.
Result<Json> relaxed_of(const transforms::Pipeline& pipeline, const Chain& chain, const PlannerInput& input,
                        double us) {
  const std::vector<std::size_t> order = fixed_order(pipeline, autotune::Sense::kRelaxed);
  if (order.empty()) return Json(nullptr);
  ASSIGN(const BestOrder relaxed, cost_of(input, order));
  const double its_us = relaxed.cost.cpu_s * kMicro;
  if (its_us > (1 - kWorthwhileSaving) * us) return Json(nullptr);
  return Json{{"order", labels(chain, order)}, {"indices", order}, {"us", its_us}};
}

void add_moves(Json& report, const Chain& chain, const autotune::Alternatives& found) {
  report["moves"] = Json::array();
  for (const autotune::ExchangeSaving& move : found.exchanges)
    report["moves"].push_back({{"op", chain.label(move.exchange.declared_second)},
                               {"passes", chain.label(move.exchange.declared_first)},
                               {"saved_us", move.saved_cpu_s * kMicro},
                               {"at_least", move.at_least}});
  report["fusions"] = Json::array();
  for (const autotune::FusionSaving& fusion : found.fusions)
    report["fusions"].push_back({{"op", chain.label(fusion.op)},
                                 {"with", chain.label(fusion.leader)},
                                 {"saved_us", fusion.saved_cpu_s * kMicro},
                                 {"at_least", fusion.at_least}});
  report["alternatives"] = Json::array();
  for (const autotune::Alternative& other : found.plans)
    report["alternatives"].push_back({{"order", labels(chain, other.plan.order())},
                                      {"us", other.cost.cpu_s * kMicro},
                                      {"loss", other.loss},
                                      {"text", other.text}});
}

Json figure(double value) {
  return value > 0 ? Json(value) : Json(nullptr);
}

Json stream_of(const StreamRates& rates, std::int64_t now_s) {
  const auto age = [&](double value, std::int64_t at_s) {
    return value > 0 ? Json(now_s - at_s) : Json(nullptr);
  };
  return {{"read_latency_s", figure(rates.read_latency_s)},
          {"read_bytes_per_s", figure(rates.read_bytes_per_s)},
          {"read_age_s", age(rates.read_latency_s, rates.reads_at_s)},
          {"demand_per_s", figure(rates.demand_per_s)},
          {"demand_age_s", age(rates.demand_per_s, rates.demand_at_s)}};
}

}  // namespace

Result<std::string> explain_kept(const transforms::Pipeline& pipeline, const std::string& cache_dir,
                                 ReportOptions options) {
  PlanProfile profile;
  if (!cache_dir.empty())
    profile = load_profile(profile_path(cache_dir, pipeline, ProfileMachine::here()), pipeline, unix_s())
                  .value_or(PlanProfile());
  if (options.running.empty()) {
    ASSIGN(options.running, first_order(pipeline, profile));
  }
  return explain_order(pipeline, profile, options);
}

Result<std::string> explain_order(const transforms::Pipeline& pipeline, const PlanProfile& profile,
                                  const ReportOptions& options) {
  const std::int64_t now_s = unix_s();
  const PipelineInfo facts = facts_of(pipeline, profile);
  const Json measured = Json::parse(facts_json(pipeline, profile, now_s));
  const PlannerInput input = planner_input(pipeline, facts);
  ASSIGN(const Chain chain, Chain::create(input.chain));
  autotune::AlternativesOptions search{.order = kExactOrder};
  search.order.sense = options.sense;
  ASSIGN(const autotune::Alternatives found, autotune::alternatives(chain, input.profile, {}, search));
  ASSIGN(const BestOrder as_declared,
         autotune::best_order(chain, input.profile, {}, {.sense = autotune::Sense::kOff}));
  Json report;
  autotune::Plan plan = found.best;
  autotune::PlanCost cost = found.cost;
  if (!options.running.empty() && options.running != found.best.order()) {
    TRY(check_frozen_order(pipeline, options.running, autotune::Sense::kRelaxed));
    ASSIGN(const BestOrder running, cost_of(input, options.running));
    plan = running.plan;
    cost = running.cost;
  }
  report["reorder"] = autotune::sense_name(options.sense);
  report["declared"] = labels(chain, as_declared.plan.order());
  report["order"] = labels(chain, plan.order());
  report["indices"] = plan.order();
  report["declared_us"] = as_declared.cost.cpu_s * kMicro;
  report["us"] = cost.cpu_s * kMicro;
  report["best"] = {{"order", labels(chain, found.best.order())},
                    {"indices", found.best.order()},
                    {"us", found.cost.cpu_s * kMicro}};
  report["proven"] = found.proven;
  report["relaxed"] = nullptr;
  if (options.sense == autotune::Sense::kExact || options.sense == autotune::Sense::kRounding) {
    ASSIGN(report["relaxed"], relaxed_of(pipeline, chain, input, cost.cpu_s * kMicro));
  }
  report["assumed"] = Json::array();
  for (std::size_t op = 0; op < chain.size(); ++op)
    if (facts.cost_of(chain.label(op), chain.op(op).name) == nullptr)
      report["assumed"].push_back(chain.label(op));
  report["declared_ops"] = ops_of(pipeline, chain, as_declared.cost, measured["ops"]);
  report["ops"] = ops_of(pipeline, chain, cost, measured["ops"]);
  report["stages"] = stages_of(chain, plan);
  report["sizes"] = {{"record_bytes", facts.record_bytes},
                     {"height", facts.height},
                     {"width", facts.width},
                     {"pictures", facts.pictures}};
  report["measured"] = measured["orders"];
  add_moves(report, chain, found);
  report["stream"] = stream_of(checked(profile.rates, now_s), now_s);
  const HostInfo host = read_host_info();
  report["parallelism"] = {{"threads", auto_threads(host)}, {"cores", host.allowed_cores}};
  return report.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace carya::loader
