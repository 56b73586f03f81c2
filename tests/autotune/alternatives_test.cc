#include "autotune/order/alternatives.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "tests/autotune/brute_force.h"

namespace carya::autotune {
namespace {

using ::testing::HasSubstr;

constexpr double kMargin = 0.2;

/// The cheapest plan in which `first` runs before `second`, by trying all.
double cheapest_turned_ns(const Instance& instance, const std::vector<Order>& orders, std::size_t first,
                          std::size_t second) {
  double least = std::numeric_limits<double>::infinity();
  for (const Order& order : orders)
    if (std::find(order.begin(), order.end(), first) < std::find(order.begin(), order.end(), second))
      least = std::min(least, cheapest_fusion_ns(instance, order, true));
  return least;
}

double cheapest_split_ns(const Instance& instance, const std::vector<Order>& orders, std::size_t op) {
  double least = std::numeric_limits<double>::infinity();
  for (const Order& order : orders)
    least = std::min(least, cheapest_fusion_ns(instance, order, true, op_bit(op)));
  return least;
}

bool runs_before(const Plan& plan, std::size_t first, std::size_t second) {
  const Order order = plan.order();
  return std::find(order.begin(), order.end(), first) < std::find(order.begin(), order.end(), second);
}

void expect_saving(double saved_cpu_s, bool at_least, double other_ns, double best_ns) {
  if (at_least) {
    EXPECT_GE(other_ns, best_ns * (1 + kMargin) * (1 - kNear));
    EXPECT_NEAR(saved_cpu_s * 1e9, best_ns * kMargin, kNear * best_ns);
  } else {
    EXPECT_NEAR(saved_cpu_s * 1e9, other_ns - best_ns, kNear * best_ns);
  }
}

void expect_plans(const Instance& instance, const std::vector<Order>& orders, const Alternatives& found,
                  double best_ns) {
  for (std::size_t i = 0; i < found.plans.size(); ++i) {
    const Alternative& plan = found.plans[i];
    EXPECT_NE(plan.plan, found.best);
    EXPECT_TRUE(std::find(orders.begin(), orders.end(), plan.plan.order()) != orders.end());
    const double ns = plan_ns(instance, plan.plan);
    EXPECT_NEAR(plan.cost.cpu_s * 1e9, ns, kNear * best_ns);
    EXPECT_GE(ns, best_ns * (1 - kNear));
    EXPECT_LE(ns, best_ns * (1 + kMargin) * (1 + kNear));
    if (i > 0) {
      EXPECT_GE(plan.cost.cpu_s, found.plans[i - 1].cost.cpu_s * (1 - kNear));
    }
    for (std::size_t k = 0; k < i; ++k) EXPECT_NE(plan.plan, found.plans[k].plan);
  }
  // No pair is forgotten that can be turned within the margin.
  const Order order = found.best.order();
  for (std::size_t i = 0; i < order.size(); ++i) {
    for (std::size_t k = i + 1; k < order.size(); ++k) {
      if (cheapest_turned_ns(instance, orders, order[k], order[i]) > best_ns * (1 + kMargin) * (1 - kNear))
        continue;
      EXPECT_TRUE(
          std::any_of(found.plans.begin(), found.plans.end(),
                      [&](const Alternative& plan) { return runs_before(plan.plan, order[k], order[i]); }))
          << order[k] << " before " << order[i];
    }
  }
}

TEST(Alternatives, AreTheBestOfEachKindBySearchingAll) {
  std::mt19937_64 random(21);
  for (int i = 0; i < 400; ++i) {
    const Instance instance = random_instance(random, 2 + random() % 4);
    const auto chain = Chain::create(instance.spec);
    ASSERT_TRUE(chain);
    const Sense sense = i % 2 == 0 ? Sense::kRelaxed : Sense::kExact;
    SCOPED_TRACE("instance " + std::to_string(i));
    const std::vector<Order> orders = reachable_orders(instance.spec, sense);
    const auto best = best_order(*chain, instance.profile, {}, {.sense = sense});
    const auto found = alternatives(*chain, instance.profile, {},
                                    {.order = {.sense = sense}, .margin = kMargin, .plans_max = 1000});
    ASSERT_TRUE(best && found);
    EXPECT_TRUE(found->proven);
    EXPECT_EQ(found->best, best->plan);
    const double best_ns = plan_ns(instance, found->best);
    ASSERT_EQ(found->exchanges.size(), best->exchanges.size());
    for (const ExchangeSaving& saving : found->exchanges)
      expect_saving(saving.saved_cpu_s, saving.at_least,
                    cheapest_turned_ns(instance, orders, saving.exchange.declared_first,
                                       saving.exchange.declared_second),
                    best_ns);
    EXPECT_EQ(found->fusions.size(), chain->size() - found->best.stages.size());
    for (const FusionSaving& saving : found->fusions)
      expect_saving(saving.saved_cpu_s, saving.at_least, cheapest_split_ns(instance, orders, saving.op),
                    best_ns);
    expect_plans(instance, orders, *found, best_ns);
  }
}

// A blur at 1 ns/B and a crop at 0.1 ns/B that leaves seven eighths, declared the dear way round.
Instance blurred() {
  Instance instance;
  OpModel blur{.name = "blur"}, crop{.name = "crop"};
  blur.cost.per_byte_in_ns = 1;
  crop.cost.per_byte_in_ns = 0.1;
  crop.size.pixels = Change::scaled(0.875);
  instance.spec.ops = {blur, crop};
  instance.spec.commuting = {{0, 1, Commutes::kExact}};
  instance.profile.source = {.pixels = 1 << 20};
  return instance;
}

TEST(Alternatives, SayWhyAPlanLost) {
  const Instance instance = blurred();
  const auto chain = Chain::create(instance.spec);
  ASSERT_TRUE(chain);
  const auto found = alternatives(*chain, instance.profile, {}, {});
  ASSERT_TRUE(found);
  EXPECT_EQ(found->best.order(), (Order{1, 0}));
  ASSERT_EQ(found->plans.size(), 1u);
  const Alternative& lost = found->plans[0];
  EXPECT_EQ(lost.turned, "blur before crop");
  // 1 + 0.1 ns per byte against 0.1 + 0.875.
  EXPECT_NEAR(lost.loss, 1.1 / 0.975 - 1, 1e-9);
  ASSERT_EQ(lost.reasons.size(), 1u);
  EXPECT_EQ(lost.reasons[0].op, 0u);
  EXPECT_NEAR(lost.reasons[0].extra_cpu_s, 0.125 * (1 << 20) * 1e-9, 1e-15);
  EXPECT_EQ(
      lost.text,
      "blur before crop: 12.8 % more CPU time; blur takes 131 us more: it reads 1 MiB instead of 896 KiB");
  ASSERT_EQ(found->exchanges.size(), 1u);
  EXPECT_FALSE(found->exchanges[0].at_least);
  EXPECT_NEAR(found->exchanges[0].saved_cpu_s, 0.125 * (1 << 20) * 1e-9, 1e-15);
}

TEST(Alternatives, SayWhatFusionSaves) {
  Instance instance = blurred();
  instance.spec.fusing = {{1, 0}};
  instance.profile.estimate.boundary_ns_per_byte = 0.1;
  const auto chain = Chain::create(instance.spec);
  ASSERT_TRUE(chain);
  const auto found = alternatives(*chain, instance.profile, {}, {});
  ASSERT_TRUE(found);
  EXPECT_EQ(found->best, (Plan{{{{1, 0}}}}));
  ASSERT_EQ(found->fusions.size(), 1u);
  EXPECT_EQ(found->fusions[0].leader, 1u);
  EXPECT_EQ(found->fusions[0].op, 0u);
  EXPECT_NEAR(found->fusions[0].saved_cpu_s, 0.0875 * (1 << 20) * 1e-9, 1e-15);
  const auto split = std::find_if(found->plans.begin(), found->plans.end(), [](const Alternative& plan) {
    return plan.turned == "blur not fused with crop";
  });
  ASSERT_NE(split, found->plans.end());
  EXPECT_THAT(split->text, HasSubstr("blur takes 91.8 us more: it is not fused with the op before it"));
}

TEST(Alternatives, BeyondTheMarginAreNotNamedButCounted) {
  const Instance instance = blurred();
  const auto chain = Chain::create(instance.spec);
  ASSERT_TRUE(chain);
  const auto found = alternatives(*chain, instance.profile, {}, {.margin = 0.05});
  ASSERT_TRUE(found);
  EXPECT_TRUE(found->plans.empty());
  ASSERT_EQ(found->exchanges.size(), 1u);
  EXPECT_TRUE(found->exchanges[0].at_least);
  EXPECT_NEAR(found->exchanges[0].saved_cpu_s, 0.05 * found->cost.cpu_s, 1e-15);
  EXPECT_TRUE(alternatives(*chain, instance.profile, {}, {.plans_max = 0})->plans.empty());
  const auto refused = alternatives(*chain, instance.profile, {}, {.margin = -1});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kInvalidArgument);
}

TEST(Alternatives, EquallyCheapOnesSaySo) {
  Instance instance = blurred();
  instance.spec.ops[1].size = {};
  const auto chain = Chain::create(instance.spec);
  ASSERT_TRUE(chain);
  const auto found = alternatives(*chain, instance.profile, {}, {});
  ASSERT_TRUE(found);
  EXPECT_EQ(found->best.order(), (Order{0, 1}));
  ASSERT_EQ(found->plans.size(), 1u);
  EXPECT_EQ(found->plans[0].text,
            "crop before blur: the same CPU time; the plan closest to the declared order is taken");
}

}  // namespace
}  // namespace carya::autotune
