#include "loader/plan/planner_input.h"

#include <algorithm>
#include <optional>
#include <span>
#include <utility>

#include "autotune/order/fit.h"
#include "transforms/ops/encoded/decode_raw.h"
#include "transforms/pipeline/source.h"

namespace carya::loader {
namespace {

using autotune::Change;
using autotune::FittedCost;
using transforms::FieldState;
using transforms::Op;
using transforms::OpKind;

/// The field whose size stands for the sample's.
std::size_t main_field(const std::vector<FieldState>& fields) {
  const auto found = std::ranges::find_if(
      fields, [](const FieldState& field) { return field.spec.name == transforms::kMainField; });
  return found == fields.end() ? 0 : static_cast<std::size_t>(found - fields.begin());
}

autotune::Size size_of(const FieldState& field, double record_bytes) {
  if (field.form == FieldState::Form::kEncoded) return {.pixels = record_bytes};
  double elements = 1;
  for (const std::int64_t side : field.spec.shape)
    elements *= static_cast<double>(std::max<std::int64_t>(side, 1));
  double channels = 1;
  if (field.spec.shape.size() == 3)
    channels = static_cast<double>(field.spec.shape[field.layout == transforms::Layout::kChw ? 0 : 2]);
  return {elements / channels, channels, static_cast<double>(dtype_bytes(field.spec.dtype))};
}

Change fitted(double before, double after, double large_before, double large_after) {
  if (before == after && large_before == large_after) return Change::keep();
  if (after == large_after || before == large_before) return Change::set(after);
  const double scale = (large_after - after) / (large_before - before);
  const double add = after - scale * before;
  if (scale < 0 || add < 0) return Change::scaled(after / before);
  return {scale, add};
}

Change fixed(double before, double after) {
  return before == after ? Change::keep() : Change::set(after);
}

// A chain's states with images of a mean size, and with ones of twice its sides: the difference shows what an
// op makes of a size.
class Sizes {
 public:
  Sizes(const transforms::Pipeline& pipeline, const PipelineInfo& facts)
      : facts_(facts),
        mean_(transforms::initial_states(pipeline.fields())),
        large_(mean_),
        field_(main_field(mean_)) {}

  autotune::Size now() const { return size_of(mean_[field_], facts_.record_bytes); }

  autotune::SizeRule pass(const Op& op) {
    const autotune::Size before = now();
    const autotune::Size large_before = size_of(large_[field_], facts_.record_bytes);
    advance(op, mean_, 1);
    advance(op, large_, 2);
    const autotune::Size after = now();
    const autotune::Size large_after = size_of(large_[field_], facts_.record_bytes);
    return {.pixels = op.traits().kind == OpKind::kDecode
                          ? fixed(before.pixels, after.pixels)
                          : fitted(before.pixels, after.pixels, large_before.pixels, large_after.pixels),
            .channels = fixed(before.channels, after.channels),
            .element_bytes = fixed(before.element_bytes, after.element_bytes)};
  }

 private:
  void advance(const Op& op, std::vector<FieldState>& states, std::int64_t times) const {
    std::vector<FieldState> after = states;
    std::vector<std::size_t> taken;
    // What the mean picture is too small for changes nothing here; each sample will say so itself.
    if (!op.infer(after, taken)) return;
    for (FieldState& field : after) {
      if (field.form != FieldState::Form::kImage || field.spec.shape.size() != 3) continue;
      if (field.spec.shape[0] < 0) field.spec.shape[0] = facts_.height * times;
      if (field.spec.shape[1] < 0) field.spec.shape[1] = facts_.width * times;
    }
    states = std::move(after);
  }

