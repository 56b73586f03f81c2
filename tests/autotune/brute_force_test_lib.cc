#include <algorithm>
#include <cmath>
#include <set>
#include <string>

#include "tests/autotune/brute_force.h"

namespace carya::autotune {
namespace {

/// Draws for one instance.
class Dice {
 public:
  explicit Dice(std::mt19937_64& random) : random_(&random) {}
  bool chance(double probability) {
    return std::uniform_real_distribution<double>(0, 1)(*random_) < probability;
  }
  std::size_t below(std::size_t count) {
    return std::uniform_int_distribution<std::size_t>(0, count - 1)(*random_);
  }
  template <std::size_t N>
  double one_of(const double (&values)[N]) {
    return values[below(N)];
  }

 private:
  std::mt19937_64* random_;
};

/// Rules that mostly commute, or, `free`, rules that all do.
SizeRule random_rule(Dice& dice, bool free, bool scales) {
  SizeRule rule;
  switch (dice.below(10)) {
    case 0:
    case 1:
      rule.pixels = free || dice.chance(0.5) ? Change::set(50'176) : Change::set(65'536);
      break;
    case 2:
    case 3:
      rule.pixels = Change::scaled(dice.one_of({0.25, 0.34, 0.5, 2.0}));
      break;
    case 4:
      rule.pixels = {.scale = 1, .add = 1'000};
      break;
    default:
      break;
  }
  if (free && (rule.pixels.scale == 0) == scales) rule.pixels = Change::keep();
  if (free && rule.pixels.add == 1'000) rule.pixels = Change::keep();
  if (dice.chance(0.15)) rule.channels = Change::set(free || dice.chance(0.5) ? 1.0 : 3.0);
  if (!free && dice.chance(0.05)) rule.channels = Change::scaled(2);
  if (dice.chance(0.25)) rule.element_bytes = Change::set(free ? 4.0 : dice.one_of({1.0, 2.0, 4.0}));
  return rule;
}

// Few different numbers, so that ties happen.
FittedCost random_cost(Dice& dice) {
  FittedCost cost;
  if (dice.chance(0.5)) cost.fixed_ns = dice.one_of({1'000.0, 20'000.0});
  if (dice.chance(0.7)) cost.per_element_in_ns = dice.one_of({0.1, 0.5, 3.0});
  if (dice.chance(0.3)) cost.per_byte_in_ns = dice.one_of({0.05, 0.4});
  if (dice.chance(0.2)) cost.per_element_out_ns = dice.one_of({0.2, 1.0});
  if (dice.chance(0.2)) cost.per_byte_out_ns = dice.one_of({0.05, 0.3});
  return cost;
}

/// A stage of ops that fuse, or one that is too short.
std::vector<std::size_t> random_stage(Dice& dice, const ChainSpec& spec) {
  std::vector<std::size_t> stage{dice.below(spec.ops.size())};
  for (std::size_t length = 2 + dice.below(3); stage.size() < length;) {
    std::vector<std::size_t> next;
    for (const FusingPair& pair : spec.fusing)
      if (pair.first == stage.back() && std::find(stage.begin(), stage.end(), pair.second) == stage.end())
        next.push_back(pair.second);
    if (next.empty()) break;
    stage.push_back(next[dice.below(next.size())]);
  }
  return stage;
}

Profile random_profile(Dice& dice, const ChainSpec& spec) {
  Profile profile;
  profile.source = {.pixels = 110'000, .channels = 1, .element_bytes = 1};
  if (dice.chance(0.5))
    profile.estimate = {.boundary_ns = dice.one_of({0.0, 500.0, 30'000.0}),
                        .boundary_ns_per_byte = dice.one_of({0.0, 0.1, 2.0}),
                        .follower_share_min = dice.one_of({0.2, 0.5, 1.0})};
  for (std::size_t stages = dice.below(4); stages > 0; --stages) {
    FusedCost fused{.ops = random_stage(dice, spec), .cost = random_cost(dice)};
    const auto same = [&](const FusedCost& known) { return known.ops == fused.ops; };
    if (fused.ops.size() < 2 || std::any_of(profile.fused.begin(), profile.fused.end(), same)) continue;
    profile.fused.push_back(std::move(fused));
  }
  return profile;
}

bool nearly(double a, double b) {
  return std::abs(a - b) <= 1e-9 * std::max(std::abs(a), std::abs(b));
}

bool sizes_agree(const SizeRule& a, const SizeRule& b) {
  for (const double number : {1.0, 7.5, 4'096.0, 123'456.0}) {
    const Size size{.pixels = number, .channels = number, .element_bytes = number};
    const Size ab = b(a(size)), ba = a(b(size));
    if (!nearly(ab.pixels, ba.pixels) || !nearly(ab.channels, ba.channels) ||
        !nearly(ab.element_bytes, ba.element_bytes))
      return false;
  }
  return true;
}

bool names(const ChainSpec& spec, std::size_t op, std::size_t other) {
  const auto& wanted = spec.ops[op].depends_on;
  return std::find(wanted.begin(), wanted.end(), spec.ops[other].name) != wanted.end();
}

bool may_swap(const ChainSpec& spec, std::size_t a, std::size_t b, Sense sense) {
  if (a > b) std::swap(a, b);
  Commutes declared = Commutes::kNever;
  for (const CommutingPair& pair : spec.commuting)
    if (std::minmax(pair.a, pair.b) == std::minmax(a, b)) declared = pair.commutes;
  const bool wide_enough = (sense == Sense::kExact && declared == Commutes::kExact) ||
                           (sense == Sense::kRounding && declared >= Commutes::kRounding) ||
                           (sense == Sense::kRelaxed && declared != Commutes::kNever);
  if (!wide_enough || spec.ops[a].keep_position || spec.ops[b].keep_position) return false;
  for (const std::size_t barrier : spec.barriers)
    if (a < barrier && barrier <= b) return false;
  return !names(spec, b, a) && !names(spec, a, b) && sizes_agree(spec.ops[a].size, spec.ops[b].size);
}

/// The cost of order[first .. last] as one stage.
double stage_ns(const Instance& instance, const Order& order, std::size_t first, std::size_t last, Size at) {
  const auto& ops = instance.spec.ops;
  const FusionEstimate& estimate = instance.profile.estimate;
  std::vector<Size> sizes{at};
  for (std::size_t i = first; i <= last; ++i) sizes.push_back(ops[order[i]].size(sizes.back()));
  double ns = ops[order[first]].cost.ns(sizes[0], sizes[1]);
  std::size_t measured = 1;
  for (const FusedCost& fused : instance.profile.fused) {
    const std::size_t length = fused.ops.size();
    if (length <= measured || length > last - first + 1) continue;
    const auto begin = order.begin() + static_cast<std::ptrdiff_t>(first);
    if (!std::equal(fused.ops.begin(), fused.ops.end(), begin)) continue;
    measured = length;
    ns = fused.cost.ns(sizes[0], sizes[length]);
  }
  for (std::size_t i = measured; i <= last - first; ++i) {
    const double alone = ops[order[first + i]].cost.ns(sizes[i], sizes[i + 1]);
    const double saved = estimate.boundary_ns + estimate.boundary_ns_per_byte * sizes[i].bytes();
    ns += std::max(alone - saved, alone * estimate.follower_share_min);
  }
  return ns;
}

bool fuses(const ChainSpec& spec, std::size_t first, std::size_t second) {
  return std::any_of(spec.fusing.begin(), spec.fusing.end(),
                     [&](const FusingPair& pair) { return pair.first == first && pair.second == second; });
}

}  // namespace

Instance random_instance(std::mt19937_64& random, std::size_t ops) {
  Dice dice(random);
  Instance instance;
  ChainSpec& spec = instance.spec;
  const bool free = dice.chance(0.4);  // nothing stands in the way of any order
  const bool scales = dice.chance(0.5);
  for (std::size_t i = 0; i < ops; ++i) {
    OpModel op{.name = "op" + std::to_string(i)};
    op.keep_position = !free && dice.chance(0.06);
    if (!free && i > 0 && dice.chance(0.12)) op.depends_on = {spec.ops[dice.below(i)].name};
    op.size = random_rule(dice, free, scales);
    op.cost = random_cost(dice);
    spec.ops.push_back(std::move(op));
  }
  const double commuting = free ? 1 : dice.one_of({0.3, 0.7, 1.0});
  const double fusing = dice.one_of({0.0, 0.3, 0.8});
  const Commutes kinds[] = {Commutes::kExact, Commutes::kExact, Commutes::kRounding, Commutes::kRelaxed};
  for (std::size_t a = 0; a < ops; ++a) {
    for (std::size_t b = 0; b < ops; ++b) {
      if (a < b && dice.chance(commuting)) spec.commuting.push_back({a, b, kinds[dice.below(free ? 2 : 4)]});
      if (a != b && dice.chance(fusing)) spec.fusing.push_back({a, b});
    }
  }
  if (!free && dice.chance(0.2)) spec.barriers.push_back(dice.below(ops + 1));
  instance.profile = random_profile(dice, spec);
  return instance;
}

std::vector<Order> reachable_orders(const ChainSpec& spec, Sense sense) {
  Order declared(spec.ops.size());
  for (std::size_t i = 0; i < declared.size(); ++i) declared[i] = i;
  std::vector<Order> found{declared};
  std::set<Order> known{declared};
  for (std::size_t at = 0; at < found.size(); ++at) {
    for (std::size_t i = 0; i + 1 < declared.size(); ++i) {
      if (!may_swap(spec, found[at][i], found[at][i + 1], sense)) continue;
      Order next = found[at];
      std::swap(next[i], next[i + 1]);
      if (known.insert(next).second) found.push_back(std::move(next));
    }
  }
  return found;
}

double cheapest_fusion_ns(const Instance& instance, const Order& order, bool fuse, OpSet apart) {
  std::vector<Size> sizes{instance.profile.source};
  for (const std::size_t op : order) sizes.push_back(instance.spec.ops[op].size(sizes.back()));
  std::vector<double> least(order.size() + 1, std::numeric_limits<double>::infinity());  // of the first i ops
  least[0] = 0;
  for (std::size_t first = 0; first < order.size(); ++first) {
    for (std::size_t last = first; last < order.size(); ++last) {
      if (last > first && (!fuse || (apart & op_bit(order[last])) != 0 ||
                           !fuses(instance.spec, order[last - 1], order[last])))
        break;
      least[last + 1] =
          std::min(least[last + 1], least[first] + stage_ns(instance, order, first, last, sizes[first]));
    }
  }
  return least.back();
}

double plan_ns(const Instance& instance, const Plan& plan) {
  Size at = instance.profile.source;
  double ns = 0;
  for (const Stage& stage : plan.stages) {
    ns += stage_ns(instance, stage.ops, 0, stage.ops.size() - 1, at);
    for (const std::size_t op : stage.ops) at = instance.spec.ops[op].size(at);
  }
  return ns;
}

}  // namespace carya::autotune
