// What happens with files that are broken inside their scan, and that it is the same on every SIMD target.

#include <gtest/gtest.h>

#include <map>

#include "tests/amount.h"
#include "tests/jpeg/compare_test_lib.h"
#include "transforms/simd/targets.h"

namespace carya::jpeg {
namespace {

using testing::Bytes;
using testing::draw;
using testing::Own;
using testing::Picture;
using testing::Recipe;

class Damage : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { ASSERT_TRUE(force_simd_target(GetParam())); }
  void TearDown() override { force_simd_target(""); }
  Decoder decoder_;
};

TEST_P(Damage, IsHandedOverOrDecodedAsTurboDoes) {
  std::mt19937_64 random(21);
  const int files = long_tests() ? 100000 : 4000;
  std::map<Outcome, int> outcomes;
  int done_with_warnings = 0;
  for (int i = 0; i < files; ++i) {
    const Recipe recipe = testing::random_recipe(random, 90);
    Bytes jpeg = testing::encode(recipe, random);
    if (decoder_.recognise(jpeg) != Ordinary::kOrdinary) continue;
    testing::mutate_scan(jpeg, decoder_.header().scan_begin, random);
    if (decoder_.recognise(jpeg) != Ordinary::kOrdinary) continue;
    SCOPED_TRACE("file " + std::to_string(i) + ": " + recipe.text());
    const Picture picture = testing::turbo_decode(jpeg);
    const Region whole{0, 0, recipe.width, recipe.height};
    const Own own = testing::decode(decoder_, jpeg, whole, Mode::kRgb);
    ++outcomes[own.outcome];
    ASSERT_TRUE(own.guards_kept);
    if (own.outcome == Outcome::kDone) {
      ASSERT_TRUE(picture.decoded);
      ASSERT_EQ(picture.warnings, 0);
      ASSERT_EQ(own.pixels, picture.pixels.empty() ? Bytes{} : testing::crop(picture, whole));
    }
    // A region may be whole although the rest is not; then its pixels are those of the concealed picture.
    for (int r = 0; r < 3; ++r) {
      const Region region = testing::random_region(recipe.width, recipe.height, random);
      const Own part = testing::decode(decoder_, jpeg, region, Mode::kRgb);
      ASSERT_TRUE(part.guards_kept);
      if (part.outcome != Outcome::kDone || picture.pixels.empty()) continue;
      done_with_warnings += picture.warnings > 0;
      ASSERT_EQ(part.pixels, testing::crop(picture, region)) << region.x << "," << region.y;
    }
  }
  EXPECT_GT(outcomes[Outcome::kDone], 0);
  EXPECT_GT(outcomes[Outcome::kDamaged], 0);
  EXPECT_GT(outcomes[Outcome::kTail], 0);
  EXPECT_GT(done_with_warnings, 0);
}

TEST_P(Damage, BelowTheRegionDoesNotMatterAboveItDoes) {
  std::mt19937_64 random(22);
  const Recipe recipe{.width = 160, .height = 160, .h = 2, .v = 2, .quality = 95};
  const Bytes good = testing::encode(recipe, random);
  ASSERT_EQ(decoder_.recognise(good), Ordinary::kOrdinary);
  const Picture picture = testing::turbo_decode(good);
  Bytes cut = good;
  cut.resize(decoder_.header().scan_begin + (good.size() - decoder_.header().scan_begin) / 2);
  EXPECT_TRUE(testing::same_pixels(decoder_, cut, picture, {8, 8, 100, 40}, Mode::kRgb));
  EXPECT_EQ(testing::decode(decoder_, cut, {8, 8, 100, 140}, Mode::kRgb).outcome, Outcome::kDamaged);
  EXPECT_EQ(testing::decode(decoder_, cut, {100, 140, 10, 10}, Mode::kRgb).outcome, Outcome::kDamaged);
}

TEST_P(Damage, BytesBehindTheLastBlockAreATail) {
  std::mt19937_64 random(23);
  Bytes jpeg = testing::encode({.width = 40, .height = 40}, random);
  const Region whole{0, 0, 40, 40};
  ASSERT_EQ(testing::decode(decoder_, jpeg, whole, Mode::kRgb).outcome, Outcome::kDone);
  Bytes longer = jpeg;
  longer.insert(longer.end() - 2, {1, 2, 3});
  EXPECT_EQ(testing::decode(decoder_, longer, whole, Mode::kRgb).outcome, Outcome::kTail);
  jpeg.resize(jpeg.size() - 2);  // no end marker
  EXPECT_EQ(testing::decode(decoder_, jpeg, whole, Mode::kRgb).outcome, Outcome::kTail);
  EXPECT_EQ(testing::decode(decoder_, jpeg, {0, 0, 8, 8}, Mode::kRgb).outcome, Outcome::kDone);
}

// The verdict and every bit of what is done, gathered on the best target and compared on the others.
TEST(DamageOnAllTargets, SameOutcomesAndPixels) {
  std::vector<Bytes> files;
  std::mt19937_64 random(24);
  Decoder decoder;
  for (int i = 0; i < (long_tests() ? 5000 : 500); ++i) {
    Recipe recipe = testing::random_recipe(random, 60);
    if (i % 3 == 0) recipe.quant_scale = draw(random, 500, 6500);  // coarse tables: ranges in doubt
    files.push_back(testing::encode(recipe, random));
    if (i % 2 == 0 && decoder.recognise(files.back()) == Ordinary::kOrdinary) {
      testing::mutate_scan(files.back(), decoder.header().scan_begin, random);
    }
  }
  std::vector<Own> wanted;
  std::map<Outcome, int> outcomes;
  for (const std::string& target : simd_targets()) {
    ASSERT_TRUE(force_simd_target(target));
    for (std::size_t i = 0; i < files.size(); ++i) {
      if (decoder.recognise(files[i]) != Ordinary::kOrdinary) {
        if (wanted.size() == i) wanted.push_back({.outcome = Outcome::kNotOrdinary, .pixels = {}});
        continue;
      }
      const Region whole{0, 0, decoder.header().width, decoder.header().height};
      Own own = testing::decode(decoder, files[i], whole, Mode::kRgb);
      if (wanted.size() == i) {
        ++outcomes[own.outcome];
        wanted.push_back(own);
      }
      ASSERT_EQ(own.outcome, wanted[i].outcome) << target << " file " << i;
      if (own.outcome == Outcome::kDone) {
        ASSERT_EQ(own.pixels, wanted[i].pixels) << target << " file " << i;
      }
    }
  }
  force_simd_target("");
  EXPECT_GT(outcomes[Outcome::kRange], 0);
  EXPECT_GT(outcomes[Outcome::kDamaged], 0);
  EXPECT_GT(outcomes[Outcome::kDone], 0);
}

INSTANTIATE_TEST_SUITE_P(EveryTarget, Damage, ::testing::ValuesIn(simd_targets()),
                         [](const auto& target) { return target.param; });

}  // namespace
}  // namespace carya::jpeg
