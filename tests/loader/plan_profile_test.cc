#include "loader/plan/plan_profile.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "tests/loader/decoded_chain.h"
#include "transforms/op/order_hints.h"
#include "transforms/plan/plan.h"

namespace carya::loader {
namespace {

using transforms::OpProfile;
using Order = std::vector<std::size_t>;

const std::string kProfiledOps =
    R"({"op":"color_jitter","brightness":0.4},{"op":"random_crop","size":[100,100]})";

/// As the plans of the pipeline above name their stages, with sums over `timed` samples of one size.
std::vector<OpProfile> declared_stages(std::uint64_t timed, std::uint64_t decode_ns, std::uint64_t jitter_ns,
                                       std::uint64_t store_ns) {
  const std::uint64_t whole = 300ull * 400 * 3;
  std::vector<OpProfile> stages{
      {.name = "decode_image", .cpu_ns = decode_ns, .bytes_in = 50'000, .bytes_out = whole, .ops = {0}},
      {.name = "color_jitter", .cpu_ns = jitter_ns, .bytes_in = whole, .bytes_out = whole, .ops = {1}},
      {.name = "random_crop", .cpu_ns = store_ns, .bytes_in = whole, .bytes_out = 30'000, .ops = {2}}};
  stages[0].pictures = 1, stages[0].height = 300, stages[0].width = 400;
  for (OpProfile& stage : stages) {
    stage.samples = 32 * timed;
    stage.timed_samples = timed;
    for (std::uint64_t* sum :
         {&stage.cpu_ns, &stage.bytes_in, &stage.bytes_out, &stage.pictures, &stage.height, &stage.width})
      *sum *= timed;
  }
  return stages;
}

const Order kAsDeclared{0, 1, 2};

TEST(PlanProfile, StagesAreNamedByThePlansAsTheTestsSay) {
  const auto plan = transforms::Plan::compile(decoded_chain(kProfiledOps), {});
  ASSERT_TRUE(plan);
  transforms::Scratch scratch;
  std::vector<OpProfile> stages;
  (*plan)->collect_profile(scratch, stages);
  const auto expected = declared_stages(1, 1, 1, 1);
  ASSERT_EQ(stages.size(), expected.size());
  for (std::size_t i = 0; i < stages.size(); ++i) {
    EXPECT_EQ(stages[i].name, expected[i].name);
    EXPECT_EQ(stages[i].ops, expected[i].ops);
  }
}

TEST(PlanProfile, CostsAreWhatWasMeasuredAtTheSizesThatWereMeasured) {
  const auto pipeline = decoded_chain(kProfiledOps);
  PlanProfile profile;
  profile.add(kAsDeclared, declared_stages(1000, 900'000, 2'000'000, 4'000), 1234);
  const PipelineInfo facts = facts_of(*pipeline, profile);
  EXPECT_EQ(facts.record_bytes, 50'000);
  EXPECT_EQ(facts.height, 300);
  EXPECT_EQ(facts.width, 400);
  EXPECT_EQ(facts.pictures, 1000U);
  const autotune::Size record{.pixels = 50'000};
  const autotune::Size whole{.pixels = 300 * 400, .channels = 3};
  EXPECT_NEAR(facts.costs.at("decode_image").ns(record, whole), 900'000, 9'000);
  EXPECT_NEAR(facts.costs.at("color_jitter").ns(whole, whole), 2'000'000, 20'000);
  const CostSource& source = facts.sources.at("color_jitter");
  EXPECT_EQ(source.samples, 1000);
  EXPECT_EQ(source.measured_at_s, 1234);
  EXPECT_TRUE(source.alone);
}

double predicted_ns(const transforms::Pipeline& pipeline, const PlanProfile& profile,
                    const std::vector<autotune::Stage>& stages) {
  PlannerInput input = planner_input(pipeline, facts_of(pipeline, profile));
  const auto chain = autotune::Chain::create(std::move(input.chain));
  EXPECT_TRUE(chain);
  const auto cost = autotune::cost(*chain, {stages}, input.profile, {});
  EXPECT_TRUE(cost);
  return cost->cpu_s * 1e9;
}

TEST(PlanProfile, APlanOfMeasuredCostsCostsWhatTheStagesTook) {
  const auto pipeline = decoded_chain(kProfiledOps);
  PlanProfile profile;
  profile.add(kAsDeclared, declared_stages(1000, 900'000, 2'000'000, 4'000), 1);
  const double declared = profile.orders[0].cpu_ns();
  EXPECT_NEAR(predicted_ns(*pipeline, profile, {{{0}}, {{1}}, {{2}}}), declared, 0.01 * declared);
  // Also where a decode makes no more than the crop leaves.
  auto stages = declared_stages(1000, 500'000, 300'000, 1);
  stages.pop_back();
  stages[0].ops = {0, 2};
  stages[0].bytes_out = stages[1].bytes_in = stages[1].bytes_out = 30'000 * 1000;
  PlanProfile narrow;
  narrow.add(Order{0, 2, 1}, stages, 1);
  EXPECT_NEAR(predicted_ns(*pipeline, narrow, {{{0, 2}}, {{1}}}), 800'000, 8'000);
}

TEST(PlanProfile, MeasuredCostsChangeTheOrder) {
  const auto pipeline = decoded_chain(kProfiledOps);
  PlanProfile dear;
  dear.add(kAsDeclared, declared_stages(1000, 900'000, 2'000'000, 4'000), 1);
  const auto order = cheapest_exact_order(*pipeline, facts_of(*pipeline, dear));
  ASSERT_TRUE(order);
  EXPECT_EQ(*order, (Order{0, 2, 1}));
}

TEST(PlanProfile, OpsOfOneStageAreScaledTogetherAndSaidToBe) {
  const auto pipeline = decoded_chain(
      R"({"op":"resize","size":[50,50]},{"op":"random_horizontal_flip"},{"op":"normalize","mean":0.4,"std":0.2})");
  const auto plan = transforms::Plan::compile(pipeline, {});
  ASSERT_TRUE(plan);
  transforms::Scratch scratch;
  std::vector<OpProfile> stages;
  (*plan)->collect_profile(scratch, stages);
  ASSERT_EQ(stages.size(), 2U);
  ASSERT_EQ(stages[1].ops, (std::vector<std::uint32_t>{1, 2, 3}));
  for (OpProfile& stage : stages) stage.timed_samples = stage.samples = 100;
  stages[0] = {.name = stages[0].name,
               .samples = 100,
               .timed_samples = 100,
               .cpu_ns = 70'000'000,
               .bytes_in = 5'000'000,
               .bytes_out = 36'000'000,
               .ops = {0},
               .pictures = 100,
               .height = 30'000,
               .width = 40'000};
  stages[1].cpu_ns = 100 * 100'000;
  stages[1].bytes_in = 36'000'000;
  stages[1].bytes_out = 100 * 50 * 50 * 3 * 4;
  PlanProfile profile;
  profile.add(Order{0, 1, 2, 3}, stages, 1);
  const PipelineInfo facts = facts_of(*pipeline, profile);
  const autotune::Size small{.pixels = 2500, .channels = 3};
  const double store = facts.costs.at("normalize").ns(small, {2500, 3, 4});
  EXPECT_LT(store, 30'000) << "the whole stage must not be charged to its last op";
  EXPECT_FALSE(facts.sources.at("normalize").alone);
  const autotune::Size whole{.pixels = 300 * 400, .channels = 3};
  const double all = facts.costs.at("resize").ns(whole, small) +
                     facts.costs.at("random_horizontal_flip").ns(small, small) + store;
  EXPECT_NEAR(all, 100'000, 5'000);
}

TEST(PlanProfile, OpsOfOneNameAreToldApart) {
  const auto pipeline = decoded_chain(R"({"op":"resize","size":[90,90]},{"op":"resize","size":[40,40]})");
  EXPECT_EQ(transforms::op_labels(pipeline->ops()),
            (std::vector<std::string>{"decode_image", "resize#0", "resize#1"}));
  PipelineInfo facts;
  facts.costs["resize#1"] = {.fixed_ns = 7};
  const PlannerInput input = planner_input(*pipeline, facts);
  EXPECT_EQ(input.chain.ops[2].cost.fixed_ns, 7);
  EXPECT_NE(input.chain.ops[1].cost.fixed_ns, 7);
}

TEST(PlanProfile, AddsUpAndForgetsOldOrders) {
  PlanProfile profile;
  const auto stages = declared_stages(10, 100, 100, 100);
  profile.add(kAsDeclared, stages, 1);
  for (std::size_t i = 0; i < kOrdersKept - 1; ++i) profile.add(Order{0, 2, 1, i}, stages, 2);
  profile.add(kAsDeclared, stages, 3);
  EXPECT_EQ(profile.orders.back().order, kAsDeclared);
  EXPECT_EQ(profile.orders.back().timed_samples(), 20U);
  EXPECT_EQ(profile.orders.back().cpu_ns(), 300);
  profile.add(Order{5}, stages, 4);
  EXPECT_EQ(profile.orders.size(), kOrdersKept);
  EXPECT_EQ(profile.find(Order{0, 2, 1, 0}), nullptr);
  EXPECT_NE(profile.find(kAsDeclared), nullptr);
  profile.keep_samples(5);
  EXPECT_EQ(profile.find(kAsDeclared)->timed_samples(), 5U);
  EXPECT_EQ(profile.find(kAsDeclared)->cpu_ns(), 300);
  profile.add(Order{6}, declared_stages(0, 1, 1, 1), 4);
  EXPECT_EQ(profile.find(Order{6}), nullptr) << "nothing was timed";
}

TEST(PlanProfile, OrdersAndStagesOfAnotherPipelineAreLeftOut) {
  const auto pipeline = decoded_chain(kProfiledOps);
  const auto good = declared_stages(10, 100, 100, 100);
  PlanProfile profile;
  auto foreign = good;
  foreign[1].ops = {3};
  profile.orders = {{{0, 1}, good, 1}, {{0, 1, 3}, good, 1}, {{0, 1, 1}, good, 1}, {{0, 2, 1}, foreign, 1}};
  EXPECT_TRUE(checked(*pipeline, profile).orders.empty());
  EXPECT_TRUE(facts_of(*pipeline, profile).costs.empty());
  EXPECT_EQ(nlohmann::json::parse(facts_json(*pipeline, profile, 1))["orders"].size(), 0U);
  profile.orders.insert(profile.orders.end(), 2, {kAsDeclared, good, 1});
  EXPECT_EQ(checked(*pipeline, profile).orders.size(), 1U);
}

TEST(PlanProfile, NumbersThatCannotBeGiveAssumedCosts) {
  const auto pipeline = decoded_chain(kProfiledOps);
  PlanProfile profile;
  profile.add(kAsDeclared, declared_stages(10, UINT64_MAX / 16, 0, 0), 1);
  const PipelineInfo facts = facts_of(*pipeline, profile);
  for (const auto& [label, cost] : facts.costs) EXPECT_TRUE(autotune::check(cost, label)) << label;
  EXPECT_TRUE(cheapest_exact_order(*pipeline, facts));
  const PipelineInfo none = facts_of(*pipeline, {});
  EXPECT_EQ(none.pictures, 0U);
  EXPECT_TRUE(none.costs.empty());
  EXPECT_EQ(none.height, PipelineInfo{}.height);
}

TEST(PlanProfile, JsonSaysWhatIsBehindEachNumber) {
  const auto pipeline = decoded_chain(kProfiledOps);
  const auto assumed = nlohmann::json::parse(facts_json(*pipeline, {}, 100));
  EXPECT_EQ(assumed["ops"][1]["source"], "assumed");
  EXPECT_TRUE(assumed["ops"][1]["age_s"].is_null());
  PlanProfile profile;
  profile.add(kAsDeclared, declared_stages(1000, 900'000, 2'000'000, 4'000), 60);
  const auto json = nlohmann::json::parse(facts_json(*pipeline, profile, 100));
  EXPECT_EQ(json["ops"][1]["op"], "color_jitter");
  EXPECT_EQ(json["ops"][1]["source"], "measured");
  EXPECT_EQ(json["ops"][1]["samples"], 1000);
  EXPECT_EQ(json["ops"][1]["age_s"], 40);
  EXPECT_EQ(json["orders"][0]["order"], (nlohmann::json{"decode_image", "color_jitter", "random_crop"}));
  EXPECT_EQ(json["orders"][0]["us"], 2904);
  EXPECT_EQ(json["orders"][0]["stages"][1]["us"], 2000);
  EXPECT_EQ(json["orders"][0]["stages"][1]["ops"], nlohmann::json{"color_jitter"});
}

}  // namespace
}  // namespace carya::loader
