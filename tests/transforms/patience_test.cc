#include "transforms/simd/patience.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/transforms/samples_test_lib.h"

namespace carya::transforms::testing {
namespace {

using ::testing::HasSubstr;

constexpr int kSide = 2000;  // 12 million values: some steps of Patience

TEST(Patience, AsksOnceForMuchWorkAndRemembersNo) {
  Patience patience;
  EXPECT_TRUE(patience.after(std::int64_t{1} << 62)) << "nobody to ask";
  int asked = 0;
  patience.set([&] { return ++asked < 3; });
  for (int i = 0; i < 1000; ++i) EXPECT_TRUE(patience.after(1000));
  EXPECT_EQ(asked, 0);
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(patience.after(std::int64_t{1} << 30));
  EXPECT_EQ(asked, 2);
  EXPECT_FALSE(patience.after(std::int64_t{1} << 30));
  EXPECT_FALSE(patience.after(0));
  EXPECT_TRUE(patience.given_up());
  EXPECT_EQ(asked, 3) << "no is no";
  patience.set({});
  EXPECT_TRUE(patience.after(std::int64_t{1} << 40)) << "of the next sample nothing is given up";
}

/// A chain with much work in one operation, and one in which that operation is missing or does nearly nothing: what is
/// asked more often was asked inside of it.
struct LongOp {
  const char* name;
  std::string chain;
  std::string short_chain;
  enum class Photo { kSmall, kLarge, kScans } photo = Photo::kSmall;
};

class LongOps : public ::testing::TestWithParam<LongOp> {};

int times_asked(const Plan& plan, const std::vector<Bytes>& inputs) {
  Scratch scratch;
  int asked = 0;
  scratch.set_go_on([&] { return ++asked > 0; });
  EXPECT_FALSE(run_guarded(plan, scratch, {1, 2, 0}, inputs).error);
  return asked;
}

TEST_P(LongOps, AreGivenUpInTheMiddle) {
  const LongOp& op = GetParam();
  const std::string cut = R"(,{"op":"resize","size":[16,16],"interpolation":"nearest"})";
  const auto plan = plan_of(document(op.chain + cut));
  const auto short_plan = plan_of(document(op.short_chain + cut));
  const std::vector<Bytes> little{make_jpeg(64, 64), Bytes(8)};
  const bool scans = op.photo == LongOp::Photo::kScans;
  const bool small = op.photo == LongOp::Photo::kSmall;
  const std::vector<Bytes> inputs{small ? little[0] : make_jpeg(kSide, kSide, 3, scans), Bytes(8)};
  const int between = times_asked(*short_plan, little);
  const int all = times_asked(*plan, inputs);
  EXPECT_GE(all, between + 2) << "asked inside of it";
  Scratch scratch;
  for (const int until : {between + 1, all}) {
    int asked = 0;
    scratch.set_go_on([&] { return ++asked < until; });
    const Outcome outcome = run_guarded(*plan, scratch, {1, 2, 0}, inputs);
    ASSERT_TRUE(outcome.error) << until;
    EXPECT_EQ(outcome.error->code, Code::kTimeout) << outcome.error->message;
    EXPECT_THAT(outcome.error->message, HasSubstr("given up"));
    EXPECT_EQ(asked, until) << "it ended with the first no";
  }
  scratch.set_go_on({});
  Scratch fresh;
  EXPECT_EQ(run_guarded(*plan, scratch, {1, 2, 0}, inputs).tensors,
            run_guarded(*plan, fresh, {1, 2, 0}, inputs).tensors)
      << "what was given up leaves nothing";
}

std::string resized(const std::string& rest, int side, const char* interpolation = "nearest") {
  return R"({"op":"decode_image"},{"op":"resize","size":[)" + std::to_string(side) + "," +
         std::to_string(side) + R"(],"interpolation":")" + interpolation + R"("})" + rest;
}
/// An operation on what a long resize made: without it, all else is asked as often.
LongOp after_resize(const char* name, const std::string& rest, const std::string& before = "") {
  return {name, resized(before + rest, kSide), resized(before, kSide)};
}
const std::string kFloats = R"(,{"op":"to_dtype","dtype":"float32","scale":true})";
const std::string kBlur = R"(,{"op":"gaussian_blur","kernel_size":31,"sigma":8})";
const std::string kTurn = R"(,{"op":"rotate","angle":30})";
const std::string kSmoothTurn = R"(,{"op":"rotate","angle":30,"interpolation":"bilinear"})";

// A step of two passes over pixels: some of the picture is left when it is asked.
const std::string kErase =
    R"(,{"op":"random_erasing","p":1,"scale":[0.9,0.9],"ratio":[1,1],"value":"random"})";
std::string jitter(const std::string& what) {
  return R"(,{"op":"color_jitter",")" + what + R"(":)" + (what == "hue" ? "[0.2,0.2]}" : "[1.5,1.5]}");
}

INSTANTIATE_TEST_SUITE_P(
    Patience, LongOps,
    ::testing::Values(LongOp{"photo", kDecodeAlone, kDecodeAlone, LongOp::Photo::kLarge},
                      LongOp{"scans", kDecodeAlone, kDecodeAlone, LongOp::Photo::kScans},
                      LongOp{"bilinear", resized("", kSide, "bilinear"), resized("", 32, "bilinear")},
                      LongOp{"bicubic", resized("", kSide, "bicubic"), resized("", 32, "bicubic")},
                      LongOp{"nearest", resized("", 2 * kSide), resized("", 32)}, after_resize("blur", kBlur),
                      after_resize("turn", kTurn), after_resize("smooth_turn", kSmoothTurn),
                      after_resize("float_blur", kBlur, kFloats), after_resize("float_turn", kTurn, kFloats),
                      LongOp{"float_resize", resized(kFloats + R"(,{"op":"resize","size":[2000,2000]})", 32),
                             resized(kFloats + R"(,{"op":"resize","size":[40,40]})", 32)}),
    [](const auto& given) { return given.param.name; });
INSTANTIATE_TEST_SUITE_P(
    Colors, LongOps,
    ::testing::Values(after_resize("invert", R"(,{"op":"invert"})"),
                      after_resize("solarize", R"(,{"op":"solarize","threshold":100})"),
                      after_resize("posterize", R"(,{"op":"posterize","bits":3})"),
                      after_resize("grayscale", R"(,{"op":"grayscale","num_output_channels":3})"),
                      after_resize("autocontrast", R"(,{"op":"autocontrast"})"),
                      after_resize("equalize", R"(,{"op":"equalize"})"),
                      after_resize("sharpness", R"(,{"op":"adjust_sharpness","sharpness_factor":2})"),
                      after_resize("brightness", jitter("brightness")),
                      after_resize("contrast", jitter("contrast")),
                      after_resize("saturation", jitter("saturation")), after_resize("hue", jitter("hue")),
                      after_resize("bands", jitter("saturation") + jitter("hue")),
                      after_resize("erase", kErase),
                      after_resize("float_contrast", jitter("contrast"), kFloats),
                      after_resize("float_hue", jitter("hue"), kFloats)),
    [](const auto& given) { return given.param.name; });

TEST(PassPrice, IsKnownBeforeAnyPassIsMade) {
  std::string chain = R"({"op":"decode_image"},{"op":"resize","size":[8000,8000]})";
  for (int i = 0; i < 20; ++i) chain += R"(,{"op":"gaussian_blur","kernel_size":3})";
  const std::string cut = R"(,{"op":"center_crop","size":[16,16]})";
  const std::vector<Bytes> inputs{make_jpeg(64, 64), Bytes(8)};
  for (const std::string& floats : {std::string(), kFloats}) {
    const auto plan = plan_of(document(chain + cut + floats), {.sample_ns_max = 2'000'000'000});
    Scratch scratch;
    int asked = 0;
    scratch.set_go_on([&] { return ++asked > 0; });
    const Outcome outcome = run_guarded(*plan, scratch, {1, 2, 0}, inputs);
    ASSERT_TRUE(outcome.error);
    EXPECT_EQ(outcome.error->code, Code::kCorrupt);
    EXPECT_THAT(outcome.error->message,
                HasSubstr("gaussian_blur: with what comes before it the sample takes 2."));
    EXPECT_THAT(outcome.error->message, HasSubstr("may take 2.0 s"));
    EXPECT_EQ(asked, 0) << "no pass was made";
  }
}

// What is decoded, at the most as the region that is kept: about 7 ms for 4 megapixels.
TEST(PassPrice, CountsWhatIsDecoded) {
  const std::vector<Bytes> inputs{make_jpeg(kSide, kSide), Bytes(8)};
  const std::vector<Bytes> scans{make_jpeg(kSide, kSide, 3, true), Bytes(8)};
  const std::string cut = R"(,{"op":"center_crop","size":[16,16]})";
  const std::string small = R"(,{"op":"resize","size":[16,16],"interpolation":"nearest"})";
  for (const bool fuse : {true, false}) {
    const PlanOptions options{.fuse = fuse, .sample_ns_max = 5'000'000};
    Scratch scratch;
    for (const auto& photo : {inputs, scans}) {
      const Outcome outcome =
          run_guarded(*plan_of(document(kDecodeAlone + small), options), scratch, {1, 2, 0}, photo);
      ASSERT_TRUE(outcome.error);
      EXPECT_EQ(outcome.error->code, Code::kCorrupt);
      EXPECT_THAT(outcome.error->message,
                  HasSubstr("decode_image: with the other operations the sample takes 0.0 s at the least"));
    }
    if (fuse) {
      EXPECT_FALSE(
          run_guarded(*plan_of(document(kDecodeAlone + cut), options), scratch, {1, 2, 0}, inputs).error);
    }
  }
}

TEST(PassPrice, CountsWhatIsDoneForThisSampleOnly) {
  const std::string chain = R"({"op":"decode_image"},{"op":"resize","size":[2000,2000]},)"
                            R"({"op":"random_apply","p":0.5,"ops":[{"op":"gaussian_blur","kernel_size":3}]},)"
                            R"({"op":"resize","size":[16,16]})";
  const auto plan = plan_of(document(chain), {.sample_ns_max = 5'000'000});
  const std::vector<Bytes> inputs{make_jpeg(64, 64), Bytes(8)};
  Scratch scratch;
  int done = 0;
  for (std::uint64_t record = 0; record < 40; ++record)
    done += !run_guarded(*plan, scratch, {1, record, 0}, inputs).error.has_value();
  EXPECT_GT(done, 5);
  EXPECT_LT(done, 35);
}

}  // namespace
}  // namespace carya::transforms::testing
