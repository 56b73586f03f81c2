#include "loader/plan/plan_profile.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "autotune/order/fit.h"
#include "base/clock.h"
#include "transforms/op/order_hints.h"

namespace carya::loader {
namespace {

using Json = nlohmann::json;
using autotune::FittedCost;
using autotune::Size;
using transforms::OpProfile;

constexpr double kNsPerUs = 1e3;

double per_timed(std::uint64_t sum, const OpProfile& stage) {
  return stage.timed_samples == 0 ? 0 : static_cast<double>(sum) / static_cast<double>(stage.timed_samples);
}

bool same_stages(std::span<const OpProfile> a, std::span<const OpProfile> b) {
  return std::ranges::equal(
      a, b, [](const OpProfile& x, const OpProfile& y) { return x.name == y.name && x.ops == y.ops; });
}

void shrink(OpProfile& stage, double share) {
  for (std::uint64_t* sum : {&stage.samples, &stage.timed_samples, &stage.cpu_ns, &stage.bytes_in,
                             &stage.bytes_out, &stage.pictures, &stage.height, &stage.width})
    *sum = static_cast<std::uint64_t>(static_cast<double>(*sum) * share);
}

void set_sizes(PipelineInfo& facts, const PlanProfile& profile) {
  OpProfile all;
  for (const OrderProfile& order : profile.orders)
    for (const OpProfile& stage : order.stages)
      if (stage.pictures > 0) add_to(all, stage);
  const std::uint64_t count = all.pictures;
  if (count == 0 || all.bytes_in < count || all.height < count || all.width < count) return;
  facts.pictures = count;
  facts.record_bytes = static_cast<double>(all.bytes_in) / static_cast<double>(count);
  facts.height = static_cast<std::int64_t>(all.height / count);
  facts.width = static_cast<std::int64_t>(all.width / count);
}

/// What a sum can be at most: numbers of which a double holds each, and a thousand add up.
constexpr std::uint64_t kSumMax = std::uint64_t{1} << 53;

bool can_be(const OpProfile& stage, std::size_t ops) {
  const std::uint64_t sums[] = {stage.samples,   stage.timed_samples, stage.cpu_ns, stage.bytes_in,
                                stage.bytes_out, stage.pictures,      stage.height, stage.width};
  return stage.ops.size() <= ops &&
         std::ranges::all_of(stage.ops, [&](std::uint32_t op) { return op < ops; }) &&
         std::ranges::all_of(sums, [](std::uint64_t sum) { return sum <= kSumMax; });
}

bool is_order(std::span<const std::size_t> order, std::size_t ops) {
  std::vector<bool> seen(ops);
  for (const std::size_t op : order) {
    if (op >= ops || seen[op]) return false;
    seen[op] = true;
  }
  return order.size() == ops;
}

bool can_be(const OverflowProfile& overflow, std::size_t ops) {
  constexpr double kSamplesMax = 1e9;
  return is_order(overflow.order, ops) && autotune::check(overflow.run) && overflow.samples_away >= 0 &&
         overflow.samples_away <= kSamplesMax;
}

bool can_be(const OrderProfile& order, std::size_t ops) {
  return is_order(order.order, ops) && order.stages.size() <= 2 * ops + 3 &&
         std::ranges::all_of(order.stages, [&](const OpProfile& stage) { return can_be(stage, ops); });
}

// Stages with an op in common (a group's, a view's) are one: what the op took is the sum.
std::vector<OpProfile> stages_apart(std::span<const OpProfile> stages) {
  std::vector<OpProfile> apart;
  for (OpProfile stage : stages) {
    for (auto other = apart.begin(); other != apart.end();) {
      if (std::ranges::find_first_of(other->ops, stage.ops) == other->ops.end()) {
        ++other;
        continue;
      }
      for (const std::uint32_t op : stage.ops)
        if (std::ranges::find(other->ops, op) == other->ops.end()) other->ops.push_back(op);
      other->cpu_ns += stage.cpu_ns;
      other->bytes_out = stage.bytes_out;
      stage = std::move(*other);
      other = apart.erase(other);
    }
    apart.push_back(std::move(stage));
  }
  return apart;
}

/// `like`, with as many bytes.
Size sized(const Size& like, double bytes) {
  Size size = like;
  size.pixels = bytes / (like.channels * like.element_bytes);
  return size;
}

// What the stage as a whole is assumed to cost; null: no more is known than of its ops.
const FittedCost* fused_cost(const PlannerInput& input, const OpProfile& stage) {
  const auto found = std::ranges::find_if(input.profile.fused, [&](const autotune::FusedCost& fused) {
    return std::ranges::equal(fused.ops, stage.ops);
  });
  return found == input.profile.fused.end() ? nullptr : &found->cost;
}

// What the stage's ops should have taken at the sizes that were measured.
autotune::MeasuredStage measured_stage(const PlannerInput& input, const OpProfile& stage,
                                       std::span<const Size> predicted) {
  const autotune::ChainSpec& chain = input.chain;
  autotune::MeasuredStage measured{.ns = per_timed(stage.cpu_ns, stage),
                                   .samples = static_cast<double>(stage.timed_samples)};
  if (stage.ops.empty()) return measured;
  Size in = sized(predicted[stage.ops.front()], per_timed(stage.bytes_in, stage));
  if (const FittedCost* whole = fused_cost(input, stage)) {  // a decode that makes what its windows leave
    const Size out = sized(predicted[stage.ops.back()], per_timed(stage.bytes_out, stage));
    measured.parts.push_back({stage.ops.front(), whole->ns(in, out)});
    for (const std::uint32_t op : std::span(stage.ops).subspan(1))
      measured.parts.push_back({op, chain.ops[op].cost.fixed_ns});
    return measured;
  }
  if (const autotune::OpModel& op = chain.ops[stage.ops.front()]; op.per_pixel && stage.ops.size() == 1) {
    // It made what the crop behind it reads.
    const double whole = op.size(in).bytes();
    in.pixels *= whole > 0 ? std::min(1.0, per_timed(stage.bytes_out, stage) / whole) : 1;
  }
  for (const std::uint32_t op : stage.ops) {
    Size out = chain.ops[op].size(in);
    if (op == stage.ops.back()) out = sized(out, per_timed(stage.bytes_out, stage));
    measured.parts.push_back({op, chain.ops[op].cost.ns(in, out)});
    in = out;
  }
  return measured;
}

std::vector<autotune::MeasuredStage> measured_stages(const PlannerInput& input, const PlanProfile& profile) {
  std::vector<autotune::MeasuredStage> measured;
  std::vector<Size> predicted(input.chain.ops.size());  // before each op
  for (const OrderProfile& order : profile.orders) {
    Size at = input.profile.source;
    for (const std::size_t op : order.order) {
      predicted[op] = at;
      at = input.chain.ops[op].size(at);
    }
    for (const OpProfile& stage : stages_apart(order.stages))
      measured.push_back(measured_stage(input, stage, predicted));
  }
  return measured;
}

void set_source(PipelineInfo& facts, const std::string& label, const autotune::OpFit& fit, std::size_t op,
                const PlanProfile& profile) {
  CostSource& source = facts.sources[label];
  source.samples = fit.samples;
  source.alone = fit.alone_samples > 0;
  for (const OrderProfile& order : profile.orders)
    for (const OpProfile& stage : order.stages)
      if (stage.timed_samples > 0 && std::ranges::find(stage.ops, op) != stage.ops.end())
        source.measured_at_s = std::max(source.measured_at_s, order.measured_at_s);
}

Json op_json(const std::string& label, const autotune::FittedCost& cost, const CostSource* source,
             std::int64_t now_s) {
  Json op{{"op", label},
          {"source", source == nullptr ? "assumed"
                     : source->alone   ? "measured"
                                       : "shared"},
          {"samples", source ? source->samples : 0},
          {"age_s", nullptr},
          {"fixed_ns", cost.fixed_ns},
          {"per_byte_in_ns", cost.per_byte_in_ns},
          {"per_element_in_ns", cost.per_element_in_ns},
          {"per_byte_out_ns", cost.per_byte_out_ns},
          {"per_element_out_ns", cost.per_element_out_ns}};
  if (source) op["age_s"] = std::max<std::int64_t>(0, now_s - source->measured_at_s);
  return op;
}

Json order_json(const std::vector<std::string>& labels, const OrderProfile& profile, std::int64_t now_s) {
  const auto names = [&](const auto& ops) {
    Json list = Json::array();
    for (const auto op : ops) list.push_back(labels[op]);
    return list;
  };
  Json stages = Json::array();
  for (const OpProfile& stage : profile.stages)
    stages.push_back({{"name", stage.name},
                      {"ops", names(stage.ops)},
                      {"us", per_timed(stage.cpu_ns, stage) / kNsPerUs},
                      {"bytes_in", per_timed(stage.bytes_in, stage)},
                      {"bytes_out", per_timed(stage.bytes_out, stage)},
                      {"samples", stage.timed_samples}});
  return {{"order", names(profile.order)},
          {"us", profile.cpu_ns() / kNsPerUs},
          {"samples", profile.timed_samples()},
          {"age_s", std::max<std::int64_t>(0, now_s - profile.measured_at_s)},
          {"stages", std::move(stages)}};
}

}  // namespace

void add_to(OpProfile& total, const OpProfile& more) {
  total.samples += more.samples;
  total.timed_samples += more.timed_samples;
  total.cpu_ns += more.cpu_ns;
  total.bytes_in += more.bytes_in;
  total.bytes_out += more.bytes_out;
  total.pictures += more.pictures;
  total.height += more.height;
  total.width += more.width;
}

double OrderProfile::cpu_ns() const {
  double sum = 0;
  for (const OpProfile& stage : stages) sum += per_timed(stage.cpu_ns, stage);
  return sum;
}

const OrderProfile* PlanProfile::find(std::span<const std::size_t> order) const {
  const auto found = std::ranges::find_if(
      orders, [&](const OrderProfile& known) { return std::ranges::equal(known.order, order); });
  return found == orders.end() ? nullptr : &*found;
}

void PlanProfile::add(std::span<const std::size_t> order, std::span<const OpProfile> stages,
                      std::int64_t now_s) {
  if (std::ranges::none_of(stages, [](const OpProfile& stage) { return stage.timed_samples > 0; })) return;
  auto known = std::ranges::find_if(
      orders, [&](const OrderProfile& other) { return std::ranges::equal(other.order, order); });
  if (known == orders.end())
    known = orders.insert(known, {.order = {order.begin(), order.end()}});
  else
    known = std::rotate(known, known + 1, orders.end());
  if (same_stages(known->stages, stages)) {
    for (std::size_t i = 0; i < stages.size(); ++i) add_to(known->stages[i], stages[i]);
  } else {
    known->stages.assign(stages.begin(), stages.end());
  }
  known->measured_at_s = now_s;
  if (orders.size() > kOrdersKept) orders.erase(orders.begin());
}

void PlanProfile::keep_samples(std::uint64_t timed_max) {
  for (OrderProfile& order : orders) {
    const std::uint64_t timed = order.timed_samples();
    if (timed <= timed_max) continue;
    const double share = static_cast<double>(timed_max) / static_cast<double>(timed);
    for (OpProfile& stage : order.stages) shrink(stage, share);
  }
}

void PlanProfile::add(std::span<const StorageProfile> newer) {
  for (const StorageProfile& storage : newer) {
    std::erase_if(storages, [&](const StorageProfile& known) { return known.folder == storage.folder; });
    storages.push_back(storage);
  }
  if (storages.size() > kStoragesKept)
    storages.erase(storages.begin(), storages.end() - static_cast<std::ptrdiff_t>(kStoragesKept));
}

PlanProfile checked(const transforms::Pipeline& pipeline, const PlanProfile& profile) {
  PlanProfile good{.orders = {}, .rates = checked(profile.rates, unix_s())};
  if (profile.overflow && can_be(*profile.overflow, pipeline.ops().size())) good.overflow = profile.overflow;
  for (const StorageProfile& storage : profile.storages)
    if (storage.folder.size() <= kFolderBytesMax && is_possible(storage.rates))
      good.add(std::span(&storage, 1));
  for (const OrderProfile& order : profile.orders)
    if (can_be(order, pipeline.ops().size()) && good.orders.size() < kOrdersKept && !good.find(order.order))
      good.orders.push_back(order);
  return good;
}

PipelineInfo facts_of(const transforms::Pipeline& pipeline, const PlanProfile& given) {
  const PlanProfile profile = checked(pipeline, given);
  PipelineInfo facts;
  set_sizes(facts, profile);
  const PlannerInput assumed = planner_input(pipeline, facts);
  const autotune::Fit fit = autotune::fit_costs(pipeline.ops().size(), measured_stages(assumed, profile));
  facts.machine = fit.machine;
  const std::vector<std::string> labels = transforms::op_labels(pipeline.ops());
  for (std::size_t op = 0; op < labels.size(); ++op) {
    if (fit.ops[op].samples == 0) continue;
    facts.costs[labels[op]] = autotune::scaled(assumed.chain.ops[op].cost, fit.ops[op].factor);
    set_source(facts, labels[op], fit.ops[op], op, profile);
  }
  return facts;
}

std::string facts_json(const transforms::Pipeline& pipeline, const PlanProfile& given, std::int64_t now_s) {
  const PlanProfile profile = checked(pipeline, given);
  const PipelineInfo facts = facts_of(pipeline, profile);
  const PlannerInput input = planner_input(pipeline, facts);
  const std::vector<std::string> labels = transforms::op_labels(pipeline.ops());
  Json ops = Json::array();
  for (std::size_t op = 0; op < labels.size(); ++op) {
    const auto source = facts.sources.find(labels[op]);
    ops.push_back(op_json(labels[op], input.chain.ops[op].cost,
                          source == facts.sources.end() ? nullptr : &source->second, now_s));
  }
  Json orders = Json::array();
  for (const OrderProfile& order : profile.orders) orders.push_back(order_json(labels, order, now_s));
  const Json all{{"record_bytes", facts.record_bytes}, {"height", facts.height},   {"width", facts.width},
                 {"pictures", facts.pictures},         {"machine", facts.machine}, {"ops", std::move(ops)},
                 {"orders", std::move(orders)}};
  return all.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace carya::loader
