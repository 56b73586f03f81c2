#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/transforms/samples_test_lib.h"
#include "transforms/ops/color.h"
#include "transforms/plan/plan.h"
#include "transforms/simd/targets.h"

namespace carya::transforms::testing {
namespace {

using ::testing::HasSubstr;

// Every op that warps, by both filters.
const std::vector<std::string>& warp_ops() {
  static const std::vector<std::string> kOps = {
      R"({"op":"rotate","angle":33,"fill":[9,90,190]})",
      R"({"op":"rotate","angle":-12.5,"interpolation":"bilinear","center":[3,40]})",
      R"({"op":"random_rotation","degrees":[20,70],"interpolation":"bilinear","fill":255})",
      R"({"op":"affine","angle":12,"translate":[5,-7.5],"scale":0.8,"shear":[9,-4]})",
      R"({"op":"affine","angle":0,"translate":[-3,2],"scale":1.7,"shear":20,"interpolation":"bilinear","fill":40})",
      R"({"op":"random_affine","degrees":0,"translate":[0.3,0.2]})",
      R"({"op":"random_affine","degrees":30,"translate":[0.1,0.2],"scale":[0.5,1.5],"shear":[-9,9,-5,5],)"
      R"("interpolation":"bilinear","extra_interpolation":"nearest","fill":[1,2,3],"center":[10,20]})",
  };
  return kOps;
}

// What `ops` make of one array, for this record.
Bytes made_of(const std::string& ops, const std::string& shape, const Bytes& row, std::uint64_t record = 0) {
  const auto plan = plan_of(document(ops, R"({"batch_size":1})", array_source(shape)));
  Scratch scratch;
  return run_guarded(*plan, scratch, {.record = record}, {row}).tensors.at(0);
}

Bytes bytes_of(std::initializer_list<int> values) {
  Bytes bytes;
  for (const int value : values) bytes.push_back(static_cast<std::byte>(value));
  return bytes;
}

TEST(WarpOps, FusedEqualsOpByOpAmongStepsThatWait) {
  const std::string resize = R"({"op":"resize","size":[30,40]},{"op":"gaussian_blur","kernel_size":5},)";
  for (const std::string& op : warp_ops()) expect_fused_is_whole_among_waiting_steps(op, resize);
}

TEST(WarpOps, ThatWaitForOneAnotherGiveTheBitsOfOpByOp) {
  const std::string flips = R"({"op":"random_horizontal_flip"},{"op":"random_vertical_flip"},)";
  const std::string turn = R"({"op":"random_rotation","degrees":180,"interpolation":"bilinear","fill":9},)";
  const std::string shear = R"({"op":"random_affine","degrees":20,"shear":30,"translate":[0.5,0.5]},)";
  const std::string crop = R"({"op":"random_crop","size":[40,37]},)";
  const std::string last = R"({"op":"random_resized_crop","size":[20,21]})";
  const std::vector<std::string> chains = {
      flips + turn + last,
      turn + flips + shear + flips + last,
      crop + flips + turn + crop + flips + shear + R"({"op":"center_crop","size":[9,50]})",
      turn + shear + turn + flips + shear + turn + shear + last,  // more than can wait
      shear + R"({"op":"gaussian_blur","kernel_size":3},)" + turn +
          R"({"op":"crop","top":-3,"left":5,"height":9,"width":8})",
      R"({"op":"affine","angle":0,"translate":[4000,0],"scale":1,"shear":0,"fill":3},)" +
          last};  // all from outside
  const std::vector<Bytes> pictures = {make_jpeg(90, 70), make_jpeg(41, 64, 1),
                                       make_jpeg(70, 50, 3, true, 1, 6)};
  Scratch scratch;
  for (const std::string& chain : chains) {
    const std::string json = document(R"({"op":"decode_image","apply_exif":true},)" + chain);
    const auto fused = plan_of(json);
    const auto whole = plan_of(json, {.fuse = false});
    for (std::uint64_t record = 0; record < 60; ++record) {
      const std::vector<Bytes> inputs{pictures[record % pictures.size()], label_bytes(0)};
      const Outcome a = run_guarded(*fused, scratch, {.record = record}, inputs);
      ASSERT_FALSE(a.error) << json << ": " << a.error->message;
      ASSERT_TRUE(a.tensors == run_guarded(*whole, scratch, {.record = record}, inputs).tensors)
          << json << ", record " << record;
    }
  }
}

TEST(WarpOps, MoveEveryImageAlikeByItsOwnFilter) {
  const std::string source = R"({"type":"files","paths":["a"],"labels":[1],"extra":{"mask":["b"]}})";
  const Bytes picture = make_jpeg(60, 50);
  const std::string start = kDecode + R"({"op":"center_crop","size":[40,41]},)";
  const auto with = [&](const std::string& filters) {
    return plan_of(document(start + R"({"op":"random_affine","degrees":90,"shear":20)" + filters + "}",
                            R"({"batch_size":1})", source));
  };
  const auto nearest = with("");
  const auto bilinear = with(R"(,"interpolation":"bilinear")");
  const auto mixed = with(R"(,"interpolation":"bilinear","extra_interpolation":"nearest")");
  Scratch scratch;
  for (std::uint64_t record = 0; record < 16; ++record) {
    const std::vector<Bytes> inputs{picture, picture, label_bytes(1)};
    const auto a = run_guarded(*nearest, scratch, {.record = record}, inputs).tensors;
    const auto b = run_guarded(*bilinear, scratch, {.record = record}, inputs).tensors;
    const auto c = run_guarded(*mixed, scratch, {.record = record}, inputs).tensors;
    EXPECT_EQ(a[0], a[1]);
    EXPECT_EQ(b[0], b[1]);
    EXPECT_NE(a[0], b[0]);
    EXPECT_EQ(c[0], b[0]);
    EXPECT_EQ(c[1], a[1]);
  }
}

TEST(WarpOps, TurnShiftAndStretchAsTheirNamesSay) {
  const Bytes nine = bytes_of({1, 2, 3, 4, 5, 6, 7, 8, 9});
  for (const std::string filter : {"nearest", "bilinear"}) {
    const auto made = [&](const std::string& op) {
      return made_of("{" + op + R"(,"interpolation":")" + filter + R"("})", "[3,3,1]", nine);
    };
    EXPECT_EQ(made(R"("op":"rotate","angle":0)"), nine);
    EXPECT_EQ(made(R"("op":"rotate","angle":720)"), nine);
    EXPECT_EQ(made(R"("op":"rotate","angle":90)"), bytes_of({3, 6, 9, 2, 5, 8, 1, 4, 7}));
    EXPECT_EQ(made(R"("op":"rotate","angle":-180)"), bytes_of({9, 8, 7, 6, 5, 4, 3, 2, 1}));
    EXPECT_EQ(made(R"("op":"rotate","angle":180,"center":[1.5,1],"fill":50)"),
              bytes_of({6, 5, 4, 3, 2, 1, 50, 50, 50}));
    EXPECT_EQ(made(R"("op":"affine","angle":0,"translate":[1,-1],"scale":1,"shear":0,"fill":50)"),
              bytes_of({50, 4, 5, 50, 7, 8, 50, 50, 50}));
    EXPECT_EQ(made(R"("op":"affine","angle":0,"translate":[0,0],"scale":0.001,"shear":0,"fill":50)"),
              bytes_of({50, 50, 50, 50, 5, 50, 50, 50, 50}));
  }
  EXPECT_EQ(made_of(R"({"op":"affine","angle":90,"translate":[0,0],"scale":1,"shear":0})", "[3,3,1]", nine),
            bytes_of({7, 4, 1, 8, 5, 2, 9, 6, 3}));  // clockwise
  EXPECT_EQ(made_of(R"({"op":"affine","angle":0,"translate":[0,0],"scale":1,"shear":45})", "[3,3,1]", nine),
            bytes_of({0, 1, 2, 4, 5, 6, 8, 9, 0}));
}

TEST(WarpOps, CheckTheirParameters) {
  EXPECT_THAT(op_error(kDecode + R"({"op":"rotate"})"), HasSubstr("rotate: angle is missing"));
  EXPECT_THAT(op_error(kDecode + R"({"op":"rotate","angle":3,"expand":true})"),
              HasSubstr("expand: got True; give False: the size stays"));
  EXPECT_THAT(op_error(kDecode + R"({"op":"random_rotation","degrees":5,"expand":true})"),
              HasSubstr("expand: got True; give False: the size stays"));
  EXPECT_THAT(op_error(kDecode + R"({"op":"rotate","angle":3,"interpolation":"bicubic"})"),
              HasSubstr("interpolation: got 'bicubic'; give one of \"nearest\", \"bilinear\""));
  EXPECT_THAT(op_error(kDecode + R"({"op":"rotate","angle":3,"fill":[1,2]})"),
              HasSubstr("fill has 2 values and an image 3 channels"));
  EXPECT_THAT(op_error(kDecode + R"({"op":"rotate","angle":3,"center":[1]})"),
              HasSubstr("center: got [1]; give None or [x, y]"));
  EXPECT_THAT(op_error(kDecode + R"({"op":"random_rotation","degrees":-5})"),
              HasSubstr("degrees: got -5; give one number from 0 or [low, high] with low <= high"));
  EXPECT_THAT(op_error(kDecode + R"({"op":"random_rotation","degrees":[5,4]})"),
              HasSubstr("degrees: got [5, 4]; give"));
  EXPECT_THAT(op_error(kDecode + R"({"op":"affine","angle":1,"translate":[0,0],"scale":0,"shear":0})"),
              HasSubstr("scale: got 0; give a number, 0.001 to 1000.0"));
  EXPECT_THAT(op_error(kDecode + R"({"op":"affine","angle":1,"translate":[0,0],"scale":1,"shear":90})"),
              HasSubstr("shear: got 90; give one number (along x) or [x, y], in degrees"));
  EXPECT_THAT(op_error(kDecode + R"({"op":"affine","angle":1,"translate":3,"scale":1,"shear":9})"),
              HasSubstr("translate: got 3; give [x, y] in pixels"));
  EXPECT_THAT(op_error(kDecode + R"({"op":"random_affine","degrees":1,"translate":[0,1.5]})"),
              HasSubstr("translate: got [0, 1.5]; give None or [x, y], parts of the width and the height"));
  EXPECT_THAT(op_error(kDecode + R"({"op":"random_affine","degrees":1,"scale":[2,1]})"),
              HasSubstr("scale: got [2, 1]; give None or [low, high] with low <= high"));
  for (const std::string shear : {"-3", "[4, 3]", "[1, 2, 3]", "[1, 2, 4, 3]", "[0, 90]"})
    EXPECT_THAT(op_error(kDecode + R"({"op":"random_affine","degrees":1,"shear":)" + shear + "}"),
                HasSubstr("shear: got " + shear + "; give None, one number from 0, [low, high] or"));
  for (const std::string& op : warp_ops())
    EXPECT_THAT(op_error(kDecode + R"({"op":"to_dtype","dtype":"int64"},)" + op),
                HasSubstr("give uint8 HWC images"))
        << op;
}

std::string json_of(const std::string& op) {
  return pipeline_of(document(kDecode + op, "null"))->ops()[1]->json();
}

TEST(WarpOps, WriteTheirRanges) {
  EXPECT_EQ(json_of(R"({"op":"rotate","angle":3})"),
            R"({"op":"rotate","angle":3.0,"expand":false,"interpolation":"nearest",)"
            R"("extra_interpolation":null,"center":null,"fill":[0]})");
  EXPECT_EQ(json_of(R"({"op":"random_rotation","degrees":3})"),
            json_of(R"({"op":"random_rotation","degrees":[-3,3]})"));
  EXPECT_EQ(json_of(R"({"op":"affine","angle":1,"translate":[1,2],"scale":1,"shear":3})"),
            json_of(R"({"op":"affine","angle":1,"translate":[1,2],"scale":1,"shear":[3,0]})"));
  EXPECT_EQ(json_of(R"({"op":"random_affine","degrees":0,"shear":4})"),
            json_of(R"({"op":"random_affine","degrees":0,"shear":[-4,4,0,0]})"));
  EXPECT_EQ(json_of(R"({"op":"random_affine","degrees":0})"),
            R"({"op":"random_affine","degrees":[0.0,0.0],"translate":null,"scale":null,"shear":null,)"
            R"("interpolation":"nearest","extra_interpolation":null,"center":null,"fill":[0]})");
  for (const std::string& op : warp_ops()) EXPECT_EQ(json_of(json_of(op)), json_of(op));
}

// The matrices that the op draws for 2000 records of 100 x 60 pixels.
std::vector<std::array<double, 6>> drawn(const std::string& op) {
  const auto pipeline = pipeline_of(document(kDecode + op, "null"));
  const auto& geometric = static_cast<const GeometricOp&>(*pipeline->ops()[1]);
  std::vector<std::array<double, 6>> all;
  for (std::uint64_t record = 0; record < 2000; ++record) {
    SampleRng rng(op_key(7, geometric.name(), 0), 0, record, 0);
    StepList steps;
    EXPECT_TRUE(geometric.resolve(rng, {60, 100}, steps));
    EXPECT_EQ(steps.count, 1u);
    EXPECT_EQ(steps.steps[0].kind, Step::Kind::kWarp);
    all.push_back(steps.steps[0].matrix);
  }
  return all;
}

// Whether values are spread evenly between these ends.
void expect_uniform(std::vector<double> values, double low, double high) {
  std::sort(values.begin(), values.end());
  EXPECT_GE(values.front(), low - 1e-9);
  EXPECT_LE(values.back(), high + 1e-9);
  for (const double part : {0.0, 0.25, 0.5, 0.75, 1.0}) {
    const double at = values[static_cast<std::size_t>(part * static_cast<double>(values.size() - 1))];
    EXPECT_NEAR((at - low) / (high - low), part, 0.05);
  }
}

TEST(WarpOps, DrawEvenlyFromTheirRanges) {
  constexpr double kDegree = 57.29577951308232;
  std::vector<double> angles;
  for (const auto& m : drawn(R"({"op":"random_rotation","degrees":[10,40]})")) {
    angles.push_back(std::atan2(-m[1], m[0]) * kDegree);
    EXPECT_NEAR(m[0] * 50 + m[1] * 30 + m[2], 50, 1e-9);  // the middle stays
    EXPECT_NEAR(m[3] * 50 + m[4] * 30 + m[5], 30, 1e-9);
  }
  expect_uniform(angles, 10, 40);
  std::vector<double> right;
  std::vector<double> down;
  for (const auto& m : drawn(R"({"op":"random_affine","degrees":[1e-9,1e-9],"translate":[0.3,0.5]})")) {
    right.push_back(-std::rint(m[2]));
    down.push_back(-std::rint(m[5]));
    EXPECT_NEAR(m[2], std::rint(m[2]), 1e-6);
    EXPECT_NEAR(m[5], std::rint(m[5]), 1e-6);
  }
  expect_uniform(right, -30, 30);
  expect_uniform(down, -30, 30);
  std::vector<double> scales;
  std::vector<double> shears;
  for (const auto& m : drawn(R"({"op":"random_affine","degrees":0,"scale":[0.5,2],"shear":[10,30]})")) {
    scales.push_back(1 / m[4]);
    shears.push_back(std::atan(m[1] / m[4]) * kDegree);
  }
  expect_uniform(scales, 0.5, 2);
  expect_uniform(shears, 10, 30);
}

TEST(WarpOps, ADrawDoesNotDependOnWhatElseIsGiven) {
  const auto angle = [](const std::array<double, 6>& m) { return std::atan2(m[3], m[0]); };
  const auto alone = drawn(R"({"op":"random_affine","degrees":80})");
  const auto scaled = drawn(R"({"op":"random_affine","degrees":80,"scale":[2,4],"translate":[0.1,0.1]})");
  for (std::size_t i = 0; i < alone.size(); ++i) EXPECT_NEAR(angle(alone[i]), angle(scaled[i]), 1e-12);
}

TEST(GaussianBlurOp, ChecksItsParametersAndWritesThem) {
  const std::string what = "give odd numbers up to 127: one, or [width, height]";
  for (const std::string size : {"4", "[3, 6]", "[3, 0]", "129", "[1, 3, 5]"})
    EXPECT_THAT(op_error(kDecode + R"({"op":"gaussian_blur","kernel_size":)" + size + "}"),
                HasSubstr("kernel_size: got " + size + "; " + what));
  EXPECT_THAT(op_error(kDecode + R"({"op":"gaussian_blur"})"), HasSubstr("kernel_size is missing"));
  for (const std::string sigma : {"0", "[2, 1]", "[0, 1]", "-1"})
    EXPECT_THAT(op_error(kDecode + R"({"op":"gaussian_blur","kernel_size":3,"sigma":)" + sigma + "}"),
                HasSubstr("sigma: got " + sigma + "; give one number or [low, high] with low <= high"));
  EXPECT_EQ(json_of(R"({"op":"gaussian_blur","kernel_size":5})"),
            R"({"op":"gaussian_blur","kernel_size":[5,5],"sigma":[0.1,2.0],"fields":null})");
  EXPECT_EQ(json_of(R"({"op":"gaussian_blur","kernel_size":[5,7],"sigma":1.5})"),
            R"({"op":"gaussian_blur","kernel_size":[5,7],"sigma":[1.5,1.5],"fields":null})");
}

TEST(GaussianBlurOp, DrawsItsDeviationEvenly) {
  const auto pipeline = pipeline_of(
      document(kDecode + R"({"op":"gaussian_blur","kernel_size":[5,9],"sigma":[0.5,3]})", "null"));
  const auto& op = static_cast<const ColorOp&>(*pipeline->ops()[1]);
  std::vector<double> deviations;
  for (std::uint64_t record = 0; record < 2000; ++record) {
    SampleRng rng(op_key(7, op.name(), 0), 0, record, 0);
    ColorSteps steps;
    op.draw(rng, {10, 10}, 3, steps);
    ASSERT_EQ(steps.count, 1u);
    EXPECT_EQ(steps.steps[0].kernel, (std::array<std::int32_t, 2>{5, 9}));
    deviations.push_back(static_cast<double>(steps.steps[0].factor));
  }
  expect_uniform(deviations, 0.5, 3);
}

TEST(GaussianBlurOp, BlursByWidthAndHeight) {
  Bytes dot(7 * 7);
  dot[24] = std::byte{250};
  const auto touched = [&](const std::string& size) {
    const Bytes made =
        made_of(R"({"op":"gaussian_blur","sigma":100,"kernel_size":)" + size + "}", "[7,7,1]", dot);
    return std::count_if(made.begin(), made.end(), [](std::byte value) { return value != std::byte{0}; });
  };
  EXPECT_EQ(touched("3"), 9);
  EXPECT_EQ(touched("[5,1]"), 5);
  EXPECT_EQ(touched("[1,3]"), 3);
  EXPECT_EQ(touched("1"), 1);
}

// What other machines and compilers make too, and releases to come unless the ops' versions rise.
TEST(WarpOps, DrawsAndBitsAreStableOnEveryTarget) {
  for (const std::string& target : simd_targets()) {
    ASSERT_TRUE(force_simd_target(target));
    EXPECT_EQ(digest_of(warp_ops()), "5b7b161a1f945378ea1bb12fd9994e34") << target;
  }
  ASSERT_TRUE(force_simd_target(""));
}

}  // namespace
}  // namespace carya::transforms::testing