  const PipelineInfo& facts_;
  std::vector<FieldState> mean_;
  std::vector<FieldState> large_;
  std::size_t field_;
};

autotune::Commutes translated(transforms::Commutes commutes) {
  switch (commutes) {
    case transforms::Commutes::kNever:
      return autotune::Commutes::kNever;
    case transforms::Commutes::kExact:
      return autotune::Commutes::kExact;
    case transforms::Commutes::kRounding:
      return autotune::Commutes::kRounding;
    case transforms::Commutes::kRelaxed:
      return autotune::Commutes::kRelaxed;
  }
  return autotune::Commutes::kNever;
}

// Decodes with the windows behind them, in every order: all the compressed bytes are read, and only the
// pixels that are left are made.
void add_narrow_decodes(PlannerInput& input, std::vector<std::size_t> stage,
                        const std::vector<std::size_t>& notes, std::size_t notes_max) {
  if (stage.size() > notes_max) return;
  for (const std::size_t note : notes) {
    if (std::ranges::find(stage, note) != stage.end()) continue;
    std::vector<std::size_t> longer = stage;
    longer.push_back(note);
    FittedCost cost = input.chain.ops[stage.front()].cost;
    for (const std::size_t noted : std::span(longer).subspan(1)) {
      cost.fixed_ns += input.chain.ops[noted].cost.fixed_ns;
      cost.per_element_out_ns += input.chain.ops[noted].cost.per_byte_in_ns;
    }
    input.profile.fused.push_back({longer, cost});
    add_narrow_decodes(input, std::move(longer), notes, notes_max);
  }
}

// Warps, and behind them colors of single pixels, wait for the crop behind them and make what it reads: in
// every such order, before each crop.
class NarrowWaiting {
 public:
  NarrowWaiting(PlannerInput& input, const transforms::Pipeline& pipeline) : input_(input) {
    for (std::size_t i = 0; i < pipeline.ops().size(); ++i) {
      const transforms::OpTraits& traits = pipeline.ops()[i]->traits();
      const autotune::SizeRule& size = input.chain.ops[i].size;
      const bool keeps = size.pixels.keeps() && size.channels.keeps() && size.element_bytes.keeps();
      const bool warps = traits.kind == OpKind::kGeometric && !traits.waits;
      const bool colors = traits.kind == OpKind::kColor && traits.pixelwise;
      if (keeps && (warps || colors)) waiting_.push_back({i, warps});
      if (traits.is_window) crops_.push_back({i, traits.waits, traits.reads});
    }
  }

  void add() {
    if (crops_.empty()) return;
    for (const Waiting& first : waiting_) {
      for (const Crop& crop : crops_) input_.chain.fusing.push_back({first.op, crop.op});
      for (const Waiting& second : waiting_)
        if (may_follow(first, second)) input_.chain.fusing.push_back({first.op, second.op});
    }
    std::vector<Waiting> none;
    for (const Crop& crop : crops_) add(crop, none, {});
  }

 private:
  struct Waiting {
    std::size_t op;
    bool warps;
    bool operator==(const Waiting&) const = default;
  };
  struct Crop {
    std::size_t op;
    bool waits;    // what it leaves is what it reads
    double reads;  // of what comes in, else
  };

  static bool may_follow(const Waiting& first, const Waiting& second) {
    return first != second && (first.warps || !second.warps);
  }

  /// `per_pixel`: of `line` together, by its own pixels.
  void add(const Crop& crop, std::vector<Waiting>& line, const FittedCost& per_pixel) {
    if (!line.empty()) add_stage(crop, line, per_pixel);
    // With the narrow decodes no more than the planner can look at from everywhere.
    const std::size_t length_max = waiting_.size() <= 4 ? 3 : waiting_.size() <= 8 ? 2 : 1;
    if (line.size() == length_max) return;
    for (const Waiting& next : waiting_) {
      if (std::ranges::find(line, next) != line.end()) continue;
      if (!line.empty() && !may_follow(line.back(), next)) continue;
      const FittedCost& own = input_.chain.ops[next.op].cost;
      line.push_back(next);
      add(crop, line,
          {.fixed_ns = per_pixel.fixed_ns + own.fixed_ns,
           .per_byte_in_ns = per_pixel.per_byte_in_ns + own.per_byte_in_ns + own.per_byte_out_ns,
           .per_element_in_ns =
               per_pixel.per_element_in_ns + own.per_element_in_ns + own.per_element_out_ns});
      line.pop_back();
    }
  }

  void add_stage(const Crop& crop, const std::vector<Waiting>& line, const FittedCost& per_pixel) {
    std::vector<std::size_t> stage;
    for (const Waiting& one : line) stage.push_back(one.op);
    stage.push_back(crop.op);
    FittedCost cost = input_.chain.ops[crop.op].cost;
    const double in = crop.waits ? 0 : crop.reads, out = crop.waits ? 1 : 0;
    cost.fixed_ns += per_pixel.fixed_ns;
    cost.per_byte_in_ns += in * per_pixel.per_byte_in_ns;
    cost.per_element_in_ns += in * per_pixel.per_element_in_ns;
    cost.per_byte_out_ns += out * per_pixel.per_byte_in_ns;
    cost.per_element_out_ns += out * per_pixel.per_element_in_ns;
    input_.profile.fused.push_back({std::move(stage), cost});
  }

