#include "loader/plan/frozen_plan.h"
#include "loader/plan/plan_profile.h"
#include "loader/plan/planner_input.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/loader/decoded_chain.h"
#include "transforms/plan/plan.h"

namespace carya::loader {
namespace {

using Order = std::vector<std::size_t>;

Order order_of(const std::string& ops, const PipelineInfo& facts = {}) {
  const auto pipeline = decoded_chain(ops);
  const auto order = cheapest_exact_order(*pipeline, facts);
  EXPECT_TRUE(order) << order.error().message;
  if (!order) return {};
  // Whatever is chosen can run and makes what was declared.
  EXPECT_TRUE(transforms::Plan::compile(pipeline, {.order = *order}));
  return *order;
}

const std::string kJitter = R"({"op":"color_jitter","brightness":0.4,"saturation":0.4,"hue":0.1})";
const std::string kContrast = R"({"op":"color_jitter","contrast":0.4})";
const std::string kCrop = R"({"op":"random_crop","size":[100,90]})";
const std::string kCenter = R"({"op":"center_crop","size":[100,90]})";

TEST(PlanChain, ColorsOfSinglePixelsWaitForTheCrop) {
  EXPECT_EQ(order_of(kJitter + "," + kCrop), (Order{0, 2, 1}));
  EXPECT_EQ(
      order_of(R"({"op":"posterize","bits":3},)" + kCenter + R"(,{"op":"normalize","mean":0.4,"std":0.2})"),
      (Order{0, 2, 1, 3}));
}

TEST(PlanChain, WhatAsksForTheWholePictureStays) {
  EXPECT_EQ(order_of(kContrast + "," + kCrop), Order{});
  EXPECT_EQ(order_of(R"({"op":"equalize"},)" + kCrop), Order{});
  EXPECT_EQ(order_of(R"({"op":"invert"},)" + kCenter), Order{});  // outside is black, and would be inverted
  EXPECT_EQ(order_of(kJitter + R"(,{"op":"random_resized_crop","size":[9,9]})"), Order{});
}

TEST(PlanChain, PassesWhatLiesBetween) {
  // The crop passes both colors and the flip; the flip stays where it is among equals.
  EXPECT_EQ(order_of(R"({"op":"invert"},)" + kJitter + "," + kCrop), (Order{0, 3, 1, 2}));
  EXPECT_EQ(order_of(kJitter + "," + kContrast + "," + kCrop), Order{});
}

TEST(PlanChain, AWindowThatMakesThePictureLargerComesLast) {
  EXPECT_EQ(
      order_of(R"({"op":"center_crop","size":[50,50]},{"op":"pad","padding":[40,40,40,40]},)" + kJitter),
      (Order{0, 1, 3, 2}));
}

TEST(PlanChain, ColorsMakeNoMoreThanTheCropBehindThemReads) {
  // The jitter sees four tenths of 256 x 256 pixels before the crop, all of 224 x 224 behind it.
  const auto pipeline = decoded_chain(R"({"op":"resize","size":[256,256]},)" + kJitter +
                                      R"(,{"op":"random_resized_crop","size":[224,224]})");
  EXPECT_EQ(fixed_order(*pipeline, autotune::Sense::kRelaxed), Order{});
  const auto crop_first = decoded_chain(
      R"({"op":"resize","size":[256,256]},{"op":"random_resized_crop","size":[224,224]},)" + kJitter);
  EXPECT_EQ(fixed_order(*crop_first, autotune::Sense::kRelaxed), (Order{0, 1, 3, 2}));
  // So does a rotation; a color before it makes all of what it may read.
  const std::string rotation = R"({"op":"random_rotation","degrees":15,"interpolation":"bilinear"})";
  const auto turned = decoded_chain(
      R"({"op":"resize","size":[256,256]},{"op":"random_resized_crop","size":[224,224]},)" + rotation);
  EXPECT_EQ(fixed_order(*turned, autotune::Sense::kRelaxed), (Order{0, 1, 3, 2}));
  const auto both = decoded_chain(R"({"op":"resize","size":[256,256]},)" + kJitter + "," + rotation +
                                  R"(,{"op":"random_resized_crop","size":[224,224]})");
  EXPECT_EQ(fixed_order(*both, autotune::Sense::kRelaxed), (Order{0, 1, 3, 2, 4}));
  // A pad takes all pixels of a color before it; one behind it makes what the crop leaves.
  EXPECT_EQ(order_of(R"({"op":"invert"},{"op":"pad","padding":[9,9,9,9],"padding_mode":"reflect"},)" + kCrop),
            (Order{0, 2, 3, 1}));
}

TEST(PlanChain, WhatWasMeasuredOfColorsBeforeACropIsOfItsWindow) {
  const auto pipeline = decoded_chain(R"({"op":"resize","size":[256,256]},)" + kJitter +
                                      R"(,{"op":"random_resized_crop","size":[224,224]})");
  constexpr std::uint64_t kWhole = 3 * 256 * 256, kPart = kWhole / 4;
  transforms::OpProfile jitter{.name = "color_jitter", .samples = 1, .timed_samples = 1, .cpu_ns = 100'000};
  jitter.ops = {2};
  jitter.bytes_in = kWhole;
  jitter.bytes_out = kPart;
  PlanProfile profile;
  profile.add(std::vector<std::size_t>{0, 1, 2, 3}, {&jitter, 1}, 1);
  const auto facts = facts_of(*pipeline, profile);
  const autotune::Size part{kPart / 3.0, 3, 1};
  EXPECT_NEAR(facts.costs.at("color_jitter").ns(part, part), 100'000, 1'000);
}

TEST(PlanChain, KnowsTheSizesOfEachOp) {
  const auto pipeline =
      decoded_chain(R"({"op":"pad","padding":[10,0,10,0]},{"op":"resize","size":[100]},{"op":"grayscale"},)" +
                    kCenter + R"(,{"op":"to_dtype","dtype":"float32","scale":true})");
  const PlannerInput input = planner_input(*pipeline, {.record_bytes = 1000, .height = 300, .width = 400});
  autotune::Size size = input.profile.source;
  EXPECT_EQ(size.bytes(), 1000);
  const double bytes[] = {300 * 400 * 3, 300 * 420 * 3, 100 * 140 * 3, 100 * 140, 9000, 36000};
  ASSERT_EQ(input.chain.ops.size(), std::size(bytes));
  for (std::size_t i = 0; i < std::size(bytes); ++i) {
    size = input.chain.ops[i].size(size);
    EXPECT_NEAR(size.bytes(), bytes[i], 1e-6 * bytes[i]) << input.chain.ops[i].name;
  }
}

TEST(PlanChain, LongChainsArePlannedTooOrStayAsTheyAre) {
  std::string ops;
  for (int i = 0; i < 60; ++i)
    ops += (i % 3 == 0   ? R"({"op":"random_horizontal_flip"},)"
            : i % 3 == 1 ? R"({"op":"random_vertical_flip"},)"
                         : R"({"op":"invert"},)") +
           std::string();
  const Order order = order_of(ops + kCrop);
  if (!order.empty()) {
    EXPECT_EQ(order.size(), 62U);
  }
}

TEST(PlanChain, HintsHoldOpsWhereTheyAre) {
  const std::string jitter = R"({"op":"color_jitter","brightness":0.4,)";
  ASSERT_EQ(order_of(jitter + R"("hue":0.1},)" + kCrop), (Order{0, 2, 1}));
  EXPECT_EQ(order_of(jitter + R"("keep_position":true},)" + kCrop), Order{});
  EXPECT_EQ(order_of(jitter + R"("hue":0.1},{"op":"barrier"},)" + kCrop), Order{});
  EXPECT_EQ(
      order_of(jitter + R"("hue":0.1},{"op":"random_crop","size":[9,9],"depends_on":["color_jitter"]})"),
      Order{});
  // The crop stays behind the second op of the name, and may pass the third.
  const auto posterized =
      decoded_chain(R"({"op":"posterize","bits":3},{"op":"posterize","bits":4},{"op":"posterize","bits":5},)"
                    R"({"op":"random_crop","size":[9,9],"depends_on":["posterize#1"]})");
  EXPECT_TRUE(check_frozen_order(*posterized, {0, 1, 2, 4, 3}, autotune::Sense::kExact));
  EXPECT_FALSE(check_frozen_order(*posterized, {0, 1, 4, 2, 3}, autotune::Sense::kExact));
}

TEST(PlanChain, FixedOrdersAreThoseThatChangeBits) {
  const auto fixed = [](const std::string& ops, autotune::Sense sense) {
    const auto pipeline = decoded_chain(ops);
    const Order order = fixed_order(*pipeline, sense);
    EXPECT_TRUE(order.empty() || check_frozen_order(*pipeline, order, sense));
    return order;
  };
  using autotune::Sense;
  const std::string cut = R"({"op":"random_resized_crop","size":[90,90]})";
  EXPECT_EQ(fixed(kContrast + "," + cut, Sense::kRelaxed), (Order{0, 2, 1}));
  EXPECT_EQ(fixed(kContrast + "," + cut, Sense::kRounding), Order{});
  EXPECT_EQ(fixed(kJitter + "," + kCrop, Sense::kRelaxed), Order{});  // the cheapest one is exact
  EXPECT_EQ(fixed(kContrast + R"(,{"op":"barrier"},)" + cut, Sense::kRelaxed), Order{});
  EXPECT_EQ(
      fixed(R"({"op":"gaussian_blur","kernel_size":9},{"op":"grayscale"},)" + kCenter, Sense::kRounding),
      (Order{0, 2, 1, 3}));
  // Pecan's pipeline: the resize passes what turns and shears; cedar's: the gray passes jitter and blur.
  EXPECT_EQ(fixed(R"({"op":"random_rotation","degrees":5},{"op":"random_affine","degrees":0,"shear":6},)"
                  R"({"op":"resize","size":[224,224]})",
                  Sense::kRelaxed),
            (Order{0, 3, 1, 2}));
  EXPECT_EQ(fixed(cut + "," + kContrast + R"(,{"op":"grayscale"},{"op":"normalize","mean":0.1,"std":0.3})",
                  Sense::kRelaxed),
            (Order{0, 1, 3, 2, 4}));
}

TEST(PlanChain, BitsChangeForAHundredthOfTheCostOrMore) {
  const std::string flip = R"({"op":"random_horizontal_flip"})";
  const std::string cut = R"({"op":"random_resized_crop","size":[90,90]})";
  const std::string turn = R"({"op":"random_rotation","degrees":9,"interpolation":"bilinear"})";
  const auto fixed = [](const std::string& ops) {
    return fixed_order(*decoded_chain(ops), autotune::Sense::kRelaxed);
  };
  // A flip is free where it stands; to save the turning of what is cut away, it is passed.
  EXPECT_EQ(fixed(cut + "," + flip + R"(,{"op":"normalize","mean":0.1,"std":0.3})"), Order{});
  EXPECT_EQ(fixed(turn + "," + flip + "," + cut), (Order{0, 3, 1, 2}));
  const Order order = fixed(cut + "," + flip + "," + kContrast + R"(,{"op":"grayscale"})");
  EXPECT_LT(std::ranges::find(order, 1U), std::ranges::find(order, 2U));
}

TEST(PlanChain, AnOrderThatIsNotThePipelinesIsRefused) {
  const auto pipeline = decoded_chain(kContrast + R"(,{"op":"random_resized_crop","size":[90,90]})");
  const auto message = [&](const Order& order, autotune::Sense sense) {
    const Status status = check_frozen_order(*pipeline, order, sense);
    return status ? std::string("no error") : status.error().message;
  };
  EXPECT_EQ(message({0, 2, 1}, autotune::Sense::kRelaxed), "no error");
  EXPECT_EQ(
      message({0, 2, 1}, autotune::Sense::kRounding),
      "plan: random_resized_crop runs before color_jitter, which reorder=\"rounding\" does not allow; make "
      "the plan again");
  EXPECT_EQ(message({0, 2}, autotune::Sense::kRelaxed), "plan: color_jitter is missing");
  EXPECT_EQ(message({0, 2, 2}, autotune::Sense::kRelaxed),
            "plan: op 2 is none of the chain's 3, or runs twice");
  EXPECT_EQ(message({7}, autotune::Sense::kRelaxed), "plan: op 7 is none of the chain's 3, or runs twice");
}

TEST(PlanChain, MeasuredCostsCount) {
  // A crop so dear that it should see few pixels never moves to where it sees many.
  PipelineInfo facts;
  facts.costs["color_jitter"] = {.fixed_ns = 1};
  facts.costs["random_crop"] = {.fixed_ns = 50};
  EXPECT_EQ(order_of(kJitter + "," + kCrop, facts), (Order{0, 2, 1}));  // the decode is smaller
  facts.costs["decode_image"] = facts.costs["random_crop"] = {.fixed_ns = 1};
  EXPECT_EQ(order_of(kJitter + "," + kCrop, facts), Order{});  // nothing is gained, so nothing is moved
}

}  // namespace
}  // namespace carya::loader
