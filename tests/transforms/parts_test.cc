// {"op":"part","number":n}: the ops behind it have the random numbers of part n of a chain with Python functions.

#include <gtest/gtest.h>

#include "base/philox.h"
#include "tests/transforms/samples_test_lib.h"
#include "transforms/pipeline/pipeline.h"

namespace carya::transforms::testing {
namespace {

const std::string kSmaller = R"({"op":"random_crop","size":[12,12]})";
const std::string kMirror = R"({"op":"random_horizontal_flip"})";

std::string part(int number) {
  return R"({"op":"part","number":)" + std::to_string(number) + "}";
}

/// Samples of some records.
std::vector<std::vector<Bytes>> samples_of(const std::string& ops, PlanOptions options) {
  const auto plan = Plan::compile(decoded(ops), options);
  EXPECT_TRUE(plan) << plan.error().message;
  const std::vector<Bytes> inputs{make_jpeg(60, 50), Bytes(8)};
  Scratch scratch;
  std::vector<std::vector<Bytes>> found;
  for (std::uint64_t record = 0; record < 9; ++record) {
    Outcome outcome = run_guarded(**plan, scratch, {.epoch = 2, .record = record}, inputs);
    EXPECT_FALSE(outcome.error);
    found.push_back(std::move(outcome.tensors));
  }
  return found;
}

/// The seed of a part, as states that are there have it.
std::uint64_t seed_of(std::uint64_t seed, std::uint32_t number) {
  SampleRng rng(op_key(seed, "carya.part", number), 0, 0, 0);
  const std::uint64_t low = rng.next_u32();
  return low | (std::uint64_t{rng.next_u32()} << 32);
}

TEST(Parts, HaveASeedOfTheirOwnAndCountTheirOpsFromZero) {
  const auto own = samples_of(kSmallCrop + "," + kMirror, {.seed = seed_of(7, 3)});
  EXPECT_EQ(samples_of(part(3) + "," + kSmallCrop + "," + kMirror, {.seed = 7}), own);
  EXPECT_NE(samples_of(kSmallCrop + "," + kMirror, {.seed = 7}), own);
  EXPECT_NE(samples_of(part(2) + "," + kSmallCrop + "," + kMirror, {.seed = 7}), own);
  // A crop before it is none of its crops.
  const auto both = samples_of(kSmallCrop + "," + part(3) + "," + kSmaller, {.seed = 7});
  EXPECT_EQ(samples_of(kSmallCrop + "," + part(3) + "," + kSmaller + "," + part(4), {.seed = 7}), both);
  EXPECT_NE(samples_of(kSmallCrop + "," + kSmaller, {.seed = 7}), both);
  const auto back = samples_of(part(3) + "," + kSmallCrop + "," + part(5) + "," + kMirror, {.seed = 7});
  EXPECT_EQ(
      samples_of(part(5) + "," + kMirror + "," + part(3) + "," + kSmallCrop, {.seed = 7, .order = {0, 2, 1}}),
      back);
}

TEST(Parts, ArePartOfTheDocumentAndTheFingerprint) {
  const auto pipeline = decoded(kSmallCrop + "," + part(3) + "," + kMirror);
  EXPECT_EQ(pipeline->part(1), std::nullopt);
  EXPECT_EQ(pipeline->part(2), 3U);
  EXPECT_EQ(pipeline_of(pipeline->to_json())->to_json(), pipeline->to_json());
  const auto print = [](const std::string& ops) { return decoded(ops)->fingerprint(OnError::kRaise); };
  const Hash128 own = pipeline->fingerprint(OnError::kRaise);
  EXPECT_NE(own, print(kSmallCrop + "," + kMirror));
  EXPECT_NE(own, print(part(3) + "," + kSmallCrop + "," + kMirror));
  EXPECT_NE(own, print(kSmallCrop + "," + part(4) + "," + kMirror));
}

TEST(Parts, BadOnesAreRefused) {
  for (const char* bad :
       {R"({"op":"part"})", R"({"op":"part","number":-1})", R"({"op":"part","number":1048577})",
        R"({"op":"part","number":1,"p":1})", R"({"op":"part","number":"1"})"}) {
    const auto parsed = Pipeline::parse(document(kDecode + bad, "null"));
    ASSERT_FALSE(parsed) << bad;
    EXPECT_EQ(parsed.error().code, Code::kInvalidArgument);
    EXPECT_NE(parsed.error().message.find("part"), std::string::npos) << parsed.error().message;
  }
}

TEST(Parts, OpsThatTakeWholePixelsPassAFunctionOfPixels) {
  const auto of = [](const std::string& op) {
    return std::string(commutes_name(commutes_with_pixelwise(*decoded(op)->ops()[1])));
  };
  EXPECT_EQ(of(kMirror), "exact");
  EXPECT_EQ(of(kSmallCrop), "exact");
  EXPECT_EQ(of(R"({"op":"random_crop","size":[24,24],"pad_if_needed":true,"fill":[9]})"), "relaxed");
  EXPECT_EQ(of(R"({"op":"random_resized_crop","size":[24,24]})"), "relaxed");
  EXPECT_EQ(of(R"({"op":"resize","size":[24,24]})"), "relaxed");
  EXPECT_EQ(of(R"({"op":"random_erasing"})"), "never");
  EXPECT_EQ(of(R"({"op":"invert"})"), "never");
  EXPECT_EQ(of(R"({"op":"to_dtype","dtype":"float32"})"), "never");
}

}  // namespace
}  // namespace carya::transforms::testing
