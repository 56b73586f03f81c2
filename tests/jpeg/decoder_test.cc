#include "transforms/jpeg/decoder.h"

#include <gtest/gtest.h>

#include "tests/amount.h"
#include "tests/jpeg/compare_test_lib.h"
#include "transforms/simd/targets.h"

namespace carya::jpeg {
namespace {

using testing::Bytes;
using testing::decode;
using testing::draw;
using testing::Picture;
using testing::random_region;
using testing::Recipe;
using testing::same_pixels;
using testing::whole;

class DecoderOnTarget : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { ASSERT_TRUE(force_simd_target(GetParam())); }
  void TearDown() override { force_simd_target(""); }
  Decoder decoder_;
};

TEST_P(DecoderOnTarget, SyntheticFilesHaveTurbosPixels) {
  std::mt19937_64 random(11);
  const int files = long_tests() ? 20000 : 600;
  const int regions = long_tests() ? 10 : 4;
  int ordinary = 0;
  int ranges = 0;
  for (int i = 0; i < files; ++i) {
    const Recipe recipe = testing::random_recipe(random, 200);
    SCOPED_TRACE("file " + std::to_string(i) + ": " + recipe.text());
    const Bytes jpeg = testing::encode(recipe, random);
    const Mode mode = draw(random, 0, 4) == 0 ? Mode::kGray : Mode::kRgb;
    const Picture picture = testing::turbo_decode(jpeg, mode == Mode::kGray);
    ASSERT_TRUE(picture.decoded);
    const Ordinary answer = decoder_.recognise(jpeg);
    if (answer != Ordinary::kOrdinary) {
      ASSERT_TRUE(answer == Ordinary::kNarrow || (answer == Ordinary::kTables && recipe.quant_scale > 0))
          << ordinary_name(answer);
      continue;
    }
    ++ordinary;
    // Absurdly coarse tables may leave 16 bits: that is for libjpeg-turbo to decide.
    if (recipe.quant_scale > 0 && decode(decoder_, jpeg, whole(picture), mode).outcome == Outcome::kRange) {
      ++ranges;
      continue;
    }
    ASSERT_TRUE(same_pixels(decoder_, jpeg, picture, whole(picture), mode));
    for (int r = 0; r < regions; ++r)
      ASSERT_TRUE(
          same_pixels(decoder_, jpeg, picture, random_region(picture.width, picture.height, random), mode));
  }
  EXPECT_GT(ordinary, files * 9 / 10);
  EXPECT_LT(ranges, files / 20);
}

TEST_P(DecoderOnTarget, LongSidesHaveTurbosPixels) {
  std::mt19937_64 random(14);
  constexpr int kSides[][2] = {{8192, 24}, {24, 8192}, {1025, 700}};
  for (const auto& side : kSides) {
    for (int sampling = 0; sampling < 3; ++sampling) {
      const Recipe recipe{
          .width = side[0], .height = side[1], .h = sampling == 0 ? 1 : 2, .v = sampling == 2 ? 2 : 1};
      SCOPED_TRACE(recipe.text());
      const Bytes jpeg = testing::encode(recipe, random);
      const Picture picture = testing::turbo_decode(jpeg);
      ASSERT_TRUE(same_pixels(decoder_, jpeg, picture, whole(picture), Mode::kRgb));
      for (int r = 0; r < 3; ++r) {
        const Region region = random_region(picture.width, picture.height, random);
        ASSERT_TRUE(same_pixels(decoder_, jpeg, picture, region, Mode::kRgb));
      }
    }
  }
}

TEST_P(DecoderOnTarget, PhotosHaveTurbosPixels) {
  std::mt19937_64 random(12);
  int equal = 0;
  int seen = 0;
  for (const auto& file : testing::test_data("images")) {
    if (seen++ % one_case_of(4) != 0) continue;
    SCOPED_TRACE(file.name);
    if (decoder_.recognise(file.bytes) != Ordinary::kOrdinary) continue;
    const Picture picture = testing::turbo_decode(file.bytes);
    if (!picture.decoded || picture.warnings > 0) continue;
    if (picture.width > 4000) continue;
    ASSERT_TRUE(same_pixels(decoder_, file.bytes, picture, whole(picture), Mode::kRgb));
    for (int r = 0; r < 3; ++r)
      ASSERT_TRUE(same_pixels(decoder_, file.bytes, picture,
                              random_region(picture.width, picture.height, random), Mode::kRgb));
    ++equal;
  }
  RecordProperty("photos", equal);
}

// Collects lines; counts bands that are out of order or too large.
class Collector : public LineSink {
 public:
  explicit Collector(std::size_t line) : line_(line) {}
  void take(const std::uint8_t* lines, std::size_t stride, int first, int count) override {
    if (first == 0) pixels.clear();
    faults += count < 1 || count > kBandLines || pixels.size() != line_ * static_cast<std::size_t>(first);
    for (int i = 0; i < count; ++i, lines += stride) pixels.insert(pixels.end(), lines, lines + line_);
  }
  Bytes pixels;
  int faults = 0;

 private:
  std::size_t line_;
};

TEST_P(DecoderOnTarget, BandsAreTheSamePixelsInOrder) {
  std::mt19937_64 random(13);
  for (int i = 0; i < 200; ++i) {
    Recipe recipe = testing::random_recipe(random, 200);
    recipe.quant_scale = 0;
    const Bytes jpeg = testing::encode(recipe, random);
    if (decoder_.recognise(jpeg) != Ordinary::kOrdinary) continue;
    SCOPED_TRACE("file " + std::to_string(i) + ": " + recipe.text());
    const Mode mode = draw(random, 0, 4) == 0 ? Mode::kGray : Mode::kRgb;
    const Region region = random_region(recipe.width, recipe.height, random);
    Index index(4);
    const testing::Own own = decode(decoder_, jpeg, region, mode, nullptr, &index);
    ASSERT_EQ(own.outcome, Outcome::kDone);
    const std::size_t line = static_cast<std::size_t>(region.width * channels(mode));
    Collector plain(line);
    ASSERT_EQ(decoder_.decode_bands(jpeg, region, mode, plain), Outcome::kDone);
    EXPECT_EQ(plain.faults, 0);
    EXPECT_EQ(plain.pixels, own.pixels);
    Collector indexed(line);
    ASSERT_EQ(decoder_.decode_bands(jpeg, region, mode, indexed, &index), Outcome::kDone);
    EXPECT_EQ(indexed.faults, 0);
    EXPECT_EQ(indexed.pixels, own.pixels);
  }
}

INSTANTIATE_TEST_SUITE_P(EveryTarget, DecoderOnTarget, ::testing::ValuesIn(simd_targets()),
                         [](const auto& target) { return target.param; });

}  // namespace
}  // namespace carya::jpeg
