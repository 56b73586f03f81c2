#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/transforms/samples_test_lib.h"
#include "transforms/plan/plan.h"

namespace carya::transforms::testing {
namespace {

using ::testing::HasSubstr;

const std::string kFlip = R"({"op":"random_horizontal_flip","p":0.5})";
const std::string kJitter = R"({"op":"color_jitter","brightness":0.4,"contrast":0.4,"hue":0.2})";

std::string applied(const std::string& ops, const std::string& p) {
  return R"({"op":"random_apply","ops":[)" + ops + R"(],"p":)" + p + "}";
}

// Chains with the place of a group, before and after which ops of the same names stand.
std::vector<std::pair<std::string, std::string>> surroundings() {
  return {
      {kDecode + kResizedCrop + ",", ""},
      {kDecode, "," + kResizedCrop},
      {kDecode + kFlip + "," + kJitter + ",", "," + kResizedCrop + "," + kJitter + "," + kFlip},
      {kDecode + R"({"op":"resize","size":[40,44]},)", R"(,{"op":"center_crop","size":[50,30]},)" + kFlip},
  };
}

TEST(RandomApply, AlwaysIsTheOpsThemselvesAndNeverIsNone) {
  const std::string inner = kJitter + "," + kFlip + R"(,{"op":"random_grayscale","p":0.5})";
  const Bytes picture = make_jpeg(70, 61);
  Scratch scratch;
  for (const auto& [before, after] : surroundings()) {
    const auto always = plan_of(document(before + applied(inner, "1") + after));
    const auto plain = plan_of(document(before + inner + after));
    for (std::uint64_t record = 0; record < 12; ++record)
      ASSERT_TRUE(tensors_of(*always, scratch, record, picture) ==
                  tensors_of(*plain, scratch, record, picture))
          << before << after;
  }
  const auto never = plan_of(document(kDecode + kResizedCrop + "," + applied(inner, "0")));
  const auto without = plan_of(document(kDecode + kResizedCrop));
  for (std::uint64_t record = 0; record < 12; ++record)
    EXPECT_TRUE(tensors_of(*never, scratch, record, picture) ==
                tensors_of(*without, scratch, record, picture));
}

TEST(RandomApply, NoDrawDependsOnTheOutcome) {
  // Whatever the group draws, the ops inside and after it keep their numbers: each sample is one of the two.
  const Bytes picture = make_jpeg(70, 61);
  Scratch scratch;
  for (const auto& [before, after] : surroundings()) {
    const auto plan = [&](const std::string& p) {
      return plan_of(document(before + applied(kJitter + "," + kFlip, p) + after));
    };
    const auto sometimes = plan("0.5");
    const auto always = plan("1");
    const auto never = plan("0");
    int done = 0;
    int left = 0;
    for (std::uint64_t record = 0; record < 40; ++record) {
      const auto made = tensors_of(*sometimes, scratch, record, picture);
      const bool is_done = made == tensors_of(*always, scratch, record, picture);
      const bool is_left = made == tensors_of(*never, scratch, record, picture);
      ASSERT_TRUE(is_done || is_left) << before << after << ", record " << record;
      done += is_done;
      left += is_left;
    }
    EXPECT_GT(done, 5);
    EXPECT_GT(left, 5);
  }
}

TEST(RandomApply, FusedEqualsOpByOp) {
  const std::vector<std::string> groups = {
      kFlip,
      kJitter,
      kJitter + "," + kFlip + R"(,{"op":"random_erasing","value":"random"},{"op":"random_vertical_flip"})",
      R"({"op":"equalize"},{"op":"random_grayscale","p":0.5})",
  };
  const std::vector<Bytes> pictures = {make_jpeg(90, 70), make_jpeg(41, 64, 1),
                                       make_jpeg(70, 50, 3, true, 1, 6)};
  Scratch scratch;
  for (const std::string& group : groups)
    for (const auto& [before, after] : surroundings()) {
      const std::string json =
          document(before + applied(group, "0.6") + after + R"(,{"op":"to_layout","layout":"CHW"})");
      const auto fused = plan_of(json);
      const auto whole = plan_of(json, {.fuse = false});
      for (std::uint64_t record = 0; record < 12; ++record) {
        const Bytes& picture = pictures[record % pictures.size()];
        ASSERT_TRUE(tensors_of(*fused, scratch, record, picture) ==
                    tensors_of(*whole, scratch, record, picture))
            << json;
      }
    }
}

// The records of 0..999 whose picture of one color the group inverted.
std::vector<std::uint64_t> inverted(const std::string& ops, const PlanOptions& options) {
  const auto plan =
      plan_of(document(ops, R"({"batch_size":1})",
                       R"({"type":"arrays","count":1,"arrays":{"image":{"dtype":"uint8","shape":[2,2,1],)"
                       R"("fingerprint":"00000000000000000000000000000000"}}})"),
              options);
  Scratch scratch;
  std::vector<std::uint64_t> records;
  for (std::uint64_t record = 0; record < 1000; ++record)
    if (run_guarded(*plan, scratch, {.record = record}, {Bytes(4, std::byte{9})}).tensors[0] ==
        Bytes(4, std::byte{246}))
      records.push_back(record);
  return records;
}

TEST(RandomApply, HasItsProbabilityAndDrawsOfItsOwn) {
  const std::string op = R"({"op":"invert"})";
  const auto records = inverted(applied(op, "0.3"), {.seed = 4});
  EXPECT_GT(records.size(), 255u);  // 300 expected, deviation 14.5
  EXPECT_LT(records.size(), 345u);
  EXPECT_NE(records, inverted(applied(op, "0.3"), {.seed = 5}));
  EXPECT_NE(records, inverted(applied(R"({"op":"posterize","bits":8})", "0.3") + "," + applied(op, "0.3"),
                              {.seed = 4}))
      << "the second group draws other numbers than the first";
  EXPECT_GT(inverted(applied(op, "0.5"), {.seed = 4}).size(), records.size());
}

TEST(RandomApply, DrawsAreStable) {
  const auto records = inverted(applied(R"({"op":"invert"})", "0.1"), {.seed = 4});
  ASSERT_GE(records.size(), 8u);
  EXPECT_EQ(std::vector<std::uint64_t>(records.begin(), records.begin() + 8),
            (std::vector<std::uint64_t>{3, 5, 19, 22, 27, 29, 33, 79}));
}

TEST(RandomApply, RefusesOpsThatChangeShapesOrAreNoSteps) {
  constexpr const char* kShape =
      "random_apply: ops change the shape of image, uint8[?, ?, 3]; give geometric and "
      "color ops that leave shapes as they are";
  EXPECT_EQ(op_error(kDecode + applied(kResizedCrop, "0.5")), kShape);
  EXPECT_EQ(op_error(kDecode + applied(R"({"op":"resize","size":[1009]})", "0.5")), kShape);
  EXPECT_EQ(op_error(kDecode + applied(R"({"op":"resize","size":[1013]})", "0.5")), kShape);
  EXPECT_EQ(op_error(kDecode + applied(R"({"op":"resize","size":[1009,2003]})", "0.5")), kShape);
  EXPECT_EQ(op_error(kDecode + applied(R"({"op":"pad","padding":[0,0,1,0]})", "0.5")), kShape);
  EXPECT_EQ(op_error(kDecode + applied(R"({"op":"random_crop","size":[3000,3000]})", "0.5")), kShape);
  EXPECT_EQ(op_error(kDecode + applied(R"({"op":"grayscale"})", "0.5")), kShape);
  EXPECT_THAT(
      op_error(kDecode + kResizedCrop + "," + applied(R"({"op":"center_crop","size":[24,30]})", "0.5")),
      HasSubstr("ops change the shape of image, uint8[24, 31, 3]"));
  for (const char* op : {R"({"op":"to_dtype"})", R"({"op":"decode_image"})",
                         R"({"op":"random_apply","ops":[{"op":"invert"}]})"})
    EXPECT_THAT(op_error(kDecode + applied(op, "0.5")),
                HasSubstr("; give geometric and color ops that leave shapes"))
        << op;
}

TEST(RandomApply, ChecksItsParameters) {
  EXPECT_THAT(op_error(kDecode + R"({"op":"random_apply"})"),
              HasSubstr("random_apply: ops is missing; give a list of 1 to 63 ops"));
  EXPECT_THAT(op_error(kDecode + R"({"op":"random_apply","ops":[]})"),
              HasSubstr("ops: got []; give a list of 1"));
  EXPECT_THAT(op_error(kDecode + R"({"op":"random_apply","ops":{"op":"invert"}})"),
              HasSubstr("give a list of 1"));
  EXPECT_THAT(op_error(kDecode + applied(kFlip, "1.5")),
              HasSubstr("random_apply: p: got 1.5; give a number, 0.0 to 1.0"));
  EXPECT_THAT(op_error(kDecode + applied("7", "0.5")), HasSubstr("random_apply: ops: got 7; give an object"));
  EXPECT_THAT(op_error(kDecode + applied(R"({"op":"random_vertical_flip","p":2})", "0.5")),
              HasSubstr("random_apply: random_vertical_flip: p: got 2; give"));
  EXPECT_THAT(op_error(applied(kFlip, "0.5")),
              HasSubstr("random_apply: random_horizontal_flip: image is still encoded"));
  std::string many = R"({"op":"invert"})";
  for (int i = 1; i < 62; ++i) many += R"(,{"op":"invert"})";
  EXPECT_EQ(op_error(kDecode + applied(many, "0.5") + R"(,{"op":"invert"})"),
            op_error(kDecode + applied(many + R"(,{"op":"invert"})", "0.5")));
  EXPECT_THAT(op_error(kDecode + applied(many, "0.5") + R"(,{"op":"invert"})"),
              HasSubstr("a list of at most 64 ops"));
}

TEST(RandomApply, TakesWhatKeepsAKnownSize) {
  const std::string group =
      applied(R"({"op":"pad","padding":[2,2,2,2]},{"op":"random_crop","size":[24,31]})", "0.5");
  const Bytes picture = make_jpeg(70, 61);
  const auto fused = plan_of(document(kDecode + kResizedCrop + "," + group));
  const auto whole = plan_of(document(kDecode + kResizedCrop + "," + group), {.fuse = false});
  Scratch scratch;
  for (std::uint64_t record = 0; record < 12; ++record)
    EXPECT_TRUE(tensors_of(*fused, scratch, record, picture) == tensors_of(*whole, scratch, record, picture));
}

TEST(RandomApply, SizesMustAgreeWhateverIsDrawn) {
  const std::string ops = kDecode + applied(kFlip, "0") + "," + kResizedCrop;
  for (const bool fuse : {true, false}) {
    const auto plan = plan_of(document(ops, R"({"batch_size":1})", kWithMask), {.fuse = fuse});
    Scratch scratch;
    const Outcome outcome =
        run_guarded(*plan, scratch, {}, {make_jpeg(70, 61), make_jpeg(70, 60, 1), label_bytes(0)});
    ASSERT_TRUE(outcome.error);
    EXPECT_THAT(outcome.error->message, HasSubstr("random_horizontal_flip: mask is 70x60"));
  }
}

TEST(RandomApply, MovesMasksWithTheImageAndColorsTheImageAlone) {
  const std::string ops =
      R"({"op":"decode_image","mode":"L"},{"op":"resize","size":[20,30],"interpolation":"nearest"},)" +
      applied(R"({"op":"random_horizontal_flip","p":1},{"op":"invert"})", "0.5");
  const auto plan = plan_of(document(ops, R"({"batch_size":1})", kWithMask));
  const Bytes picture = make_jpeg(70, 61, 1);
  Scratch scratch;
  int moved = 0;
  for (std::uint64_t record = 0; record < 16; ++record) {
    const Outcome outcome =
        run_guarded(*plan, scratch, {.record = record}, {picture, picture, label_bytes(0)});
    ASSERT_FALSE(outcome.error);
    Bytes inverted = outcome.tensors[1];
    for (std::byte& value : inverted) value = ~value;
    const bool same = outcome.tensors[0] == outcome.tensors[1];
    EXPECT_NE(same, outcome.tensors[0] == inverted);
    moved += !same;
  }
  EXPECT_GT(moved, 2);
  EXPECT_LT(moved, 14);
}

TEST(RandomApply, LearnsTheSizeOfAMaskThatIsDecodedLater) {
  const auto pipeline =
      pipeline_of(document(R"({"op":"decode_image","fields":["image"]},)" + kResizedCrop +
                               R"(,{"op":"decode_image","fields":["mask"]},)" + applied(kFlip, "0.5"),
                           R"({"batch_size":1})", kWithMask));
  EXPECT_EQ(pipeline->outputs()[1].shape, (std::vector<std::int64_t>{24, 31, 3}));
}

TEST(RandomApply, ItsOpsAreNamedInTheProfile) {
  const auto plan = plan_of(document(kDecode + applied(kFlip, "0.5") + "," + kResizedCrop));
  Scratch scratch;
  std::vector<OpProfile> profile;
  plan->collect_profile(scratch, profile);
  ASSERT_EQ(profile.size(), 2u);
  EXPECT_EQ(profile[0].name, "decode_image");
  EXPECT_EQ(profile[1].name, "random_apply[random_horizontal_flip]+random_resized_crop");
}

TEST(RandomApply, IsWrittenWithItsOps) {
  const std::string ops = kDecode + applied(R"({"op":"invert"},{"op":"random_grayscale"})", "0.25");
  const auto pipeline = Pipeline::parse(document(ops, "null"));
  ASSERT_TRUE(pipeline);
  EXPECT_THAT((*pipeline)->to_json(),
              HasSubstr(R"({"op":"random_apply","ops":[{"op":"invert","fields":null},)"
                        R"({"op":"random_grayscale","p":0.1,"fields":null}],"p":0.25})"));
  EXPECT_EQ((*Pipeline::parse((*pipeline)->to_json()))->to_json(), (*pipeline)->to_json());
  EXPECT_EQ((*pipeline)->lines().back().text,
            "random_apply(ops=[invert(), random_grayscale(p=0.1)], p=0.25)");
  const auto other = Pipeline::parse(
      document(kDecode + applied(R"({"op":"invert"},{"op":"random_grayscale","p":0.2})", "0.25"), "null"));
  EXPECT_NE((*pipeline)->fingerprint(OnError::kRaise).hex(), (*other)->fingerprint(OnError::kRaise).hex());
}

}  // namespace
}  // namespace carya::transforms::testing
