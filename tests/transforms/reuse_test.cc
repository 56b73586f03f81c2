// reuse_augmentation(epochs=k): the ops before it draw with epoch e - e mod k, those behind it with e.

#include <gtest/gtest.h>

#include "tests/transforms/samples_test_lib.h"
#include "transforms/pipeline/pipeline.h"

namespace carya::transforms::testing {
namespace {

const std::string kColors =
    R"({"op":"random_apply","p":0.5,"ops":[{"op":"color_jitter","brightness":0.4,"hue":0.1}]})";
const std::string kReuse = R"({"op":"reuse_augmentation","epochs":3})";

/// The sample of each of the epochs 0 to 6, run in the ops' declared order or another one, fused or not.
std::vector<std::vector<Bytes>> epochs_of(const std::shared_ptr<const Pipeline>& pipeline,
                                          PlanOptions options = {}) {
  const auto plan = Plan::compile(pipeline, options);
  EXPECT_TRUE(plan) << plan.error().message;
  const Bytes picture = make_jpeg(60, 50);
  const std::vector<Bytes> inputs{picture, Bytes(8)};
  Scratch scratch;
  std::vector<std::vector<Bytes>> found;
  for (std::uint64_t epoch = 0; epoch < 7; ++epoch) {
    Outcome outcome = run_guarded(**plan, scratch, {.epoch = epoch, .record = 5}, inputs);
    EXPECT_FALSE(outcome.error);
    found.push_back(std::move(outcome.tensors));
  }
  return found;
}

TEST(ReuseAugmentation, OpsBeforeItHaveTheFirstEpochOfTheirPeriod) {
  const auto plain = epochs_of(decoded(kSmallCrop + "," + kColors));
  for (std::uint64_t epoch = 1; epoch < 7; ++epoch) EXPECT_NE(plain[epoch], plain[0]);
  const auto all = epochs_of(decoded(kSmallCrop + "," + kColors + "," + kReuse));
  for (std::uint64_t epoch = 0; epoch < 7; ++epoch) EXPECT_EQ(all[epoch], plain[epoch - epoch % 3]) << epoch;
  const auto none = epochs_of(decoded(kReuse + "," + kSmallCrop + "," + kColors));
  EXPECT_EQ(none, plain);
  const auto crops = epochs_of(decoded(kSmallCrop)), kept = epochs_of(decoded(kSmallCrop + "," + kReuse));
  const auto part = epochs_of(decoded(kSmallCrop + "," + kReuse + "," + kColors));
  EXPECT_EQ(part[0], plain[0]);
  EXPECT_EQ(part[3], plain[3]);
  EXPECT_EQ(kept[4], crops[3]);
  std::size_t apart = 0;
  for (const std::uint64_t epoch : {1, 2, 4, 5}) apart += part[epoch] != part[epoch - epoch % 3] ? 1 : 0;
  EXPECT_GT(apart, 0U) << "the colors differ within a period";
}

TEST(ReuseAugmentation, ItsGroupsMayHaveOtherLengthsFromSomeEpochsOn) {
  const std::string schedule = R"({"op":"reuse_augmentation","epochs":[0,3,4,2,5,1]})";
  const auto plain = epochs_of(decoded(kSmallCrop + "," + kColors));
  const auto pipeline = decoded(kSmallCrop + "," + kColors + "," + schedule);
  const auto found = epochs_of(pipeline);
  const std::uint64_t wanted[] = {0, 0, 0, 3, 4, 5, 6};  // the second group and the third are cut short
  for (std::uint64_t epoch = 0; epoch < 7; ++epoch) EXPECT_EQ(found[epoch], plain[wanted[epoch]]) << epoch;
  EXPECT_EQ(pipeline_of(pipeline->to_json())->to_json(), pipeline->to_json());
  EXPECT_EQ(pipeline->lines()[4].text, "reuse_augmentation(epochs={0: 3, 4: 2, 5: 1})");
  const auto print = [](const std::string& ops) { return decoded(ops)->fingerprint(OnError::kRaise); };
  const auto of = [&](const std::string& epochs) {
    return print(kSmallCrop + R"(,{"op":"reuse_augmentation","epochs":)" + epochs + "}," + kColors);
  };
  EXPECT_EQ(of("[0,3]"), of("3"));
  EXPECT_NE(of("[0,3,4,2]"), of("3"));
  EXPECT_NE(of("[0,3,4,2]"), of("[0,3,5,2]"));
  EXPECT_NE(of("[0,3,4,2]"), of("[0,3,4,1]"));
  EXPECT_EQ(of("[0,1,4,1]"), print(kSmallCrop + "," + kColors));
}

TEST(ReuseAugmentation, HoldsInEveryOrderAndUnfused) {
  const std::string colors = R"({"op":"color_jitter","brightness":0.4})";
  const auto pipeline = decoded(colors + "," + kReuse + "," + kSmallCrop);
  const auto wanted = epochs_of(pipeline);
  EXPECT_EQ(epochs_of(pipeline, {.fuse = false}), wanted);
  EXPECT_EQ(epochs_of(pipeline, {.order = {0, 2, 1}}), wanted);
  EXPECT_NE(wanted[0], wanted[1]);
}

TEST(ReuseAugmentation, IsPartOfTheDocumentAndTheFingerprint) {
  const auto pipeline = decoded(kSmallCrop + "," + kReuse + "," + kColors);
  EXPECT_EQ(pipeline->epoch_groups(1).parts(), (std::vector<EpochGroups::Part>{{0, 3}}));
  EXPECT_TRUE(pipeline->epoch_groups(2).each_alone());
  EXPECT_EQ(pipeline_of(pipeline->to_json())->to_json(), pipeline->to_json());
  EXPECT_EQ(pipeline->lines()[3].text, "reuse_augmentation(epochs=3)");
  const auto print = [](const std::string& ops) { return decoded(ops)->fingerprint(OnError::kRaise); };
  const Hash128 own = pipeline->fingerprint(OnError::kRaise);
  EXPECT_NE(own, print(kSmallCrop + "," + kColors));
  EXPECT_NE(own, print(kSmallCrop + "," + kColors + "," + kReuse));
  EXPECT_NE(own, print(kSmallCrop + R"(,{"op":"reuse_augmentation","epochs":4},)" + kColors));
  EXPECT_EQ(print(kSmallCrop + R"(,{"op":"reuse_augmentation","epochs":1},)" + kColors),
            print(kSmallCrop + "," + kColors));
}

TEST(ReuseAugmentation, BadOnesAreRefused) {
  for (const char* bad :
       {R"({"op":"reuse_augmentation"})", R"({"op":"reuse_augmentation","epochs":0})",
        R"({"op":"reuse_augmentation","epochs":1.5})", R"({"op":"reuse_augmentation","epochs":[]})",
        R"({"op":"reuse_augmentation","epochs":[0,2,4]})", R"({"op":"reuse_augmentation","epochs":[1,2]})",
        R"({"op":"reuse_augmentation","epochs":[0,2,0,3]})",
        R"({"op":"reuse_augmentation","epochs":[0,2,4,0]})",
        R"({"op":"reuse_augmentation","epochs":[0,2,-1,3]})",
        R"({"op":"reuse_augmentation","epochs":2,"p":1})",
        R"({"op":"random_apply","p":1,"ops":[{"op":"reuse_augmentation","epochs":2}]})"}) {
    const auto parsed = Pipeline::parse(document(kDecode + bad, "null"));
    ASSERT_FALSE(parsed) << bad;
    EXPECT_EQ(parsed.error().code, Code::kInvalidArgument);
    EXPECT_NE(parsed.error().message.find("reuse_augmentation"), std::string::npos) << parsed.error().message;
  }
  const auto twice = Pipeline::parse(document(kDecode + kReuse + "," + kSmallCrop + "," + kReuse, "null"));
  ASSERT_FALSE(twice);
  EXPECT_NE(twice.error().message.find("has one already"), std::string::npos);
}

}  // namespace
}  // namespace carya::transforms::testing
