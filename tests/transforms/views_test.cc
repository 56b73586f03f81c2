#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/transforms/samples_test_lib.h"
#include "transforms/plan/plan.h"

namespace carya::transforms::testing {
namespace {

using ::testing::HasSubstr;

const std::string kSimclr =
    kResizedCrop +
    R"(,{"op":"random_horizontal_flip"},{"op":"random_apply","p":0.8,"ops":[{"op":"color_jitter","brightness":0.8,)"
    R"("contrast":0.8,"saturation":0.8,"hue":0.2}]},{"op":"random_grayscale","p":0.2})";
const std::string kNormalize = R"(,{"op":"normalize","mean":[0.5,0.4,0.3],"std":0.25})";

std::string views(const std::string& ops) {
  return R"({"op":"two_views","ops":[)" + ops + "]}";
}

// What comes before the views, what makes them, what comes after.
struct Chain {
  std::string before;
  std::string views;
  std::string after;
};
std::vector<Chain> chains() {
  return {
      {kDecodeAlone, kSimclr, ""},
      {kDecodeAlone, kSimclr + kNormalize, ""},
      {kDecodeAlone +
           R"(,{"op":"random_vertical_flip"},{"op":"crop","top":2,"left":3,"height":40,"width":38})",
       kSimclr, ""},
      {R"({"op":"decode_image","apply_exif":true},{"op":"invert"},{"op":"random_horizontal_flip"})", kSimclr,
       ""},
      {R"({"op":"decode_image","apply_exif":true})",
       R"({"op":"random_crop","size":[20,22],"pad_if_needed":true},{"op":"random_erasing"})", ""},
      {R"({"op":"decode_image","mode":"L"},{"op":"resize","size":[30,32]})",
       R"({"op":"random_apply","ops":[{"op":"random_vertical_flip"}]},{"op":"grayscale","num_output_channels":3})",
       ""},
      {kDecodeAlone, kSimclr,
       R"(,{"op":"random_vertical_flip"},{"op":"invert","fields":["view_1"]},{"op":"to_dtype","fields":["view_0"]})"},
      {kDecodeAlone + "," + kResizedCrop, R"({"op":"random_horizontal_flip"})", ""},
      {kDecodeAlone + R"(,{"op":"random_rotation","degrees":[-20,20]})",
       kResizedCrop +
           R"(,{"op":"random_apply","ops":[{"op":"random_rotation","degrees":[-9,9]},{"op":"gaussian_blur","kernel_size":[5,5]}]})",
       ""},
  };
}

std::vector<Bytes> pictures() {
  return {make_jpeg(90, 70), make_jpeg(61, 64, 1), make_jpeg(70, 50, 3, true, 1, 6),
          make_jpeg(55, 81, 3, false, 2, 3)};
}

TEST(TwoViews, FusedEqualsOpByOp) {
  Scratch scratch;
  for (const Chain& chain : chains()) {
    const std::string json = document(chain.before + "," + views(chain.views) + chain.after);
    const auto fused = plan_of(json);
    const auto whole = plan_of(json, {.fuse = false});
    for (std::uint64_t record = 0; record < 16; ++record) {
      const Bytes picture = pictures()[record % 4];
      const auto made = tensors_of(*fused, scratch, record, picture);
      ASSERT_EQ(made.size(), 3u);
      ASSERT_TRUE(made == tensors_of(*whole, scratch, record, picture)) << json << ", record " << record;
      EXPECT_EQ(made[1], label_bytes(5));
    }
  }
}

TEST(TwoViews, TheFirstIsTheImageOfTheChainAndTheSecondIsDrawnByItself) {
  Scratch scratch;
  for (const Chain& chain : chains()) {
    if (!chain.after.empty()) continue;
    const auto twice = plan_of(document(chain.before + "," + views(chain.views)));
    const auto once = plan_of(document(chain.before + "," + chain.views));
    int different = 0;
    for (std::uint64_t record = 0; record < 16; ++record) {
      const Bytes picture = pictures()[record % 4];
      const auto made = tensors_of(*twice, scratch, record, picture);
      ASSERT_TRUE(made[0] == tensors_of(*once, scratch, record, picture)[0]) << chain.views;
      different += made[2] != made[0];
    }
    EXPECT_GT(different, 3) << chain.views;
  }
}

TEST(TwoViews, TheSecondHasTheNumbersOfOpsWrittenAfterTheFirst) {
  // On pictures of a fixed size, flips before change nothing but the count of flips.
  const Bytes picture = make_jpeg(70, 60);
  const auto twice = plan_of(document(kDecodeAlone + R"(,{"op":"center_crop","size":[20,21]},)" +
                                      views(R"({"op":"random_horizontal_flip"})")));
  const auto after = plan_of(
      document(kDecodeAlone + R"(,{"op":"center_crop","size":[20,21]},{"op":"random_horizontal_flip","p":0},)"
                              R"({"op":"random_horizontal_flip"})"));
  Scratch scratch;
  for (std::uint64_t record = 0; record < 16; ++record)
    EXPECT_EQ(tensors_of(*twice, scratch, record, picture)[2],
              tensors_of(*after, scratch, record, picture)[0]);
}

TEST(TwoViews, DecodeThePictureOnce) {
  const auto plan = plan_of(document(kDecodeAlone + "," + views(kSimclr)));
  Scratch scratch;
  for (std::uint64_t record = 0; record < 10; ++record) tensors_of(*plan, scratch, record, make_jpeg(90, 70));
  DecodePaths paths;
  plan->collect_decodes(scratch, paths);
  EXPECT_EQ(paths.own + paths.turbo, 10u);
  EXPECT_LE(paths.pixels, 10u * 90 * 70);
  std::vector<OpProfile> profile;
  plan->collect_profile(scratch, profile);
  std::vector<std::string> names;
  for (const OpProfile& stage : profile) names.push_back(stage.name);
  EXPECT_EQ(names, (std::vector<std::string>{"decode_image", "two_views+random_resized_crop",
                                             "random_horizontal_flip+random_apply[color_jitter]",
                                             "random_grayscale", "store"}));
}

TEST(TwoViews, AreBothCountedInTheProfile) {
  const auto plan = plan_of(document(kDecodeAlone + R"(,{"op":"resize","size":[30,20]},)" +
                                     views(R"({"op":"invert"},{"op":"resize","size":[10,20]})")));
  Scratch scratch;
  const Bytes picture = make_jpeg(50, 60);
  tensors_of(*plan, scratch, 0, picture);
  std::vector<OpProfile> profile;
  plan->collect_profile(scratch, profile);
  ASSERT_EQ(profile.size(), 4u);
  EXPECT_EQ(profile[0].bytes_in, picture.size());
  EXPECT_EQ(profile[0].bytes_out, 50u * 60 * 3);
  EXPECT_EQ(profile[1].name, "resize");
  EXPECT_EQ(profile[1].bytes_in, 2u * 50 * 60 * 3);
  EXPECT_EQ(profile[2].name, "two_views+invert");
  EXPECT_EQ(profile[2].bytes_in, 2u * 30 * 20 * 3);
  EXPECT_EQ(profile[3].bytes_out, 2u * 10 * 20 * 3);
  for (const OpProfile& stage : profile) {
    EXPECT_GT(stage.cpu_ns, 0u) << stage.name;
    EXPECT_LT(stage.cpu_ns, 1'000'000'000u) << stage.name;
  }
}

TEST(TwoViews, TakeArrays) {
  constexpr const char* kArrays =
      R"({"type":"arrays","count":1,"arrays":{"image":{"dtype":"uint8","shape":[4,5,3],)"
      R"("fingerprint":"00000000000000000000000000000000"},"x":{"dtype":"float32","shape":[2],)"
      R"("fingerprint":"00000000000000000000000000000000"}}})";
  Bytes image(60);
  for (std::size_t i = 0; i < image.size(); ++i) image[i] = static_cast<std::byte>(i * 37);
  const std::vector<Bytes> inputs{image, Bytes(8, std::byte{1})};
  for (const char* ops :
       {R"({"op":"random_horizontal_flip"},{"op":"invert"})", R"({"op":"to_layout","layout":"CHW"})",
        R"({"op":"normalize","mean":0.5,"std":0.5,"layout":"keep"})"}) {
    const std::string json = document(views(ops), R"({"batch_size":1})", kArrays);
    Scratch scratch;
    const auto made = run_guarded(*plan_of(json), scratch, {.record = 3}, inputs).tensors;
    ASSERT_EQ(made.size(), 3u);
    EXPECT_EQ(made, run_guarded(*plan_of(json, {.fuse = false}), scratch, {.record = 3}, inputs).tensors)
        << ops;
    EXPECT_EQ(made[1], inputs[1]);
  }
}

TEST(TwoViews, HaveTheirPlacesAmongTheFields) {
  const auto pipeline = pipeline_of(document(kDecodeAlone + "," + views(kResizedCrop + kNormalize)));
  const auto& outputs = pipeline->outputs();
  ASSERT_EQ(outputs.size(), 3u);
  EXPECT_EQ(outputs[0].to_string(), "float32[3, 24, 31]");
  EXPECT_EQ(outputs[0].name, "view_0");
  EXPECT_EQ(outputs[1].name, "label");
  EXPECT_EQ(outputs[2].name, "view_1");
  EXPECT_EQ(outputs[2].to_string(), outputs[0].to_string());
}

TEST(TwoViews, RefuseWhatTheyCannotSeeTwice) {
  EXPECT_THAT(op_error(views(kResizedCrop)),
              HasSubstr("two_views: image is uint8[?]; give a picture: put decode_image"));
  EXPECT_THAT(op_error(kDecodeAlone + R"(,{"op":"to_dtype","dtype":"int64"},)" +
                       views(R"({"op":"to_dtype","dtype":"uint8"})")),
              HasSubstr("give a picture: put it before normalize"));
  EXPECT_THAT(
      op_error(kDecodeAlone + "," + views(R"({"op":"random_horizontal_flip"})")),
      HasSubstr(
          "two_views: ops leave uint8[?, ?, 3]; give one shape for both views: add random_resized_crop"));
  EXPECT_THAT(op_error(kDecodeAlone + "," + views(kResizedCrop + R"(,{"op":"to_dtype","fields":["label"]})")),
              HasSubstr("label"));
  EXPECT_THAT(op_error(kDecodeAlone + "," + views(kResizedCrop) + "," + views(kResizedCrop)),
              HasSubstr("two_views: fields is missing and there is no \"image\"; give fields= with names "
                        "among view_0, label, view_1"));
  EXPECT_THAT(op_error(kDecodeAlone + "," + views(kDecodeAlone)),
              HasSubstr("two_views: ops has decode_image; give geometric"));
  EXPECT_THAT(op_error(kDecodeAlone + "," + views(views(kResizedCrop))),
              HasSubstr("two_views: ops has two_views; give geometric"));
  EXPECT_THAT(op_error(kDecodeAlone + R"(,{"op":"random_apply","ops":[)" + views(kResizedCrop) + "]}"),
              HasSubstr("random_apply: ops has two_views; give"));
  EXPECT_THAT(op_error(kDecodeAlone + "," + views(R"({"op":"random_crop"})")),
              HasSubstr("two_views: random_crop: size is missing"));
  EXPECT_THAT(op_error(kDecodeAlone + R"(,{"op":"two_views"})"),
              HasSubstr("two_views: ops is missing; give a list of 1 to 63"));
  constexpr const char* kMask = R"({"type":"files","paths":["a"],"extra":{"mask":["b"]}})";
  for (const std::string& decode : {kDecodeAlone, std::string(R"({"op":"decode_image","fields":["image"]})")})
    EXPECT_THAT(op_error(decode + "," + views(kResizedCrop), kMask), HasSubstr("two_views: mask is uint8[?"))
        << decode;
  std::string many = kResizedCrop;
  for (int i = 1; i < 31; ++i) many += R"(,{"op":"invert"})";
  EXPECT_EQ(op_error(kDecodeAlone + "," + views(many)), "no error");
  EXPECT_THAT(op_error(kDecodeAlone + "," + views(many + R"(,{"op":"invert"})")),
              HasSubstr("a list of at most 64 ops"));
}

TEST(TwoViews, AreWrittenWithTheirOps) {
  const std::string ops = kDecodeAlone + "," + views(kSimclr);
  const auto pipeline = pipeline_of(document(ops));
  EXPECT_EQ(pipeline_of(pipeline->to_json())->to_json(), pipeline->to_json());
  EXPECT_THAT(pipeline->lines()[2].text, HasSubstr("two_views(ops=[random_resized_crop(size=[24, 31]"));
  EXPECT_THAT(pipeline->lines()[2].text, HasSubstr("random_apply(ops=[color_jitter(brightness=[0.19999"));
  const auto other = pipeline_of(document(kDecodeAlone + "," + views(kSimclr + R"(,{"op":"invert"})")));
  EXPECT_NE(pipeline->fingerprint(OnError::kRaise).hex(), other->fingerprint(OnError::kRaise).hex());
}

}  // namespace
}  // namespace carya::transforms::testing
