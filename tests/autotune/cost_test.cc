#include "autotune/order/cost.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/autotune/brute_force.h"

namespace carya::autotune {
namespace {

using ::testing::HasSubstr;

// decode (1000 bytes -> 200 pixels of 3 channels), flip, to_float: numbers that can be added by hand.
Instance small_instance() {
  Instance instance;
  OpModel decode{.name = "decode"};
  decode.size = {.pixels = Change::set(200), .channels = Change::set(3)};
  decode.cost = {.fixed_ns = 100, .per_byte_in_ns = 2, .per_element_out_ns = 1};  // 100 + 2000 + 600
  OpModel flip{.name = "flip", .random = true, .geometric = true};
  flip.cost = {.per_element_in_ns = 0.5};  // 300
  OpModel to_float{.name = "to_float", .per_pixel = true};
  to_float.size.element_bytes = Change::set(4);
  to_float.cost = {.fixed_ns = 10, .per_byte_out_ns = 0.25};  // 10 + 600
  instance.spec.ops = {decode, flip, to_float};
  instance.spec.commuting = {{1, 2, Commutes::kExact}};
  instance.spec.fusing = {{0, 1}, {1, 2}, {2, 1}};
  instance.profile.source = {.pixels = 1000};
  return instance;
}

TEST(Cost, AddsStagesAndPropagatesSizes) {
  const Instance instance = small_instance();
  const auto chain = Chain::create(instance.spec);
  ASSERT_TRUE(chain);
  const Machine machine{.cores = 4, .speed = 2, .read_bytes_per_s = 1e9};
  const auto declared = cost(*chain, declared_plan(*chain), instance.profile, machine);
  ASSERT_TRUE(declared);
  EXPECT_DOUBLE_EQ(declared->cpu_s, 3610e-9 / 2);
  EXPECT_DOUBLE_EQ(declared->rate, 1e6);  // the storage: 1e9 bytes/s of records of 1000
  ASSERT_EQ(declared->stages.size(), 3u);
  EXPECT_DOUBLE_EQ(declared->stages[1].cpu_s, 150e-9);
  EXPECT_DOUBLE_EQ(declared->stages[1].rate, 4 / 150e-9);
  ASSERT_EQ(declared->cuts.size(), 4u);
  const double bytes[] = {1000, 600, 600, 2400};
  const bool repeatable[] = {true, true, false, false};
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(declared->cuts[i].stages_before, i);
    EXPECT_DOUBLE_EQ(declared->cuts[i].bytes, bytes[i]);
    EXPECT_EQ(declared->cuts[i].repeatable, repeatable[i]);
  }
  EXPECT_DOUBLE_EQ(declared->cuts[3].cpu_s_before, declared->cpu_s);

