#include "loader/plan/order_choice.h"

#include <gtest/gtest.h>

#include "tests/loader/decoded_chain.h"

namespace carya::loader {
namespace {

using transforms::OpProfile;
using Order = std::vector<std::size_t>;

constexpr std::uint64_t kWhole = 300ull * 400 * 3;
constexpr std::uint64_t kCropped = 100ull * 100 * 3;
const Order kDeclared{0, 1, 2};
const Order kCropFirst{0, 2, 1};

std::shared_ptr<const transforms::Pipeline> jitter_and_crop() {
  return decoded_chain(R"({"op":"color_jitter","brightness":0.4},{"op":"random_crop","size":[100,100]})");
}

OpProfile stage(std::vector<std::uint32_t> ops, std::uint64_t timed, std::uint64_t us, std::uint64_t in,
                std::uint64_t out) {
  OpProfile stage{.name = "stage" + std::to_string(ops.front()), .ops = std::move(ops)};
  stage.samples = 32 * timed;
  stage.timed_samples = timed;
  stage.cpu_ns = timed * us * 1000;
  stage.bytes_in = timed * in;
  stage.bytes_out = timed * out;
  return stage;
}

/// Mean microseconds of decode, jitter and crop, as declared: the jitter makes what the crop leaves.
std::vector<OpProfile> as_declared(std::uint64_t timed, std::uint64_t decode, std::uint64_t jitter,
                                   std::uint64_t crop) {
  std::vector<OpProfile> stages{stage({0}, timed, decode, 50'000, kWhole),
                                stage({1}, timed, jitter, kWhole, kCropped),
                                stage({2}, timed, crop, kCropped, kCropped)};
  stages[0].pictures = timed, stages[0].height = 300 * timed, stages[0].width = 400 * timed;
  return stages;
}

std::vector<OpProfile> crop_first(std::uint64_t timed, std::uint64_t decode, std::uint64_t jitter) {
  std::vector<OpProfile> stages{stage({0, 2}, timed, decode, 50'000, kCropped),
                                stage({1}, timed, jitter, kCropped, kCropped)};
  stages[0].pictures = timed, stages[0].height = 300 * timed, stages[0].width = 400 * timed;
  return stages;
}

TEST(PlanChoice, AWorthwhileOrderIsTakenAndExplained) {
  const auto pipeline = jitter_and_crop();
  PlanProfile profile;
  profile.add(kDeclared, as_declared(100, 600, 900, 20), 1);
  const auto choice = better_order(*pipeline, profile, kDeclared, {{kDeclared}});
  ASSERT_TRUE(choice && *choice);
  EXPECT_EQ((*choice)->order, kCropFirst);
  EXPECT_FALSE((*choice)->measured);
  EXPECT_NEAR((*choice)->us_before, 1520, 50);
  EXPECT_LT((*choice)->us_after, 1300);  // the decode makes less
  EXPECT_EQ((*choice)->reason.rfind("random_crop before color_jitter: 1", 0), 0U) << (*choice)->reason;
  EXPECT_NE((*choice)->reason.find("us predicted (100 timed samples)"), std::string::npos);
}

TEST(PlanChoice, AGainOfFewPercentIsNone) {
  const auto pipeline = jitter_and_crop();
  PlanProfile profile;
  profile.add(kCropFirst, crop_first(100, 600, 100), 1);
  const auto stays = better_order(*pipeline, profile, kCropFirst, {{kCropFirst}});
  ASSERT_TRUE(stays);
  EXPECT_FALSE(*stays);
  // The jitter is nearly free, and most of the decode is a matter of compressed bytes.
  PlanProfile flat;
  flat.add(kDeclared, as_declared(100, 1000, 1, 20), 1);
  flat.orders[0].stages[0].bytes_in *= 100;
  const auto small = better_order(*pipeline, flat, kDeclared, {{kDeclared}});
  ASSERT_TRUE(small);
  EXPECT_FALSE(*small) << (*small)->reason;
}

TEST(PlanChoice, AnOrderThatWasLeftIsNotTakenAgainUnlessItWasMeasuredToBeCheaper) {
  const auto pipeline = jitter_and_crop();
  PlanProfile profile;
  profile.add(kDeclared, as_declared(1000, 600, 900, 20), 1);
  const TriedOrders tried{{kCropFirst, kDeclared}};
  const auto again = better_order(*pipeline, profile, kDeclared, tried);
  ASSERT_TRUE(again);
  EXPECT_FALSE(*again) << "only the model says so, and that is why it was tried";
  profile.orders.clear();
  profile.add(kCropFirst, crop_first(1000, 500, 300), 1);
  profile.add(kDeclared, as_declared(1000, 600, 900, 20), 2);
  const auto measured = better_order(*pipeline, profile, kDeclared, tried);
  ASSERT_TRUE(measured && *measured);
  EXPECT_EQ((*measured)->order, kCropFirst);
  EXPECT_TRUE((*measured)->measured);
  EXPECT_NEAR((*measured)->us_after, 800, 1);
  const auto third =
      better_order(*pipeline, profile, kDeclared, {{kCropFirst, kDeclared, kCropFirst, kDeclared}});
  ASSERT_TRUE(third);
  EXPECT_FALSE(*third) << "turned to twice";
}

TEST(PlanChoice, WhatWasMeasuredCorrectsTheModel) {
  // Whatever the model says of the crop first: it took much longer.
  const auto pipeline = jitter_and_crop();
  PlanProfile profile;
  profile.add(kDeclared, as_declared(1000, 600, 900, 20), 1);
  profile.add(kCropFirst, crop_first(1000, 2000, 1500), 2);
  const auto back = better_order(*pipeline, profile, kCropFirst, {{kDeclared, kCropFirst}});
  ASSERT_TRUE(back && *back);
  EXPECT_EQ((*back)->order, kDeclared);
  const auto stays = better_order(*pipeline, profile, kDeclared, {{kDeclared}});
  ASSERT_TRUE(stays);
  EXPECT_FALSE(*stays);
}

TEST(PlanChoice, FewSamplesOfAnotherOrderAreNoReason) {
  const auto pipeline = jitter_and_crop();
  PlanProfile profile;
  profile.add(kDeclared, as_declared(10, 500, 480, 20), 1);
  profile.add(kCropFirst, crop_first(10, 600, 550), 2);
  const auto stays = better_order(*pipeline, profile, kCropFirst, {{kDeclared, kCropFirst}});
  ASSERT_TRUE(stays);
  EXPECT_FALSE(*stays) << "photos differ by more than that";
}

TEST(PlanChoice, NothingThatIsIllegalIsTakenFromAProfile) {
  const auto pipeline = jitter_and_crop();
  PlanProfile profile;
  profile.add(Order{1, 0, 2}, as_declared(1000, 1, 1, 1), 1);
  const auto first = first_order(*pipeline, profile);
  ASSERT_TRUE(first) << first.error().message;
  EXPECT_EQ(first->front(), 0U);
  profile.add(kDeclared, as_declared(1000, 600, 1, 20), 2);
  const auto choice = better_order(*pipeline, profile, kDeclared, {{kDeclared}});
  ASSERT_TRUE(choice);
  EXPECT_TRUE(!*choice || (*choice)->order == kCropFirst);
}

TEST(PlanChoice, AStreamBeginsWhereTheLastOneEnded) {
  const auto pipeline = jitter_and_crop();
  const auto unknown = first_order(*pipeline, {});
  ASSERT_TRUE(unknown);
  EXPECT_EQ(*unknown, kCropFirst) << "by assumed costs";
  PlanProfile profile;
  profile.add(kCropFirst, crop_first(64, 2000, 1500), 1);
  profile.add(kDeclared, as_declared(64, 300, 200, 20), 2);
  const auto known = first_order(*pipeline, profile);
  ASSERT_TRUE(known);
  EXPECT_EQ(*known, kDeclared);
}

}  // namespace
}  // namespace carya::loader
