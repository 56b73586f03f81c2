#include "autotune/order/order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "autotune/order/lower_bound.h"
#include "autotune/order/precedence.h"
#include "tests/amount.h"
#include "tests/autotune/brute_force.h"

namespace carya::autotune {
namespace {

using ::testing::HasSubstr;

constexpr Sense kSenses[] = {Sense::kOff, Sense::kExact, Sense::kRounding, Sense::kRelaxed};

/// `count` instances of `ops` ops by chance, each under every sense, against all orders and all fusions.
void compare_with_brute_force(std::uint64_t seed, std::size_t ops, int count) {
  std::mt19937_64 random(seed);
  std::size_t orders_max = 0;
  int exchanging = 0, fusing = 0;
  for (int i = 0; i < count; ++i) {
    const Instance instance = random_instance(random, ops);
    const auto chain = Chain::create(instance.spec);
    ASSERT_TRUE(chain) << chain.error().message;
    const bool fuse = i % 4 != 0;
    for (const Sense sense : kSenses) {
      SCOPED_TRACE("seed " + std::to_string(seed) + " instance " + std::to_string(i) + " reorder " +
                   std::string(sense_name(sense)));
      const std::vector<Order> orders = reachable_orders(instance.spec, sense);
      double least_ns = std::numeric_limits<double>::infinity();
      for (const Order& order : orders)
        least_ns = std::min(least_ns, cheapest_fusion_ns(instance, order, fuse));
      const auto best = best_order(*chain, instance.profile, {}, {.sense = sense, .fuse = fuse});
      ASSERT_TRUE(best) << best.error().message;
      ASSERT_TRUE(best->proven);
      ASSERT_NEAR(best->cost.cpu_s * 1e9, least_ns, kNear * least_ns);
      ASSERT_NEAR(plan_ns(instance, best->plan), least_ns, kNear * least_ns);
      ASSERT_TRUE(std::find(orders.begin(), orders.end(), best->plan.order()) != orders.end());
      ASSERT_TRUE(check_order(*chain, best->plan, sense));
      if (!fuse) {
        ASSERT_EQ(best->plan.stages.size(), ops);
      }
      orders_max = std::max(orders_max, orders.size());
      exchanging += best->exchanges.empty() ? 0 : 1;
      fusing += best->plan.stages.size() < ops ? 1 : 0;
    }
  }
  // Chance made chains of every kind: wholly free ones, and plans that differ from the declared one.
  std::size_t factorial = 1;
  for (std::size_t i = 2; i <= ops; ++i) factorial *= i;
  EXPECT_EQ(orders_max, factorial);
  if (ops > 1) {
    EXPECT_GT(exchanging, count / 4);
    EXPECT_GT(fusing, count / 4);
  }
}

TEST(BestOrder, IsTheOptimumOfThousandsOfSmallChains) {
  for (std::size_t ops = 1; ops <= 5; ++ops) compare_with_brute_force(ops, ops, 500);
}
TEST(BestOrder, IsTheOptimumOfChainsOf6) {
  compare_with_brute_force(6, 6, 300);
}
TEST(BestOrder, IsTheOptimumOfChainsOf7) {
  compare_with_brute_force(7, 7, 60 / one_case_of(4));
}
TEST(BestOrder, IsTheOptimumOfChainsOf8) {
  compare_with_brute_force(8, 8, 20 / one_case_of(4));
}

TEST(Precedence, AllowsExactlyTheReachableOrders) {
  std::mt19937_64 random(11);
  for (int i = 0; i < 200; ++i) {
    const Instance instance = random_instance(random, 1 + random() % 6);
    const auto chain = Chain::create(instance.spec);
    ASSERT_TRUE(chain);
    for (const Sense sense : kSenses) {
      std::vector<Order> reachable = reachable_orders(instance.spec, sense);
      std::sort(reachable.begin(), reachable.end());
      std::vector<Order> allowed;
      Order order(chain->size());
      for (std::size_t op = 0; op < order.size(); ++op) order[op] = op;
      do {
        if (check_order(*chain, plan_of(order), sense)) allowed.push_back(order);
      } while (std::next_permutation(order.begin(), order.end()));
      ASSERT_EQ(allowed, reachable) << "instance " << i;
    }
  }
}

TEST(Size, AfterASetOfOpsDoesNotDependOnTheirOrder) {
  std::mt19937_64 random(12);
  for (int i = 0; i < 200; ++i) {
    const Instance instance = random_instance(random, 1 + random() % 6);
    std::map<OpSet, Size> known;
    for (const Order& order : reachable_orders(instance.spec, Sense::kRelaxed)) {
      OpSet done = 0;
      Size at = instance.profile.source;
      for (const std::size_t op : order) {
        done |= op_bit(op);
        at = instance.spec.ops[op].size(at);
        const Size& first = known.try_emplace(done, at).first->second;
        ASSERT_NEAR(at.pixels, first.pixels, kNear * at.pixels);
        ASSERT_NEAR(at.channels, first.channels, kNear * at.channels);
        ASSERT_NEAR(at.element_bytes, first.element_bytes, kNear * at.element_bytes);
      }
    }
  }
}

TEST(LowerBound, IsBelowTheRestOfEveryBestPlanOfAnOrder) {
  std::mt19937_64 random(13);
  for (int i = 0; i < 200; ++i) {
    const Instance instance = random_instance(random, 1 + random() % 5);
    const auto chain = Chain::create(instance.spec);
    ASSERT_TRUE(chain);
    const auto model = StageModel::create(*chain, instance.profile);
    ASSERT_TRUE(model);
    const Precedence precedence(*chain, Sense::kRelaxed);
    const LowerBound bound(precedence, *model);
    for (const Order& order : reachable_orders(instance.spec, Sense::kRelaxed)) {
      // Every way to fuse the order: bit k joins its op k + 1 to op k.
      for (std::uint32_t joins = 0; joins < (1u << (order.size() - 1)); ++joins) {
        Plan plan;
        for (std::size_t k = 0; k < order.size(); ++k) {
          if (k == 0 || (joins >> (k - 1) & 1) == 0) plan.stages.emplace_back();
          plan.stages.back().ops.push_back(order[k]);
        }
        const auto costs = cost(*model, plan, {});
        if (!costs) continue;  // these do not fuse
        OpSet done = 0;
        for (std::size_t stage = 0; stage <= plan.stages.size(); ++stage) {
          const Size at = stage == 0 ? instance.profile.source : costs->stages[stage - 1].ops.back().out;
          const double rest_ns = (costs->cpu_s - costs->cuts[stage].cpu_s_before) * 1e9;
          ASSERT_LE(bound.rest_ns(done, at), rest_ns + kNear * costs->cpu_s * 1e9) << "instance " << i;
          if (stage < plan.stages.size())
            for (const std::size_t op : plan.stages[stage].ops) done |= op_bit(op);
        }
      }
    }
  }
}

/// Ops that all commute and cost `fixed` each, whatever their order.
ChainSpec free_chain(std::size_t ops, double fixed_ns) {
  ChainSpec spec;
  for (std::size_t i = 0; i < ops; ++i) {
    spec.ops.push_back({.name = "op" + std::to_string(i)});
    spec.ops.back().cost.fixed_ns = fixed_ns;
    for (std::size_t k = 0; k < i; ++k) spec.commuting.push_back({k, i, Commutes::kExact});
  }
  return spec;
}

TEST(BestOrder, TiesKeepTheDeclaredOrder) {
  ChainSpec spec = free_chain(7, 0);
  // Sums of these in another order differ in the last bits.
  for (std::size_t op = 0; op < 7; ++op) spec.ops[op].cost.fixed_ns = 0.1 * static_cast<double>(op + 1);
  spec.fusing = {{0, 3}, {3, 4}, {5, 1}};
  const auto chain = Chain::create(spec);
  ASSERT_TRUE(chain);
  const auto best = best_order(*chain, Profile{.source = {.pixels = 1}}, {}, {});
  ASSERT_TRUE(best);
  EXPECT_EQ(best->plan.order(), (Order{0, 1, 2, 3, 4, 5, 6}));
  EXPECT_TRUE(best->exchanges.empty());
  EXPECT_EQ(best->plan.stages.size(), 6u);  // 3+4 for nothing: fewer stages
}

// When each op costs c per element and leaves a share r of them, the best order is by c / (1 - r): exchanging
// neighbours a, b saves exactly when c_b + r_b c_a < c_a + r_a c_b.
TEST(BestOrder, SixteenFreeOpsFollowTheRankRule) {
  std::mt19937_64 random(16);
  std::uniform_real_distribution<double> cost_ns(0.1, 4), share(0.3, 0.98);
  for (int i = 0; i < 3; ++i) {
    ChainSpec spec = free_chain(16, 0);
    std::vector<std::pair<double, std::size_t>> ranks;
    for (std::size_t op = 0; op < spec.ops.size(); ++op) {
      const double left = share(random);
      spec.ops[op].size.pixels = Change::scaled(left);
      spec.ops[op].cost.per_element_in_ns = cost_ns(random);
      ranks.emplace_back(spec.ops[op].cost.per_element_in_ns / (1 - left), op);
    }
    std::sort(ranks.begin(), ranks.end());
    const auto chain = Chain::create(spec);
    ASSERT_TRUE(chain);
    const auto best = best_order(*chain, Profile{.source = {.pixels = 1e5}}, {}, {});
    ASSERT_TRUE(best);
    EXPECT_TRUE(best->proven);
    Order wanted;
    for (const auto& [rank, op] : ranks) wanted.push_back(op);
    EXPECT_EQ(best->plan.order(), wanted);
  }
}

// Ten segments between barriers are ten small problems, each solved by brute force.
TEST(BestOrder, FortyOpsWithBarriersAreTheSumOfTheirSegments) {
  std::mt19937_64 random(40);
  Instance whole;
  whole.profile.source = {.pixels = 110'000};
  Size at = whole.profile.source;
  double wanted_ns = 0;
  for (std::size_t segment = 0; segment < 10; ++segment) {
    Instance part = random_instance(random, 4);
    part.profile = {.source = at};
    double least_ns = std::numeric_limits<double>::infinity();
    for (const Order& order : reachable_orders(part.spec, Sense::kRounding))
      least_ns = std::min(least_ns, cheapest_fusion_ns(part, order, false));
    wanted_ns += least_ns;
    const std::size_t first = whole.spec.ops.size();
    whole.spec.barriers.push_back(first);
    for (const std::size_t barrier : part.spec.barriers) whole.spec.barriers.push_back(first + barrier);
    for (OpModel op : part.spec.ops) {
      at = op.size(at);
      const std::string prefix = "s" + std::to_string(segment) + "_";
      op.name = prefix + op.name;
      for (std::string& name : op.depends_on) name = prefix + name;
      whole.spec.ops.push_back(std::move(op));
    }
    for (const CommutingPair& pair : part.spec.commuting)
      whole.spec.commuting.push_back({first + pair.a, first + pair.b, pair.commutes});
  }
  const auto chain = Chain::create(whole.spec);
  ASSERT_TRUE(chain) << chain.error().message;
  const auto best = best_order(*chain, whole.profile, {}, {.sense = Sense::kRounding, .fuse = false});
  ASSERT_TRUE(best);
  EXPECT_TRUE(best->proven);
  EXPECT_NEAR(best->cost.cpu_s * 1e9, wanted_ns, kNear * wanted_ns);
}

// cedar's pipeline: decode, to_float, crop to 224, flip, jitter, grayscale, blur, normalize.
TEST(BestOrder, ShrinksFirstAndCastsLast) {
  ChainSpec spec = free_chain(6, 0);
  const char* names[] = {"decode", "to_float", "crop", "jitter", "grayscale", "blur"};
  const double per_byte[] = {2, 0.1, 0.3, 1, 0.2, 3};
  for (std::size_t i = 0; i < 6; ++i) {
    spec.ops[i].name = names[i];
    spec.ops[i].cost.per_byte_in_ns = per_byte[i];
  }
  spec.ops[0].keep_position = true;
  spec.ops[0].size = {.pixels = Change::set(200'000), .channels = Change::set(3)};
  spec.ops[1].size.element_bytes = Change::set(4);
  spec.ops[2].size.pixels = Change::set(50'176);
  spec.ops[4].size.channels = Change::set(1);
  const auto chain = Chain::create(spec);
  ASSERT_TRUE(chain);
  const auto best = best_order(*chain, Profile{.source = {.pixels = 110'000}}, {}, {});
  ASSERT_TRUE(best);
  EXPECT_EQ(best->plan.order(), (Order{0, 4, 2, 3, 5, 1}));
  EXPECT_LT(best->cost.cpu_s, best->declared.cpu_s);
  EXPECT_EQ(best->exchanges.size(), 6u);
  EXPECT_EQ(best->exchanges[0], (Exchange{1, 2, Commutes::kExact}));
}

TEST(BestOrder, GivesUpExactnessAtItsBoundAndSaysSo) {
  std::mt19937_64 random(17);
  ChainSpec spec = free_chain(14, 50);
  for (OpModel& op : spec.ops) {
    op.size.pixels = Change::scaled(0.5 + 0.05 * static_cast<double>(random() % 12));
    op.cost.per_element_in_ns = 0.1 * static_cast<double>(1 + random() % 20);
  }
  const auto chain = Chain::create(spec);
  ASSERT_TRUE(chain);
  const Profile profile{.source = {.pixels = 1e5}};
  const auto exact = best_order(*chain, profile, {}, {});
  const auto bounded = best_order(*chain, profile, {}, {.sets_max = 100});
  ASSERT_TRUE(exact && bounded);
  EXPECT_TRUE(exact->proven);
  EXPECT_DOUBLE_EQ(exact->least_cpu_s, exact->cost.cpu_s);
  EXPECT_FALSE(bounded->proven);
  EXPECT_GE(bounded->cost.cpu_s, exact->cost.cpu_s * (1 - kNear));
  EXPECT_LE(bounded->cost.cpu_s, bounded->declared.cpu_s);
  EXPECT_LE(bounded->least_cpu_s, exact->cost.cpu_s * (1 + kNear));
  EXPECT_TRUE(check_order(*chain, bounded->plan, Sense::kExact));
}

// The declared order pays for x at once, and only that makes s and all others cheap. A bound that hopes to
// run s before x finds every set without x more promising, so a narrow look never sees the declared order.
TEST(BestOrder, IsNeverWorseThanTheDeclaredOrder) {
  ChainSpec spec = free_chain(16, 0);
  for (OpModel& op : spec.ops) op.cost.per_element_in_ns = 0.5;
  spec.ops[0].cost.per_element_in_ns = 10;
  spec.ops[0].size.pixels = Change::scaled(0.1);
  spec.ops[1].cost.per_element_in_ns = 1'000;
  spec.ops[1].size.pixels = Change::scaled(0.01);
  const auto chain = Chain::create(spec);
  ASSERT_TRUE(chain);
  const auto best = best_order(*chain, Profile{.source = {.pixels = 1e4}}, {}, {.sets_max = 64});
  ASSERT_TRUE(best);
  EXPECT_FALSE(best->proven);
  EXPECT_EQ(best->plan, declared_plan(*chain));
  EXPECT_EQ(best->cost.cpu_s, best->declared.cpu_s);
  EXPECT_TRUE(best->exchanges.empty());
}

TEST(BestOrder, HandlesChainsWithoutAndWithAsManyOpsAsThereCanBe) {
  const auto none = Chain::create({});
  ASSERT_TRUE(none);
  const auto nothing = best_order(*none, Profile{.source = {.pixels = 10}}, {}, {});
  ASSERT_TRUE(nothing);
  EXPECT_TRUE(nothing->plan.stages.empty());
  EXPECT_TRUE(nothing->proven);

  ChainSpec spec = free_chain(kChainOpsMax, 1);
  spec.commuting = {{62, 63, Commutes::kExact}};
  spec.ops[62].cost = {.per_byte_in_ns = 1};
  spec.ops[63].size.pixels = Change::scaled(0.5);
  const auto chain = Chain::create(spec);
  ASSERT_TRUE(chain);
  const auto best = best_order(*chain, Profile{.source = {.pixels = 10}}, {}, {});
  ASSERT_TRUE(best);
  EXPECT_TRUE(best->proven);
  EXPECT_EQ(best->exchanges, (std::vector<Exchange>{{62, 63, Commutes::kExact}}));
}

TEST(CheckOrder, NamesThePairThatMayNotChangePlaces) {
  ChainSpec spec;
  spec.ops = {{.name = "crop"}, {.name = "blur"}};
  spec.commuting = {{0, 1, Commutes::kRounding}};
  const auto chain = Chain::create(spec);
  ASSERT_TRUE(chain);
  const Plan turned{{{{1}}, {{0}}}};
  EXPECT_TRUE(check_order(*chain, turned, Sense::kRounding));
  const Status status = check_order(*chain, turned, Sense::kExact);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, Code::kInvalidArgument);
  EXPECT_EQ(status.error().message,
            "plan: blur runs before crop, which reorder=\"exact\" does not allow; make the plan again");
  EXPECT_THAT(check_order(*chain, Plan{{{{0}}}}, Sense::kExact).error().message,
              HasSubstr("blur is missing"));
  EXPECT_THAT(check_order(*chain, Plan{{{{0, 0}}}}, Sense::kExact).error().message, HasSubstr("runs twice"));
}

}  // namespace
}  // namespace carya::autotune