  PlannerInput& input_;
  std::vector<Waiting> waiting_;
  std::vector<Crop> crops_;
};

}  // namespace

const FittedCost* PipelineInfo::cost_of(const std::string& label, const std::string& name) const {
  auto found = costs.find(label);
  if (found == costs.end()) found = costs.find(name);
  return found == costs.end() ? nullptr : &found->second;
}

FittedCost assumed_cost(const Op& op) {
  const transforms::AssumedCost& cost = op.traits().assumed_cost;
  return {.fixed_ns = cost.fixed_ns,
          .per_byte_in_ns = cost.per_byte_in_ns,
          .per_byte_out_ns = cost.per_byte_out_ns,
          .per_element_out_ns = cost.per_element_out_ns};
}

PlannerInput planner_input(const transforms::Pipeline& pipeline, const PipelineInfo& facts) {
  PlannerInput input;
  Sizes sizes(pipeline, facts);
  input.profile.source = sizes.now();
  const auto& ops = pipeline.ops();
  const std::vector<std::string> labels = transforms::op_labels(ops);
  input.chain.barriers = pipeline.barriers();
  std::vector<std::size_t> notes;
  for (std::size_t i = 0; i < ops.size(); ++i) {
    const Op& op = *ops[i];
    const OpKind kind = op.traits().kind;
    const FittedCost* const measured = facts.cost_of(labels[i], op.name());
    autotune::OpModel model{.name = op.name(),
                            .random = op.traits().random,
                            .per_pixel = kind == OpKind::kColor || kind == OpKind::kPoint,
                            .geometric = kind == OpKind::kGeometric,
                            .keep_position = pipeline.order_hints()[i].keep_position};
    for (const std::size_t before : pipeline.order_hints()[i].depends_on)
      model.depends_on.push_back(labels[before]);
    model.size = sizes.pass(op);
    model.cost = measured ? *measured : autotune::scaled(assumed_cost(op), facts.machine);
    input.chain.ops.push_back(std::move(model));
    if (op.traits().waits) notes.push_back(i);
    for (std::size_t before = 0; before < i; ++before) {
      const autotune::Commutes commute = translated(commutes(*ops[before], op));
      if (commute != autotune::Commutes::kNever) input.chain.commuting.push_back({before, i, commute});
    }
  }
  for (std::size_t first = 0; first < ops.size(); ++first)
    for (const std::size_t second : notes)
      if (first != second && (decodes_picture(*ops[first]) || ops[first]->traits().waits))
        input.chain.fusing.push_back({first, second});
  // At most 820 stages: the planner looks at them from everywhere.
  const std::size_t notes_max = notes.size() <= 10 ? 3 : notes.size() <= 28 ? 2 : 1;
  for (std::size_t i = 0; i < ops.size(); ++i)
    if (decodes_picture(*ops[i])) add_narrow_decodes(input, {i}, notes, notes_max);
  NarrowWaiting(input, pipeline).add();
  return input;
}

Result<std::vector<std::size_t>> cheapest_exact_order(const transforms::Pipeline& pipeline,
                                                      const PipelineInfo& facts) {
  PlannerInput input = planner_input(pipeline, facts);
  ASSIGN(const autotune::Chain chain, autotune::Chain::create(std::move(input.chain)));
  ASSIGN(const autotune::BestOrder best, autotune::best_order(chain, input.profile, {}, kExactOrder));
  std::vector<std::size_t> order = best.plan.order();
  if (std::ranges::is_sorted(order)) order.clear();
  return order;
}

PlannerInput worthwhile_input(const transforms::Pipeline& pipeline, autotune::Sense sense) {
  constexpr double kWorth = 1.01;
  constexpr int kTriesMax = 100;
  PlannerInput input = planner_input(pipeline, {});
  autotune::OrderOptions options = kExactOrder;
  options.sense = sense;
  const auto solve = [&](const autotune::ChainSpec& spec) -> Result<autotune::BestOrder> {
    ASSIGN(const autotune::Chain chain, autotune::Chain::create(spec));
    return autotune::best_order(chain, input.profile, {}, options);
  };
  auto best = solve(input.chain);
  if (!best) return input;
  const double least = best->cost.cpu_s;
  int tries = 0;
  for (std::size_t next = 0; next < best->exchanges.size() && tries < kTriesMax; ++tries) {
    const autotune::Exchange exchange = best->exchanges[next];
    ++next;
    if (exchange.commutes == autotune::Commutes::kExact) continue;
    autotune::ChainSpec without = input.chain;
    std::erase_if(without.commuting, [&](const autotune::CommutingPair& pair) {
      return pair.a == exchange.declared_first && pair.b == exchange.declared_second;
    });
    auto other = solve(without);
    if (!other || other->cost.cpu_s > least * kWorth) continue;
    input.chain = std::move(without);
    best = std::move(other);
    next = 0;
  }
  return input;
}

std::vector<std::size_t> fixed_order(const transforms::Pipeline& pipeline, autotune::Sense sense) {
  if (sense <= autotune::Sense::kExact) return {};
  PlannerInput input = worthwhile_input(pipeline, sense);
  const auto chain = autotune::Chain::create(std::move(input.chain));
  if (!chain) return {};
  autotune::OrderOptions options = kExactOrder;
  options.sense = sense;
  const auto best = autotune::best_order(*chain, input.profile, {}, options);
  if (!best || autotune::check_order(*chain, best->plan, autotune::Sense::kExact)) return {};
  return best->plan.order();
}

}  // namespace carya::loader
