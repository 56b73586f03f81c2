// Plans give the same bits and verdicts whether pictures go through them in bands on several cores or in one piece.

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "tests/band_threads.h"
#include "tests/transforms/samples_test_lib.h"
#include "transforms/plan/plan.h"

namespace carya::transforms {
namespace {

using testing::Bytes;
using testing::Outcome;

// Each pipeline over each file: in one piece, in the worst order on one thread, and on three threads.
class PlanBands : public ::testing::Test {
 protected:
  void compare(const Plan& plan, std::uint64_t record, const Bytes& bytes, const std::string& name) {
    const std::vector<Bytes> inputs{bytes, testing::label_bytes(0)};
    const Outcome whole = testing::run_guarded(plan, whole_, {.record = record}, inputs);
    for (BandThreads* const runner : {&backwards_, &threads_}) {
      scratch_.set_bands(runner);
      const Outcome banded = testing::run_guarded(plan, scratch_, {.record = record}, inputs);
      ASSERT_EQ(banded.error.has_value(), whole.error.has_value()) << name;
      if (whole.error) {
        EXPECT_EQ(banded.error->code, whole.error->code) << name;
        EXPECT_EQ(banded.error->message, whole.error->message) << name;
      } else {
        EXPECT_TRUE(banded.tensors == whole.tensors) << name;
        ++good_;
      }
    }
    DecodePaths paths, banded_paths;
    plan.collect_decodes(whole_, paths);
    plan.collect_decodes(scratch_, banded_paths);
    EXPECT_EQ(banded_paths.own, 2 * paths.own) << name;
    EXPECT_EQ(banded_paths.turbo, 2 * paths.turbo) << name;
    EXPECT_EQ(banded_paths.warnings, 2 * paths.warnings) << name;
  }

  BandThreads backwards_{0};
  BandThreads threads_{3};
  Scratch whole_, scratch_;
  int good_ = 0;
};

std::vector<std::string> pipelines() {
  const std::string decode = R"({"op":"decode_image","apply_exif":true},)";
  std::vector<std::string> all;
  for (
      const char* ops :
      {R"({"op":"resize","size":[64,48]},{"op":"normalize","mean":0.4,"std":0.2})",
       R"({"op":"resize","size":[64,48],"interpolation":"bicubic"},{"op":"random_horizontal_flip"})",
       R"({"op":"resize","size":[64,48],"interpolation":"nearest"})",
       R"({"op":"resize","size":[64,48],"antialias":false},{"op":"random_crop","size":[32,32]})",
       R"({"op":"random_resized_crop","size":[64,64]},{"op":"random_vertical_flip"})",
       R"({"op":"color_jitter","brightness":0.4,"contrast":0.4,"saturation":0.4,"hue":0.1},{"op":"resize","size":[40,40]})",
       R"({"op":"invert"},{"op":"resize","size":[600,40]},{"op":"posterize","bits":3})",
       R"({"op":"random_crop","size":[50,60],"pad_if_needed":true})"})
    all.push_back(decode + ops);
  return all;
}

TEST_F(PlanBands, GiveTheSameBitsForEveryPicture) {
  std::uint64_t record = 0;
  for (const std::string& ops : pipelines()) {
    const auto plan = testing::plan_of(testing::document(ops), {.seed = 3, .image_pixels_max = 4'000'000});
    for (const testing::NamedBytes& picture : testing::test_pictures(41, 300'000)) {
      compare(*plan, record++, picture.bytes, ops + ": " + picture.name);
      if (HasFailure()) return;
    }
  }
  EXPECT_GT(good_, 100);
}

TEST_F(PlanBands, GiveTheSameBitsForTallPictures) {
  std::uint64_t record = 0;
  for (const std::string& ops : pipelines()) {
    const auto plan = testing::plan_of(testing::document(ops), {.seed = 3});
    for (const int sampling : {1, 2})
      for (const int orientation : {1, 6})
        compare(*plan, record++, testing::make_jpeg(130, 900, 3, false, sampling, orientation), ops);
    compare(*plan, record++, testing::make_jpeg(130, 900, 1), ops);
    compare(*plan, record++, testing::make_jpeg(130, 900, 3, true), ops);
    if (HasFailure()) return;
  }
  EXPECT_GT(good_, 50);
}

TEST_F(PlanBands, GiveMalformedFilesTheSameVerdict) {
  std::uint64_t record = 0;
  const std::string ops = pipelines().front();
  const auto plan = testing::plan_of(testing::document(ops), {.image_pixels_max = 4'000'000});
  for (const testing::NamedBytes& file : testing::malformed_files()) {
    compare(*plan, record++, file.bytes, file.name);
    if (HasFailure()) return;
  }
  const Bytes good = testing::make_jpeg(130, 900);
  std::mt19937 random(4);
  for (int i = 0; i < 60; ++i) {
    Bytes bad = good;
    for (int change = 0; change < 3; ++change)
      bad[700 + random() % (bad.size() - 700)] ^= static_cast<std::byte>(1 + random() % 255);
    if (i % 4 == 0) bad.resize(bad.size() - random() % (bad.size() / 2));
    compare(*plan, record++, bad, "changed " + std::to_string(i));
    if (HasFailure()) return;
  }
  EXPECT_GT(good_, 0);
}

}  // namespace
}  // namespace carya::transforms
