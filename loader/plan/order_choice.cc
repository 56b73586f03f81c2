#include "loader/plan/order_choice.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <utility>

namespace carya::loader {
namespace {

using autotune::Chain;
using autotune::StageModel;
using Order = std::vector<std::size_t>;

constexpr double kUsPerS = 1e6;
constexpr double kUsPerNs = 1e-3;
/// Turns to one order in the life of a stream.
constexpr std::ptrdiff_t kTurnsMax = 2;
/// Standard deviation of one photo's time as a share of the mean. Measured: ImageNet photos, 0.5 to 0.6.
constexpr double kSpread = 0.6;

Result<double> predicted_us(const StageModel& model, std::span<const std::size_t> order) {
  ASSIGN(const autotune::Plan plan, fused_plan(model, order));
  ASSIGN(const autotune::PlanCost cost, autotune::cost(model, plan, {}));
  return cost.cpu_s * kUsPerS;
}

bool trusted(const OrderProfile* profile) {
  return profile != nullptr && profile->timed_samples() >= kTrustedSamples && profile->cpu_ns() > 0;
}

bool worthwhile(double before, double after) {
  return after < (1 - kWorthwhileSaving) * before;
}

// The means of two orders differ by more than two standard errors beyond what is worthwhile.
bool measured_cheaper(const OrderProfile& now, const OrderProfile& other) {
  const double error = kSpread * std::sqrt(1 / static_cast<double>(now.timed_samples()) +
                                           1 / static_cast<double>(other.timed_samples()));
  return other.cpu_ns() < (1 - kWorthwhileSaving - 2 * error) * now.cpu_ns();
}

bool legal(const Chain& chain, const Order& order) {
  return autotune::check_order(chain, autotune::plan_of(order), autotune::Sense::kExact).has_value();
}

// The ops that passed others, by name.
std::string moves_text(const Chain& chain, std::span<const std::size_t> before, const Order& after) {
  const auto place = [](std::span<const std::size_t> order, std::size_t op) {
    return std::ranges::find(order, op) - order.begin();
  };
  std::string text;
  for (std::size_t later = 1; later < after.size(); ++later)
    for (std::size_t first = 0; first < later; ++first)
      if (place(before, after[first]) > place(before, after[later]))
        text +=
            (text.empty() ? "" : ", ") + chain.label(after[first]) + " before " + chain.label(after[later]);
  return text;
}

PlanChoice make_choice(const Chain& chain, std::span<const std::size_t> before, Order after, double us_before,
                       double us_after, bool measured, std::uint64_t samples) {
  char numbers[160];
  std::snprintf(numbers, sizeof numbers, ": %.1f -> %.1f us %s (%llu timed samples)", us_before, us_after,
                measured ? "measured" : "predicted", static_cast<unsigned long long>(samples));
  std::string reason = moves_text(chain, before, after) + numbers;
  return {std::move(after), us_before, us_after, measured, std::move(reason)};
}

std::ptrdiff_t turns(const TriedOrders& tried, const Order& order) {
  return std::ranges::count(tried.begun, order);
}

// The cheapest order that was measured, of those that may still be turned to.
const OrderProfile* cheapest_measured(const Chain& chain, const PlanProfile& profile,
                                      const TriedOrders& tried) {
  const OrderProfile* cheapest = nullptr;
  for (const OrderProfile& order : profile.orders)
    if (trusted(&order) && (!cheapest || order.cpu_ns() < cheapest->cpu_ns()) &&
        turns(tried, order.order) < kTurnsMax && legal(chain, order.order))
      cheapest = &order;
  return cheapest;
}

}  // namespace

Result<autotune::Plan> fused_plan(const StageModel& model, std::span<const std::size_t> order) {
  autotune::Plan plan = autotune::plan_of(order);
  ASSIGN(autotune::PlanCost least, autotune::cost(model, plan, {}));
  for (std::size_t stage = 1; stage < plan.stages.size();) {
    autotune::Plan joined = plan;
    std::vector<std::size_t>& before = joined.stages[stage - 1].ops;
    const std::size_t op = joined.stages[stage].ops.front();
    const bool fuses = (model.fuses_with(before.back()) & autotune::op_bit(op)) != 0;
    before.push_back(op);
    joined.stages.erase(joined.stages.begin() + static_cast<std::ptrdiff_t>(stage));
    if (fuses) {
      ASSIGN(autotune::PlanCost cost, autotune::cost(model, joined, {}));
      if (cost.cpu_s <= least.cpu_s) {
        plan = std::move(joined);
        least = std::move(cost);
        continue;
      }
    }
    ++stage;
  }
  return plan;
}

Result<std::optional<PlanChoice>> better_order(const transforms::Pipeline& pipeline, const PlanProfile& given,
                                               std::span<const std::size_t> present,
                                               const TriedOrders& tried) {
  const PlanProfile profile = checked(pipeline, given);
  PlannerInput input = planner_input(pipeline, facts_of(pipeline, profile));
  ASSIGN(const Chain chain, Chain::create(std::move(input.chain)));
  const OrderProfile* const now = profile.find(present);
  const std::uint64_t samples = now ? now->timed_samples() : 0;
  if (const OrderProfile* other = cheapest_measured(chain, profile, tried);
      other && other != now && trusted(now) && measured_cheaper(*now, *other))
    return make_choice(chain, present, other->order, now->cpu_ns() * kUsPerNs, other->cpu_ns() * kUsPerNs,
                       true, samples);
  ASSIGN(const autotune::BestOrder best, autotune::best_order(chain, input.profile, {}, kExactOrder));
  Order order = best.plan.order();
  if (std::ranges::equal(order, present) || turns(tried, order) > 0) return std::nullopt;
  if (const OrderProfile* known = profile.find(order);
      trusted(known) && trusted(now) && known->cpu_ns() >= now->cpu_ns())
    return std::nullopt;  // the model is wrong there
  ASSIGN(const StageModel model, StageModel::create(chain, input.profile));
  ASSIGN(const double us_before, predicted_us(model, present));
  const double us_after = best.cost.cpu_s * kUsPerS;
  if (!worthwhile(us_before, us_after)) return std::nullopt;
  return make_choice(chain, present, std::move(order), us_before, us_after, false, samples);
}

Result<std::vector<std::size_t>> first_order(const transforms::Pipeline& pipeline, const PlanProfile& given) {
  const PlanProfile profile = checked(pipeline, given);
  if (profile.orders.empty()) {
    ASSIGN(Order order, cheapest_exact_order(pipeline, {}));
    return order.empty() ? declared_order(pipeline) : order;
  }
  PlannerInput input = planner_input(pipeline, {});
  ASSIGN(const Chain chain, Chain::create(std::move(input.chain)));
  Order order = profile.orders.back().order;
  if (!legal(chain, order)) order = declared_order(pipeline);
  ASSIGN(const std::optional<PlanChoice> better, better_order(pipeline, profile, order, {}));
  return better ? better->order : order;
}

std::vector<std::size_t> declared_order(const transforms::Pipeline& pipeline) {
  std::vector<std::size_t> order(pipeline.ops().size());
  std::iota(order.begin(), order.end(), 0);
  return order;
}

}  // namespace carya::loader