  const auto turned = cost(*chain, Plan{{{{0}}, {{2}}, {{1}}}}, instance.profile, {.cores = 4});
  ASSERT_TRUE(turned);
  EXPECT_DOUBLE_EQ(turned->cpu_s, 3610e-9);
  EXPECT_DOUBLE_EQ(turned->rate, 4 / 3610e-9);
  EXPECT_DOUBLE_EQ(turned->cuts[2].bytes, 2400);
  EXPECT_TRUE(turned->cuts[2].repeatable);
}

TEST(Cost, AFollowerSavesTheBoundaryAndKeepsItsShare) {
  Instance instance = small_instance();
  const auto chain = Chain::create(instance.spec);
  ASSERT_TRUE(chain);
  instance.profile.estimate = {.boundary_ns = 40, .boundary_ns_per_byte = 0.1, .follower_share_min = 0.75};
  const auto fused = cost(*chain, Plan{{{{0, 1, 2}}}}, instance.profile, {});
  ASSERT_TRUE(fused);
  // flip: 300 - 40 - 60 = 200 < 225 = 0.75 x 300; to_float: 610 - 40 - 60
  EXPECT_DOUBLE_EQ(fused->cpu_s, (2700 + 225 + 510) * 1e-9);
  ASSERT_EQ(fused->cuts.size(), 2u);  // no sample lies in memory between fused ops
  EXPECT_FALSE(fused->stages[0].ops[0].fused);
  EXPECT_TRUE(fused->stages[0].ops[1].fused);
  EXPECT_DOUBLE_EQ(fused->stages[0].ops[1].cpu_s, 225e-9);
}

TEST(Cost, TheLongestMeasuredBeginningIsChargedAsAWhole) {
  Instance instance = small_instance();
  const auto chain = Chain::create(instance.spec);
  ASSERT_TRUE(chain);
  instance.profile.fused = {{.ops = {0, 1}, .cost = {.per_byte_in_ns = 1.5}}};  // 1500
  const auto fused = cost(*chain, Plan{{{{0, 1, 2}}}}, instance.profile, {});
  ASSERT_TRUE(fused);
  EXPECT_DOUBLE_EQ(fused->cpu_s, (1500 + 610) * 1e-9);
  // divided as the ops cost alone, 2700 : 300
  EXPECT_DOUBLE_EQ(fused->stages[0].ops[0].cpu_s, 1350e-9);
  EXPECT_DOUBLE_EQ(fused->stages[0].ops[1].cpu_s, 150e-9);
  EXPECT_DOUBLE_EQ(fused->stages[0].ops[2].cpu_s, 610e-9);
  instance.profile.fused.push_back(
      {.ops = {0, 1, 2}, .cost = {.fixed_ns = 9000}});  // measured worse than hoped
  EXPECT_DOUBLE_EQ(cost(*chain, Plan{{{{0, 1, 2}}}}, instance.profile, {})->cpu_s, 9000e-9);
  EXPECT_DOUBLE_EQ(cost(*chain, Plan{{{{0, 1}}, {{2}}}}, instance.profile, {})->cpu_s, 2110e-9);
}

TEST(Cost, AgreesWithTheSlowOneOnPlansByChance) {
  std::mt19937_64 random(7);
  for (int i = 0; i < 300; ++i) {
    const Instance instance = random_instance(random, 1 + random() % 6);
    const auto chain = Chain::create(instance.spec);
    ASSERT_TRUE(chain) << chain.error().message;
    const std::vector<Order> orders = reachable_orders(instance.spec, Sense::kRelaxed);
    const Order& order = orders[random() % orders.size()];
    Plan plan;
    for (const std::size_t op : order) {
      const bool joins = !plan.stages.empty() &&
                         (chain->fuses_with(plan.stages.back().ops.back()) & op_bit(op)) != 0 &&
                         random() % 2 == 0;
      if (!joins) plan.stages.emplace_back();
      plan.stages.back().ops.push_back(op);
    }
    const auto costs = cost(*chain, plan, instance.profile, {});
    ASSERT_TRUE(costs) << costs.error().message;
    const double wanted_s = plan_ns(instance, plan) * 1e-9;
    EXPECT_NEAR(costs->cpu_s, wanted_s, 1e-12 * wanted_s) << "instance " << i;
    double ops_s = 0;
    for (const StageCost& stage : costs->stages)
      for (const OpCost& op : stage.ops) ops_s += op.cpu_s;
    EXPECT_NEAR(ops_s, wanted_s, 1e-12 * wanted_s) << "instance " << i;
  }
}

TEST(Cost, RefusesPlansThatAreNone) {
  const Instance instance = small_instance();
  const auto chain = Chain::create(instance.spec);
  ASSERT_TRUE(chain);
  const auto error = [&](const Plan& plan) {
    const auto result = cost(*chain, plan, instance.profile, {});
    if (result) return std::string("no error");
    EXPECT_EQ(result.error().code, Code::kInvalidArgument);
    return result.error().message;
  };
  EXPECT_EQ(error(Plan{{{{0}}, {{2}}}}), "plan: flip is missing");
  EXPECT_EQ(error(Plan{{{{0}}, {{0}}, {{1}}, {{2}}}}), "plan: decode runs twice");
  EXPECT_EQ(error(Plan{{{{0}}, {{}}, {{1}}, {{2}}}}), "plan: a stage has no op");
  EXPECT_EQ(error(Plan{{{{0}}, {{1}}, {{7}}}}), "plan: op 7 of a chain of 3 ops");
  EXPECT_EQ(error(Plan{{{{0, 2}}, {{1}}}}),
            "plan: to_float does not fuse with decode; begin a new stage there");
}

TEST(Cost, RefusesProfilesAndMachinesThatCannotBe) {
  const Instance good = small_instance();
  const auto chain = Chain::create(good.spec);
  ASSERT_TRUE(chain);
  const auto error = [&](const Profile& profile, const Machine& machine = {}) {
    const auto result = cost(*chain, declared_plan(*chain), profile, machine);
    if (result) return std::string("no error");
    EXPECT_EQ(result.error().code, Code::kInvalidArgument);
    return result.error().message;
  };
  Profile profile = good.profile;
  profile.source.pixels = -1;
  EXPECT_THAT(error(profile), HasSubstr("size of a record"));
  profile = good.profile;
  profile.estimate.follower_share_min = 0;
  EXPECT_THAT(error(profile), HasSubstr("follower_share_min"));
  profile = good.profile;
  profile.fused = {{.ops = {0, 2}, .cost = {}}};
  EXPECT_EQ(error(profile), "measured stage decode+to_float: to_float does not fuse with decode");
  profile.fused = {{.ops = {1, 2, 1}, .cost = {}}};
  EXPECT_THAT(error(profile), HasSubstr("flip is in it twice"));
  profile.fused = {{.ops = {1}, .cost = {}}};
  EXPECT_THAT(error(profile), HasSubstr("less than 2 ops"));
  profile.fused = {{.ops = {1, 2}, .cost = {}}, {.ops = {1, 2}, .cost = {}}};
  EXPECT_THAT(error(profile), HasSubstr("given twice"));
  profile.fused = {{.ops = {1, 2}, .cost = {.fixed_ns = std::numeric_limits<double>::infinity()}}};
  EXPECT_THAT(error(profile), HasSubstr("measured stage flip+to_float: fixed_ns"));
  profile.fused = {{.ops = {1, 3}, .cost = {}}};
  EXPECT_THAT(error(profile), HasSubstr("op 3 of a chain of 3"));
  EXPECT_THAT(error(good.profile, {.cores = 0}), HasSubstr("cores"));
  EXPECT_THAT(error(good.profile, {.speed = -1}), HasSubstr("speed"));
  EXPECT_THAT(error(good.profile, {.read_bytes_per_s = -1}), HasSubstr("read_bytes_per_s"));
}

TEST(Cost, AChainWithoutOpsCostsNothing) {
  const auto chain = Chain::create({});
  ASSERT_TRUE(chain);
  const Profile profile{.source = {.pixels = 500}};
  const auto costs = cost(*chain, Plan{}, profile, {.read_bytes_per_s = 5'000});
  ASSERT_TRUE(costs);
  EXPECT_EQ(costs->cpu_s, 0);
  EXPECT_EQ(costs->rate, 10);
  ASSERT_EQ(costs->cuts.size(), 1u);
  EXPECT_EQ(costs->cuts[0].bytes, 500);
}

}  // namespace
}  // namespace carya::autotune
