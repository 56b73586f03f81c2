// Ops on pictures that were cast to float32 before.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "tests/transforms/samples_test_lib.h"
#include "transforms/op/op.h"

namespace carya::transforms::testing {
namespace {

const std::string kUnit = R"({"op":"to_dtype","dtype":"float32","scale":true})";
const std::string kCast = R"({"op":"to_dtype","dtype":"float32"})";
const std::string kSize = R"({"op":"center_crop","size":[40,44]})";

// Ops that take single pixels as they are.
const std::vector<std::string>& movers() {
  static const std::vector<std::string> kOps = {
      R"({"op":"random_horizontal_flip","p":1.0})",
      R"({"op":"random_vertical_flip","p":1.0})",
      R"({"op":"random_crop","size":[30,31],"padding":[1,2,3,4]})",
      R"({"op":"random_crop","size":[30,31],"padding":[9,9,9,9],"padding_mode":"reflect"})",
      R"({"op":"crop","top":-3,"left":7,"height":50,"width":20})",
      R"({"op":"pad","padding":[3,4,5,6],"fill":[10,200,99]})",
      R"({"op":"pad","padding":[40,4,5,6],"padding_mode":"symmetric"})",
      R"({"op":"pad","padding":[3,4,5,6],"padding_mode":"edge"})",
      R"({"op":"rotate","angle":33,"fill":[1,2,3]})",
      R"({"op":"resize","size":[21,90],"interpolation":"nearest"})",
  };
  return kOps;
}

// Ops that compute values, which are levels on uint8.
const std::vector<std::string>& computers() {
  static const std::vector<std::string> kOps = {
      R"({"op":"resize","size":[21,33]})",
      R"({"op":"resize","size":[90,70],"antialias":false})",
      R"({"op":"random_resized_crop","size":[24,31]})",
      R"({"op":"random_rotation","degrees":180,"interpolation":"bilinear","fill":7})",
      R"({"op":"random_affine","degrees":20,"shear":30,"scale":[0.7,1.3],"interpolation":"bilinear"})",
      R"({"op":"gaussian_blur","kernel_size":[11,7]})",
      R"({"op":"invert"})",
      R"({"op":"grayscale","num_output_channels":3})",
      R"({"op":"random_grayscale","p":0.5})",
      R"({"op":"color_jitter","brightness":0.5})",
      R"({"op":"color_jitter","hue":0.5})",
  };
  return kOps;
}

std::vector<float> floats(const Bytes& bytes) {
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

// The largest distance of a value with the cast before the op from the one with it after the op.
float distance(const std::string& op, const std::string& cast) {
  const auto before = plan_of(document(kDecodeAlone + "," + kSize + "," + cast + "," + op));
  const auto after = plan_of(document(kDecodeAlone + "," + kSize + "," + op + "," + cast));
  const std::vector<Bytes> pictures = {make_jpeg(90, 70), make_jpeg(60, 64, 1)};
  Scratch scratch;
  float largest = 0.0F;
  for (std::uint64_t record = 0; record < 12; ++record) {
    const std::vector<Bytes> inputs{pictures[record % pictures.size()], label_bytes(0)};
    const Outcome a = run_guarded(*before, scratch, {.record = record}, inputs);
    const Outcome b = run_guarded(*after, scratch, {.record = record}, inputs);
    EXPECT_FALSE(a.error || b.error) << op;
    const std::vector<float> one = floats(a.tensors[0]);
    const std::vector<float> other = floats(b.tensors[0]);
    EXPECT_EQ(one.size(), other.size()) << op;
    for (std::size_t i = 0; i < one.size(); ++i) largest = std::max(largest, std::abs(one[i] - other[i]));
  }
  return largest;
}

TEST(FloatPictures, MovedAsUint8OnesAreTheSameValues) {
  for (const std::string& op : movers()) {
    EXPECT_EQ(distance(op, kUnit), 0.0F) << op;
    EXPECT_EQ(distance(op, kCast), 0.0F) << op;
  }
}

TEST(FloatPictures, AreWithinOneLevelOfUint8Ones) {
  for (const std::string& op : computers()) {
    const float largest = distance(op, kUnit);
    EXPECT_LE(largest, 1.01F / 255.0F) << op;
    if (op.find("invert") == std::string::npos) {
      EXPECT_GT(largest, 1e-4F) << op << " keeps what levels lose";
    }
  }
}

TEST(FloatPictures, JitterFromABaseThatIsNotRounded) {
  for (const std::string& op : {std::string(R"({"op":"color_jitter","contrast":0.5})"),
                                std::string(R"({"op":"color_jitter","saturation":0.5})")})
    EXPECT_LE(distance(op, kUnit), 1.5F / 255.0F)
        << op;  // a level, and half a one stretched to it by 1.5 - 1
}

TEST(FloatPictures, AreNotCutWhereACubicOvershoots) {
  const std::string cubic = R"({"op":"resize","size":[17,90],"interpolation":"bicubic","antialias":false})";
  EXPECT_GT(distance(cubic, kUnit), 0.05F);
}

TEST(FloatPictures, KeepWhatALevelWouldLose) {
  // Two values a level apart in equal parts, made half as large: their mean is no level.
  const std::string source =
      R"({"type":"arrays","count":1,"arrays":{"image":{"dtype":"uint8","shape":[2,8,1],"fingerprint":""}}})";
  const auto plan = plan_of(
      document(kCast + R"(,{"op":"resize","size":[1,4],"antialias":false})", R"({"batch_size":1})", source));
  Bytes row(16);
  for (std::size_t i = 0; i < row.size(); ++i) row[i] = static_cast<std::byte>(i < 8 ? 4 : 5);
  Scratch scratch;
  EXPECT_THAT(floats(run_guarded(*plan, scratch, {}, {row}).tensors[0]), ::testing::Each(4.5F));
}

TEST(FloatPictures, MasksBesideThemStayAsTheyAre) {
  const std::string source = R"({"type":"files","paths":["a"],"labels":[1],"extra":{"mask":["b"]}})";
  const std::string ops =
      R"({"op":"random_resized_crop","size":[30,31],"extra_interpolation":"nearest"},{"op":"random_horizontal_flip"})";
  const auto floating =
      plan_of(document(kDecodeAlone + "," + kUnit + "," + ops, R"({"batch_size":1})", source));
  const auto plain = plan_of(document(kDecodeAlone + "," + ops, R"({"batch_size":1})", source));
  const std::vector<Bytes> inputs{make_jpeg(60, 50), make_jpeg(60, 50, 3, false, 1, 1, 9), label_bytes(1)};
  Scratch scratch;
  for (std::uint64_t record = 0; record < 8; ++record) {
    const Outcome a = run_guarded(*floating, scratch, {.record = record}, inputs);
    const Outcome b = run_guarded(*plain, scratch, {.record = record}, inputs);
    ASSERT_FALSE(a.error || b.error);
    EXPECT_EQ(a.tensors[1], b.tensors[1]);
    EXPECT_EQ(a.tensors[0].size(), 4 * b.tensors[0].size());
  }
}

TEST(FloatPictures, ColorsNeedValuesUpToOne) {
  for (const std::string& op : {std::string(R"({"op":"gaussian_blur","kernel_size":3})"),
                                std::string(R"({"op":"color_jitter","hue":0.1})")}) {
    const auto parsed = Pipeline::parse(document(kDecodeAlone + "," + kCast + "," + op));
    ASSERT_FALSE(parsed);
    EXPECT_THAT(parsed.error().message,
                ::testing::HasSubstr("to_dtype(\"float32\", scale=True) may come before"));
  }
  for (const std::string& op :
       {std::string(R"({"op":"equalize"})"), std::string(R"({"op":"solarize","threshold":9})")}) {
    const auto parsed = Pipeline::parse(document(kDecodeAlone + "," + kUnit + "," + op));
    ASSERT_FALSE(parsed);
    EXPECT_THAT(parsed.error().message, ::testing::HasSubstr("put it before normalize, to_dtype"));
  }
}

}  // namespace
}  // namespace carya::transforms::testing
