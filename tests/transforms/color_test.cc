#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>

#include "tests/transforms/samples_test_lib.h"
#include "transforms/plan/plan.h"
#include "transforms/simd/targets.h"

namespace carya::transforms::testing {
namespace {

using ::testing::HasSubstr;

// Every color op with parameters that show what it does. `op` alone is what the plan must compute the same
// way wherever it stands.
const std::vector<std::string>& color_ops() {
  static const std::vector<std::string> kOps = {
      R"({"op":"invert"})",
      R"({"op":"solarize","threshold":99.5})",
      R"({"op":"posterize","bits":3})",
      R"({"op":"grayscale"})",
      R"({"op":"autocontrast"})",
      R"({"op":"equalize"})",
      R"({"op":"adjust_sharpness","sharpness_factor":2.5})",
      R"({"op":"random_erasing","p":0.9,"value":7})",
      R"({"op":"gaussian_blur","kernel_size":[7,5]})",
      R"({"op":"random_erasing","p":0.9,"value":"random"})",
      R"({"op":"color_jitter","brightness":0.4,"contrast":[0.5,1.9],"saturation":0.4,"hue":0.3})",
      R"({"op":"random_grayscale","p":0.5})",
      R"({"op":"grayscale","num_output_channels":3})",
  };
  return kOps;
}

TEST(ColorOps, FusedEqualsOpByOpAmongStepsThatWait) {
  const std::string resize = R"({"op":"resize","size":[30,40]},)";
  for (const std::string& op : color_ops()) expect_fused_is_whole_among_waiting_steps(op, resize);
}

TEST(ColorOps, LeaveOtherFieldsAsTheyAre) {
  const std::string source = R"({"type":"files","paths":["a"],"labels":[1],"extra":{"mask":["b"]}})";
  const Bytes picture = make_jpeg(60, 50);
  Scratch scratch;
  for (const std::string& op : color_ops()) {
    const std::string start = kDecode + R"({"op":"random_crop","size":[30,31]})";
    const auto plain = plan_of(document(start, R"({"batch_size":1})", source));
    const auto colored = plan_of(document(start + "," + op, R"({"batch_size":1})", source));
    const std::vector<Bytes> inputs{picture, picture, label_bytes(1)};
    bool changed = false;
    for (std::uint64_t record = 0; record < 16; ++record) {
      const Outcome a = run_guarded(*plain, scratch, {.record = record}, inputs);
      const Outcome b = run_guarded(*colored, scratch, {.record = record}, inputs);
      ASSERT_FALSE(b.error) << op;
      EXPECT_EQ(a.tensors[1], b.tensors[1]) << op;
      changed |= a.tensors[0] != b.tensors[0];
    }
    EXPECT_TRUE(changed) << op;
  }
}

TEST(ColorOps, GiveSeveralFieldsTheSameNumbers) {
  const std::string source = R"({"type":"files","paths":["a"],"labels":[1],"extra":{"right":["b"]}})";
  const Bytes picture = make_jpeg(60, 50);
  Scratch scratch;
  for (std::string op : color_ops()) {
    op.insert(op.size() - 1, R"(,"fields":["image","right"])");
    const auto plan = plan_of(
        document(kDecode + R"({"op":"center_crop","size":[30,31]},)" + op, R"({"batch_size":1})", source));
    for (std::uint64_t record = 0; record < 16; ++record) {
      const Outcome outcome =
          run_guarded(*plan, scratch, {.record = record}, {picture, picture, label_bytes(1)});
      ASSERT_FALSE(outcome.error) << op;
      EXPECT_EQ(outcome.tensors[0], outcome.tensors[1]) << op;
    }
  }
}

TEST(ColorOps, TakeArraysWithoutOtherOps) {
  const std::string source =
      R"({"type":"arrays","count":1,"arrays":{"image":{"dtype":"uint8","shape":[9,7,3],"fingerprint":""}}})";
  Bytes row(9 * 7 * 3);
  for (std::size_t i = 0; i < row.size(); ++i) row[i] = static_cast<std::byte>(i * 37);
  Scratch scratch;
  for (const std::string& op : color_ops())
    for (const std::string& after : {std::string(), std::string(R"(,{"op":"to_layout","layout":"CHW"})")}) {
      const std::string json = document(op + after, R"({"batch_size":1})", source);
      const auto fused = plan_of(json);
      const auto whole = plan_of(json, {.fuse = false});
      for (std::uint64_t record = 0; record < 8; ++record)
        EXPECT_EQ(run_guarded(*fused, scratch, {.record = record}, {row}).tensors,
                  run_guarded(*whole, scratch, {.record = record}, {row}).tensors)
            << json;
    }
}

TEST(ColorOps, RefuseWhatIsNoPicture) {
  for (const std::string& op : color_ops()) {
    EXPECT_THAT(op_error(op), HasSubstr("put decode_image before")) << op;
    EXPECT_THAT(op_error(kDecode + R"({"op":"to_dtype"},)" + op),
                HasSubstr("image is float32[?, ?, 3]; give uint8 HWC images"))
        << op;
    EXPECT_THAT(op_error(kDecode + R"({"op":"to_dtype","dtype":"uint8"},)" + op),
                HasSubstr("give uint8 HWC images: put it before normalize, to_dtype and to_layout"))
        << op;
    std::string label = op;
    label.insert(label.size() - 1, R"(,"fields":["label"])");
    EXPECT_THAT(op_error(kDecode + label), HasSubstr("label is int64[]; give uint8 HWC images")) << op;
  }
}

TEST(ColorOps, CheckTheirParameters) {
  EXPECT_THAT(op_error(kDecode + R"({"op":"solarize"})"), HasSubstr("solarize: threshold is missing"));
  EXPECT_THAT(op_error(kDecode + R"({"op":"solarize","threshold":256})"),
              HasSubstr("threshold: got 256; give a number, 0.0 to 255.0"));
  EXPECT_THAT(op_error(kDecode + R"({"op":"posterize","bits":9})"),
              HasSubstr("bits: got 9; give an integer, 0 to 8"));
  EXPECT_THAT(op_error(kDecode + R"({"op":"adjust_sharpness","sharpness_factor":-1})"),
              HasSubstr("sharpness_factor: got -1; give a number, 0.0 to 1000.0"));
  EXPECT_THAT(
      op_error(kDecode + R"({"op":"color_jitter","contrast":[0.9,0.1]})"),
      HasSubstr("contrast: got [0.9, 0.1]; give None, one number from 0 or [low, high] with low <= high"));
  EXPECT_THAT(op_error(kDecode + R"({"op":"random_erasing","scale":[0.5,0.1]})"),
              HasSubstr("scale: got [0.5, 0.1]; give [low, high] with low <= high"));
  EXPECT_THAT(op_error(kDecode + R"({"op":"random_erasing","ratio":[0,2]})"),
              HasSubstr("ratio: got [0, 2]; give [low, high] with low <= high, each 0.001 to 1000.0"));
  EXPECT_THAT(op_error(kDecode + R"({"op":"random_erasing","value":"noise"})"),
              HasSubstr("value: got 'noise'; give \"random\", one value, or one per channel, each 0 to 255"));
  EXPECT_THAT(op_error(kDecode + R"({"op":"random_erasing","value":[1,2]})"),
              HasSubstr("value with one number or one for each of 3 channels (given 2)"));
  EXPECT_THAT(op_error(kDecode + R"({"op":"color_jitter","hue":-0.1})"), HasSubstr("hue: got -0.1; give"));
  EXPECT_THAT(op_error(kDecode + R"({"op":"color_jitter","hue":0.6})"), HasSubstr("hue: got 0.6; give"));
  EXPECT_THAT(op_error(kDecode + R"({"op":"color_jitter","brightness":-1})"),
              HasSubstr("brightness: got -1"));
}

TEST(ColorOps, GrayscaleSetsTheChannels) {
  const auto shape = [](const std::string& ops) {
    return pipeline_of(document(ops, "null"))->outputs()[0].to_string();
  };
  EXPECT_EQ(shape(kDecode + R"({"op":"grayscale"})"), "uint8[?, ?, 1]");
  EXPECT_EQ(shape(kDecode + R"({"op":"grayscale"},{"op":"grayscale","num_output_channels":3})"),
            "uint8[?, ?, 3]");
  EXPECT_EQ(
      shape(kDecode +
            R"({"op":"grayscale"},{"op":"center_crop","size":[4,5]},{"op":"to_layout","layout":"CHW"})"),
      "uint8[1, 4, 5]");
  EXPECT_THAT(op_error(kDecode + R"({"op":"grayscale"},{"op":"normalize","mean":[1,2,3],"std":1})"),
              HasSubstr("one for each of 1 channels"));
  EXPECT_THAT(op_error(kDecode + R"({"op":"grayscale","num_output_channels":2})"),
              HasSubstr("num_output_channels: got 2; give 1 or 3"));
  const auto with_alpha = Pipeline::parse(document(
      R"({"op":"grayscale"})", "null",
      R"({"type":"arrays","count":1,"arrays":{"image":{"dtype":"uint8","shape":[4,4,4],"fingerprint":""}}})"));
  ASSERT_FALSE(with_alpha);
  EXPECT_THAT(with_alpha.error().message, HasSubstr("image is uint8[4, 4, 4]; give 1 or 3 channels"));
}

TEST(ColorOps, GrayscaleIsDecodingAsGray) {
  Scratch scratch;
  const Bytes picture = make_jpeg(60, 50);
  const std::string crop = R"(,{"op":"center_crop","size":[40,41]})";
  const auto decoded = plan_of(document(R"({"op":"decode_image","mode":"L"})" + crop));
  const auto turned = plan_of(document(kDecode + R"({"op":"grayscale"})" + crop));
  EXPECT_EQ(run_guarded(*decoded, scratch, {}, {picture, label_bytes(0)}).tensors,
            run_guarded(*turned, scratch, {}, {picture, label_bytes(0)}).tensors);
}

// In how many of 400 records the op changes the picture.
int changed_of_400(const std::string& op) {
  const Bytes picture = make_jpeg(24, 20);
  const std::string start = kDecode + R"({"op":"center_crop","size":[16,16]})";
  const auto plain = plan_of(document(start));
  const auto colored = plan_of(document(start + "," + op), {.seed = 5});
  Scratch scratch;
  const std::vector<Bytes> inputs{picture, label_bytes(0)};
  const Bytes before = run_guarded(*plain, scratch, {}, inputs).tensors[0];
  int changed = 0;
  for (std::uint64_t record = 0; record < 400; ++record)
    changed += run_guarded(*colored, scratch, {.record = record}, inputs).tensors[0] != before;
  return changed;
}

TEST(ColorOps, RandomGrayscaleHasItsProbability) {
  EXPECT_EQ(changed_of_400(R"({"op":"random_grayscale","p":0})"), 0);
  EXPECT_EQ(changed_of_400(R"({"op":"random_grayscale","p":1})"), 400);
  const int tenth = changed_of_400(R"({"op":"random_grayscale"})");
  EXPECT_GT(tenth, 18);  // 40 +- 6
  EXPECT_LT(tenth, 62);
  EXPECT_THAT(op_error(kDecode + R"({"op":"random_grayscale","p":2})"),
              HasSubstr("p: got 2; give a number, 0.0 to 1.0"));
}

TEST(ColorOps, JitterWritesItsRanges) {
  const auto json = [](const std::string& parameters) {
    return pipeline_of(document(kDecode + R"({"op":"color_jitter")" + parameters + "}", "null"))
        ->ops()[1]
        ->json();
  };
  EXPECT_EQ(
      json(""),
      R"({"op":"color_jitter","brightness":null,"contrast":null,"saturation":null,"hue":null,"fields":null})");
  EXPECT_EQ(json(R"(,"brightness":0.5,"contrast":[2],"saturation":[0,3],"hue":0.25)"),
            R"({"op":"color_jitter","brightness":[0.5,1.5],"contrast":[0.0,3.0],"saturation":[0.0,3.0],)"
            R"("hue":[-0.25,0.25],"fields":null})");
  EXPECT_EQ(json(R"(,"brightness":[0.5,1.5],"contrast":[0,3],"saturation":[0,3],"hue":[-0.25,0.25])"),
            json(R"(,"brightness":0.5,"contrast":2,"saturation":[0,3],"hue":0.25)"));
}

// What a jitter with these parameters makes of one picture, for 400 records.
std::vector<Bytes> jittered(const std::string& parameters, const Bytes& row) {
  const auto plan = plan_of(document(
      R"({"op":"color_jitter",)" + parameters + "}", R"({"batch_size":1})",
      R"({"type":"arrays","count":1,"arrays":{"image":{"dtype":"uint8","shape":[2,2,3],"fingerprint":""}}})"));
  Scratch scratch;
  std::vector<Bytes> all;
  for (std::uint64_t record = 0; record < 400; ++record)
    all.push_back(run_guarded(*plan, scratch, {.record = record}, {row}).tensors[0]);
  return all;
}

TEST(ColorOps, JitterDrawsItsFactorsEvenly) {
  double sum = 0;
  int low = 255;
  int high = 0;
  for (const Bytes& made : jittered(R"("brightness":[0.5,1.5])", Bytes(12, std::byte{100}))) {
    const int value = std::to_integer<int>(made[0]);
    sum += value;
    low = std::min(low, value);
    high = std::max(high, value);
  }
  EXPECT_GE(low, 50);
  EXPECT_LE(low, 52);
  EXPECT_GE(high, 147);
  EXPECT_LE(high, 149);
  EXPECT_NEAR(sum / 400, 99.5, 5);  // 1.4 standard deviations each way are 2
}

std::string key_of(const Bytes& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

TEST(ColorOps, JitterTakesItsFourInEveryOrder) {
  Bytes row(12);
  for (std::size_t i = 0; i < row.size(); ++i) row[i] = static_cast<std::byte>(i * 53 + i * i * 17);
  const std::array<std::string, 4> each{R"("brightness":[1.7,1.7])", R"("contrast":[1.6,1.6])",
                                        R"("saturation":[1.8,1.8])", R"("hue":[0.2,0.2])"};
  std::array<int, 4> order{0, 1, 2, 3};
  std::map<std::string, int> seen;  // results of all orders, one single op after the other
  do {
    Bytes made = row;
    for (const int k : order) made = jittered(each[static_cast<std::size_t>(k)], made)[0];
    seen[key_of(made)] = 0;
  } while (std::next_permutation(order.begin(), order.end()));
  EXPECT_GT(seen.size(), 12u);  // clipping and luma tell most orders apart
  for (const Bytes& made : jittered(each[0] + "," + each[1] + "," + each[2] + "," + each[3], row)) {
    ASSERT_TRUE(seen.contains(key_of(made)));
    ++seen[key_of(made)];
  }
  for (const auto& [made, count] : seen) EXPECT_GT(count, 3);  // 400 / 24 of each order
}

TEST(ColorOps, AJittersFactorDoesNotDependOnTheOthers) {
  const Bytes row(12, std::byte{100});  // gray: saturation and hue leave it
  EXPECT_EQ(jittered(R"("brightness":[0.5,1.5])", row),
            jittered(R"("brightness":0.5,"saturation":0.5,"hue":0.5)", row));
}

// The rectangle where a picture of zeros, 60 x 80, was erased with 9; height 0 if nowhere.
Region erased_of(const Bytes& made) {
  Region region{60, 80, 0, 0};
  std::int64_t bottom = 0;
  std::int64_t right = 0;
  std::int64_t count = 0;
  for (std::int64_t y = 0; y < 60; ++y)
    for (std::int64_t x = 0; x < 80; ++x) {
      if (made[static_cast<std::size_t>(y * 80 + x)] == std::byte{0}) continue;
      ++count;
      region.top = std::min(region.top, y);
      region.left = std::min(region.left, x);
      bottom = std::max(bottom, y + 1);
      right = std::max(right, x + 1);
    }
  if (count == 0) return {};
  region.height = bottom - region.top;
  region.width = right - region.left;
  EXPECT_EQ(count, region.height * region.width);  // a whole rectangle
  return region;
}

TEST(ColorOps, ErasesRectanglesOfTheReferencesDistribution) {
  const auto plan = plan_of(document(
      R"({"op":"random_erasing","value":9})", R"({"batch_size":1})",
      R"({"type":"arrays","count":1,"arrays":{"image":{"dtype":"uint8","shape":[60,80,1],"fingerprint":""}}})"));
  Scratch scratch;
  int erased = 0;
  int wide = 0;
  double area = 0;
  double top = 0;
  for (std::uint64_t record = 0; record < 1000; ++record) {
    const Outcome outcome = run_guarded(*plan, scratch, {.record = record}, {Bytes(60 * 80)});
    const Region region = erased_of(outcome.tensors[0]);
    if (region.height == 0) continue;
    ++erased;
    const double part = static_cast<double>(region.height * region.width) / (60 * 80);
    const double ratio = static_cast<double>(region.height) / static_cast<double>(region.width);
    EXPECT_GT(part, 0.017);  // 0.02 before both sides are rounded
    EXPECT_LT(part, 0.345);
    EXPECT_GT(ratio, 0.27);
    EXPECT_LT(ratio, 3.7);
    EXPECT_LT(region.height, 60);
    EXPECT_LT(region.width, 80);
    wide += ratio < 1;
    area += part;
    top += static_cast<double>(region.top) / static_cast<double>(60 - region.height);
  }
  EXPECT_NEAR(erased, 500, 65);
  EXPECT_NEAR(static_cast<double>(wide) / erased, 0.5, 0.12);
  EXPECT_NEAR(area / erased, 0.17, 0.02);
  EXPECT_NEAR(top / erased, 0.5, 0.07);
}

TEST(ColorOps, ErasesWithUniformNoise) {
  const auto plan = plan_of(document(
      R"({"op":"random_erasing","p":1,"value":"random"})", R"({"batch_size":1})",
      R"({"type":"arrays","count":1,"arrays":{"image":{"dtype":"uint8","shape":[60,80,1],"fingerprint":""}}})"));
  Scratch scratch;
  double sum = 0;
  std::array<int, 4> quarters{};
  int count = 0;
  for (std::uint64_t record = 0; record < 40; ++record) {
    const Outcome outcome = run_guarded(*plan, scratch, {.record = record}, {Bytes(60 * 80)});
    for (const std::byte value : outcome.tensors[0]) {
      if (value == std::byte{0}) continue;
      sum += std::to_integer<int>(value);
      ++quarters[std::to_integer<std::size_t>(value) / 64];
      ++count;
    }
  }
  ASSERT_GT(count, 5000);
  EXPECT_NEAR(sum / count, 128, 3);
  for (const int quarter : quarters) EXPECT_NEAR(static_cast<double>(quarter) / count, 0.25, 0.02);
}

// What other machines and compilers make too, and releases to come unless the ops' versions rise.
TEST(ColorOps, DrawsAndBitsAreStableOnEveryTarget) {
  for (const std::string& target : simd_targets()) {
    ASSERT_TRUE(force_simd_target(target));
    EXPECT_EQ(digest_of(color_ops()), "86988d55b1ee09e756f1901812c75e65") << target;
  }
  ASSERT_TRUE(force_simd_target(""));
}

}  // namespace
}  // namespace carya::transforms::testing
