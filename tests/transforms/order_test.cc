// Plans that run a pipeline's ops in another order than declared: every order that exact exchanges of
// neighbours can reach gives the same bits. This is what a wrong trait of an op fails on.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/transforms/drawn_chains.h"
#include "tests/transforms/samples_test_lib.h"
#include "transforms/op/op.h"

namespace carya::transforms::testing {
namespace {

TEST(Order, EveryExactExchangeOfNeighboursKeepsTheBits) {
  const std::vector<NamedBytes> pictures = test_pictures(40, 200'000);
  Drawn drawn(7);
  Scratch scratch;
  std::size_t reordered = 0;
  for (int round = 0; round < 400; ++round) {
    const auto parsed = Pipeline::parse(document(drawn.chain(1 + drawn.below(5))));
    if (!parsed) continue;  // a crop of a known size that is too small for the next
    const auto& pipeline = *parsed;
    const Order order = drawn.exchanged(*pipeline, Commutes::kExact);
    if (std::ranges::is_sorted(order)) continue;
    ++reordered;
    for (const bool fuse : {true, false}) {
      const auto declared = Plan::compile(pipeline, {.seed = 5, .fuse = fuse});
      const auto exchanged = Plan::compile(pipeline, {.seed = 5, .fuse = fuse, .order = order});
      ASSERT_TRUE(declared && exchanged) << pipeline->to_json() << exchanged.error().message;
      for (std::uint64_t record = 0; record < 3; ++record) {
        const NamedBytes& picture = pictures[drawn.below(pictures.size())];
        const std::vector<Bytes> inputs{picture.bytes, label_bytes(0)};
        const Outcome there = run_guarded(**declared, scratch, {.record = record}, inputs);
        const Outcome back = run_guarded(**exchanged, scratch, {.record = record}, inputs);
        ASSERT_EQ(there.error.has_value(), back.error.has_value()) << pipeline->to_json() << picture.name;
        if (!there.error) {
          ASSERT_EQ(there.tensors, back.tensors)
              << pipeline->to_json() << " as " << ::testing::PrintToString(order) << " of " << picture.name;
        }
      }
    }
  }
  EXPECT_GT(reordered, 100U);
}

// Each pair alone, so that none hides behind what random chains happen to be.
TEST(Order, EveryPairThatIsDeclaredExactIs) {
  const Bytes large = make_jpeg(123, 98);
  const Bytes small = make_jpeg(53, 47);  // windows reach outside
  Scratch scratch;
  std::size_t exact = 0;
  for (const std::string& first : picture_ops()) {
    for (const std::string& second : picture_ops()) {
      const auto parsed = Pipeline::parse(document(R"({"op":"decode_image"},)" + first + "," + second +
                                                   R"(,{"op":"center_crop","size":[40,46]})"));
      if (!parsed) continue;
      const auto& pipeline = *parsed;
      if (commutes(*pipeline->ops()[1], *pipeline->ops()[2]) != Commutes::kExact) continue;
      ++exact;
      const auto there = Plan::compile(pipeline, {});
      const auto back = Plan::compile(pipeline, {.order = {0, 2, 1, 3}});
      ASSERT_TRUE(there && back) << first << second;
      for (const Bytes& image : {large, small})
        for (std::uint64_t record = 0; record < 12; ++record) {
          const Outcome a = run_guarded(**there, scratch, {.record = record}, {image, label_bytes(0)});
          const Outcome b = run_guarded(**back, scratch, {.record = record}, {image, label_bytes(0)});
          ASSERT_EQ(a.error.has_value(), b.error.has_value()) << first << second;
          ASSERT_TRUE(a.error || a.tensors == b.tensors) << first << second << record;
        }
    }
  }
  EXPECT_GT(exact, 80U);
}

TEST(Order, RandomNumbersBelongToTheDeclaredPlace) {
  // The same op twice: exchanged, each keeps its own numbers, so the picture is another one.
  const auto pipeline = pipeline_of(document(
      R"({"op":"decode_image"},{"op":"random_crop","size":[60,60]},{"op":"random_crop","size":[60,60],"padding":[20,20,20,20]})"));
  const auto there = Plan::compile(pipeline, {});
  const auto back = Plan::compile(pipeline, {.order = {0, 2, 1}});
  ASSERT_TRUE(there && back);
  Scratch scratch;
  const std::vector<Bytes> inputs{make_jpeg(90, 80), label_bytes(0)};
  EXPECT_NE(run_guarded(**there, scratch, {}, inputs).tensors,
            run_guarded(**back, scratch, {}, inputs).tensors);
}

TEST(Order, OpsBeforeTwoViewsMayChangePlacesAndTheViewsKeepTheirNumbers) {
  const auto pipeline = pipeline_of(
      document(R"({"op":"decode_image"},{"op":"posterize","bits":3},{"op":"random_crop","size":[60,60]},)"
               R"({"op":"two_views","ops":[{"op":"random_crop","size":[40,40]},{"op":"random_apply","p":0.5,)"
               R"("ops":[{"op":"color_jitter","hue":0.2}]}]},{"op":"random_horizontal_flip"})"));
  const auto there = Plan::compile(pipeline, {});
  const auto back = Plan::compile(pipeline, {.order = {0, 2, 1, 3, 4}});
  ASSERT_TRUE(there && back);
  Scratch scratch;
  const std::vector<Bytes> inputs{make_jpeg(90, 80), label_bytes(0)};
  for (std::uint64_t record = 0; record < 8; ++record)
    EXPECT_EQ(run_guarded(**there, scratch, {.record = record}, inputs).tensors,
              run_guarded(**back, scratch, {.record = record}, inputs).tensors);
}

TEST(Order, WhatCannotRunIsAnError) {
  const auto pipeline = pipeline_of(
      document(R"({"op":"decode_image"},{"op":"center_crop","size":[9,9]},{"op":"resize","size":[8,8]})"));
  const auto message = [&](Order order) {
    const auto plan = Plan::compile(pipeline, {.order = std::move(order)});
    return plan ? std::string("no error") : plan.error().message;
  };
  const std::string each = "plan: order has 3 indices; give each of 0 to 2 once";
  EXPECT_EQ(message({0, 1, 1}), each);
  EXPECT_EQ(message({0, 1, 7}), each);
  EXPECT_EQ(message({1}), "plan: order has 1 indices; give each of 0 to 2 once");
  EXPECT_EQ(
      message({0, 2, 1}),
      "plan: the ops cannot run in this order: image ends as uint8[9, 9, 3], declared is uint8[8, 8, 3]");
  EXPECT_TRUE(message({1, 0, 2}).starts_with("plan: the ops cannot run in this order: center_crop"))
      << message({1, 0, 2});
}

}  // namespace
}  // namespace carya::transforms::testing
