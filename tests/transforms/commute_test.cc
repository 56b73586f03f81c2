#include <gtest/gtest.h>

#include "tests/transforms/samples_test_lib.h"
#include "transforms/op/op.h"

namespace carya::transforms::testing {
namespace {

struct Pair {
  std::string first;
  std::string second;
};

// Every pair that is declared exact, with parameters that show a difference if there is one.
std::vector<Pair> exact_pairs() {
  std::vector<Pair> pairs = {
      {R"({"op":"random_horizontal_flip"})", R"({"op":"random_vertical_flip"})"},
      {R"({"op":"random_vertical_flip"})", R"({"op":"random_horizontal_flip"})"},
      {R"({"op":"to_dtype","dtype":"float32","scale":true})", R"({"op":"to_layout","layout":"CHW"})"},
      {R"({"op":"to_layout","layout":"CHW"})", R"({"op":"to_dtype","dtype":"int64"})"},
  };
  for (const char* color :
       {R"({"op":"invert"})", R"({"op":"solarize","threshold":120})", R"({"op":"posterize","bits":2})",
        R"({"op":"grayscale"})", R"({"op":"random_grayscale","p":0.5})", R"({"op":"autocontrast"})",
        R"({"op":"gaussian_blur","kernel_size":[5,23],"sigma":[1,9]})", R"({"op":"equalize"})",
        R"({"op":"adjust_sharpness","sharpness_factor":1.9})",
        R"({"op":"color_jitter","brightness":0.4,"contrast":0.4,"saturation":0.4,"hue":0.2})",
        R"({"op":"random_apply","ops":[{"op":"invert"},{"op":"color_jitter","hue":0.2},{"op":"equalize"}]})"})
    for (const char* flip : {R"({"op":"random_horizontal_flip"})", R"({"op":"random_vertical_flip"})"}) {
      pairs.push_back({color, flip});
      pairs.push_back({flip, color});
    }
  for (const char* cast :
       {R"({"op":"to_dtype"})", R"({"op":"to_dtype","scale":true})", R"({"op":"posterize","bits":2})"})
    for (const char* warp : {R"({"op":"rotate","angle":31})",
                             R"({"op":"random_affine","degrees":40,"scale":[0.5,2],"shear":20})"}) {
      pairs.push_back({cast, warp});
      pairs.push_back({warp, cast});
    }
  pairs.push_back({R"({"op":"random_apply","ops":[{"op":"random_vertical_flip"},{"op":"invert"}]})",
                   R"({"op":"random_horizontal_flip"})"});
  return pairs;
}

const std::string kStart = R"({"op":"decode_image"},{"op":"random_resized_crop","size":[20,30]},)";

TEST(Commutes, ExactPairsGiveTheSameBitsInBothOrders) {
  const Bytes image = make_jpeg(77, 60);
  for (const Pair& pair : exact_pairs()) {
    const auto pipeline = pipeline_of(document(kStart + pair.first + "," + pair.second));
    EXPECT_EQ(commutes(*pipeline->ops()[2], *pipeline->ops()[3]), Commutes::kExact) << pair.first;
    const auto there = plan_of(document(kStart + pair.first + "," + pair.second), {.fuse = false});
    const auto back = plan_of(document(kStart + pair.second + "," + pair.first), {.fuse = false});
    Scratch scratch;
    for (std::uint64_t record = 0; record < 16; ++record)
      EXPECT_EQ(run_guarded(*there, scratch, {.record = record}, {image, label_bytes(0)}).tensors,
                run_guarded(*back, scratch, {.record = record}, {image, label_bytes(0)}).tensors)
          << pair.first << " and " << pair.second;
  }
}

TEST(Commutes, SaysNeverOrRelaxedOfTheOthers) {
  const auto of = [](const std::string& first, const std::string& second) {
    const auto pipeline = pipeline_of(document(R"({"op":"decode_image"},)" + first + "," + second));
    return commutes(*pipeline->ops()[1], *pipeline->ops()[2]);
  };
  const std::string flip = R"({"op":"random_horizontal_flip"})";
  EXPECT_EQ(of(R"({"op":"random_crop","size":[9,9]})", flip), Commutes::kRelaxed);
  EXPECT_EQ(of(R"({"op":"random_sized_crop"})", flip), Commutes::kRelaxed);
  EXPECT_EQ(of(flip, R"({"op":"random_resized_crop","size":[9,9]})"), Commutes::kRelaxed);
  EXPECT_EQ(of(flip, R"({"op":"center_crop","size":[9,9]})"), Commutes::kRelaxed);
  EXPECT_EQ(of(flip, R"({"op":"crop","top":0,"left":0,"height":9,"width":9})"), Commutes::kNever);
  EXPECT_EQ(of(flip, R"({"op":"random_erasing"})"), Commutes::kRelaxed);
  EXPECT_EQ(of(R"({"op":"random_erasing"})", flip), Commutes::kRelaxed);
  EXPECT_EQ(of(R"({"op":"invert"})", R"({"op":"equalize"})"), Commutes::kNever);
  EXPECT_EQ(of(R"({"op":"random_apply","ops":[{"op":"invert"},{"op":"random_erasing"}]})", flip),
            Commutes::kRelaxed);
  EXPECT_EQ(
      of(flip,
         R"({"op":"two_views","ops":[{"op":"random_vertical_flip"},{"op":"center_crop","size":[9,9]}]})"),
      Commutes::kNever);
  EXPECT_EQ(of(R"({"op":"random_apply","ops":[{"op":"invert"},{"op":"random_erasing"}]})",
               R"({"op":"random_apply","ops":[{"op":"random_vertical_flip"},{"op":"invert"}]})"),
            Commutes::kNever);
  EXPECT_EQ(of(flip, R"({"op":"random_rotation","degrees":9})"), Commutes::kNever);
  EXPECT_EQ(of(R"({"op":"random_affine","degrees":9})", flip), Commutes::kNever);
  EXPECT_EQ(of(R"({"op":"invert"})", R"({"op":"gaussian_blur","kernel_size":5})"), Commutes::kRounding);
  EXPECT_EQ(of(R"({"op":"random_grayscale"})", R"({"op":"invert"})"), Commutes::kRounding);
  const std::string cut = R"({"op":"random_resized_crop","size":[9,9]})";
  EXPECT_EQ(of(R"({"op":"equalize"})", cut), Commutes::kRelaxed);
  EXPECT_EQ(of(R"({"op":"random_apply","ops":[{"op":"color_jitter","contrast":0.4}]})", cut),
            Commutes::kRelaxed);
  EXPECT_EQ(of(R"({"op":"rotate","angle":9})", cut), Commutes::kRelaxed);
  // A blur of so many pixels is another blur where pixels show less; it passes what only cuts.
  EXPECT_EQ(of(R"({"op":"gaussian_blur","kernel_size":5})", cut), Commutes::kNever);
  EXPECT_EQ(of(R"({"op":"gaussian_blur","kernel_size":5})", R"({"op":"random_crop","size":[9,9]})"),
            Commutes::kRelaxed);
  // Moved by so many pixels, turned about a given one.
  EXPECT_EQ(of(R"({"op":"rotate","angle":9,"center":[3,4]})", cut), Commutes::kNever);
  EXPECT_EQ(of(R"({"op":"affine","angle":0,"translate":[3,4],"scale":1,"shear":0})", cut), Commutes::kNever);
  // What is shown beyond the image would become another color.
  EXPECT_EQ(of(R"({"op":"invert"})", R"({"op":"rotate","angle":9})"), Commutes::kNever);
  EXPECT_EQ(of(R"({"op":"rotate","angle":9,"fill":[1,2,3]})", R"({"op":"grayscale"})"), Commutes::kNever);
  EXPECT_EQ(of(R"({"op":"to_dtype"})", R"({"op":"rotate","angle":9,"fill":7})"), Commutes::kRounding);
  EXPECT_EQ(of(R"({"op":"to_dtype"})", R"({"op":"rotate","angle":9,"interpolation":"bilinear"})"),
            Commutes::kRounding);
  EXPECT_EQ(of(R"({"op":"to_dtype"})", R"({"op":"rotate","angle":9,"extra_interpolation":"bilinear"})"),
            Commutes::kRounding);
  EXPECT_EQ(of(R"({"op":"random_erasing"})", cut), Commutes::kNever);
  EXPECT_EQ(
      of(R"({"op":"to_layout","layout":"CHW"})", R"({"op":"normalize","mean":0,"std":1,"layout":"HWC"})"),
      Commutes::kNever);
}

}  // namespace
}  // namespace carya::transforms::testing
