// Decoding in bands gives what decoding in one piece gives: outcome, pixels, and the points of an index.

#include <gtest/gtest.h>

#include <map>
#include <memory>

#include "tests/amount.h"
#include "tests/band_threads.h"
#include "tests/jpeg/compare_test_lib.h"
#include "transforms/jpeg/header.h"
#include "transforms/simd/targets.h"

namespace carya::jpeg {
namespace {

using testing::Bytes;
using testing::draw;
using testing::Own;
using testing::Picture;
using testing::Recipe;

class Bands : public ::testing::Test {
 protected:
  /// Decodes in one piece, and in bands on each kind of runner; the outcome.
  Outcome compare(const Bytes& jpeg, const Region& region, Mode mode, const Index* index,
                  const Index& before) {
    Index made = before;
    const Own own = testing::decode(whole_, jpeg, region, mode, index, &made);
    for (BandThreads* const runner : {&backwards_, &threads_}) {
      Index in_bands = before;
      const Index* given = index;
      if (index == &before) given = &in_bands;  // extended in place
      decoder_.set_bands(runner);
      const Own banded = testing::decode(decoder_, jpeg, region, mode, given, &in_bands);
      EXPECT_EQ(banded.outcome, own.outcome);
      EXPECT_TRUE(banded.guards_kept);
      if (own.outcome == Outcome::kDone) EXPECT_TRUE(banded.pixels == own.pixels);
      EXPECT_TRUE(std::ranges::equal(in_bands.points(), made.points()));
    }
    return own.outcome;
  }

  /// A complete or partial index of that spacing; empty without one.
  Index index_of(const Bytes& jpeg, const Picture& picture, int spacing, int lines) {
    Index index(spacing);
    testing::decode(whole_, jpeg, {0, 0, picture.width, lines}, Mode::kRgb, nullptr, &index);
    return index;
  }

  BandThreads backwards_{0};
  BandThreads threads_{3};
  Decoder whole_;    // in one piece
  Decoder decoder_;  // in bands
};

Recipe tall_recipe(std::mt19937_64& random) {
  Recipe recipe = testing::random_recipe(random, 60);
  recipe.height = draw(random, 1, 700);
  return recipe;
}

TEST_F(Bands, GiveTheSameOutcomePixelsAndPoints) {
  std::mt19937_64 random(31);
  const int files = long_tests() ? 10000 : 500;
  std::map<Outcome, int> outcomes;
  int restarts = 0;
  for (int i = 0; i < files; ++i) {
    const Recipe recipe = tall_recipe(random);
    Bytes jpeg = testing::encode(recipe, random);
    if (whole_.recognise(jpeg) != Ordinary::kOrdinary) continue;
    SCOPED_TRACE("file " + std::to_string(i) + ": " + recipe.text());
    const Picture picture{.width = recipe.width, .height = recipe.height};
    const int spacing = draw(random, 0, 2) * 4;
    Index known = index_of(jpeg, picture, spacing, draw(random, 1, recipe.height));
    const std::size_t scan_begin = whole_.header().scan_begin;
    if (i % 2 == 0) testing::mutate_scan(jpeg, scan_begin, random);
    if (whole_.recognise(jpeg) != Ordinary::kOrdinary) continue;
    restarts += whole_.header().restart_interval > 0;
    for (const Region& region :
         {testing::whole(picture), testing::random_region(recipe.width, recipe.height, random)}) {
      const Mode mode = draw(random, 0, 3) == 0 ? Mode::kGray : Mode::kRgb;
      ++outcomes[compare(jpeg, region, mode, nullptr, Index(spacing))];
      compare(jpeg, region, mode, nullptr, known);
      compare(jpeg, region, mode, &known, known);
      if (HasFailure()) return;
    }
  }
  EXPECT_GT(outcomes[Outcome::kDone], 0);
  EXPECT_GT(outcomes[Outcome::kDamaged], 0);
  EXPECT_GT(outcomes[Outcome::kTail], 0);
  EXPECT_GT(restarts, 0);
  EXPECT_GT(threads_.works(), 0);
}

TEST_F(Bands, OfEverySimdTargetAreTheSame) {
  std::mt19937_64 random(32);
  for (const std::string& target : simd_targets()) {
    ASSERT_TRUE(force_simd_target(target));
    SCOPED_TRACE(target);
    for (int i = 0; i < 20; ++i) {
      const Recipe recipe = tall_recipe(random);
      const Bytes jpeg = testing::encode(recipe, random);
      if (whole_.recognise(jpeg) != Ordinary::kOrdinary) continue;
      const Picture picture{.width = recipe.width, .height = recipe.height};
      compare(jpeg, testing::whole(picture), Mode::kRgb, nullptr, Index(0));
      if (HasFailure()) break;
    }
    force_simd_target("");
  }
}

TEST_F(Bands, WithALyingIndexDecodeWithoutIt) {
  std::mt19937_64 random(33);
  const Recipe recipe{.width = 64, .height = 640, .h = 2, .v = 2, .quality = 90};
  const Bytes jpeg = testing::encode(recipe, random);
  const Picture picture = testing::turbo_decode(jpeg);
  ASSERT_EQ(whole_.recognise(jpeg), Ordinary::kOrdinary);
  const Index good = index_of(jpeg, picture, 0, picture.height);
  ASSERT_TRUE(good.complete());
  for (std::size_t lie = 0; lie < good.points().size(); lie += 3) {
    Index forged = good;
    IndexPoint point = good.points()[lie];
    point.dc[0] = static_cast<std::int16_t>(point.dc[0] + 5);
    forged.cut(lie);
    forged.append(point);
    for (std::size_t i = lie + 1; i < good.points().size(); ++i) forged.append(good.points()[i]);
    SCOPED_TRACE(lie);
    compare(jpeg, testing::whole(picture), Mode::kRgb, &forged, forged);
  }
}

TEST_F(Bands, SeeDamageAtTheEndOfEveryRestartInterval) {
  std::mt19937_64 random(34);
  for (const bool gray : {false, true}) {
    // Intervals of half a row, so that some end where a band does and some right of the region.
    const Recipe recipe{
        .width = 64, .height = 320, .h = 1, .v = 1, .gray = gray, .quality = 70, .restart_mcus = 4};
    const Bytes jpeg = testing::encode(recipe, random);
    ASSERT_EQ(whole_.recognise(jpeg), Ordinary::kOrdinary);
    const Picture picture{.width = recipe.width, .height = recipe.height};
    int markers = 0;
    for (std::size_t at = whole_.header().scan_begin; at + 1 < jpeg.size(); ++at) {
      if (jpeg[at] != 0xFF || jpeg[at + 1] < 0xD0 || jpeg[at + 1] > 0xD7) continue;
      Bytes longer = jpeg;
      longer.insert(longer.begin() + static_cast<std::ptrdiff_t>(at), 0x55);
      SCOPED_TRACE("marker " + std::to_string(markers++));
      EXPECT_EQ(compare(longer, testing::whole(picture), Mode::kRgb, nullptr, Index(0)), Outcome::kDamaged);
      compare(longer, {0, 0, 24, 320}, Mode::kRgb, nullptr, Index(0));
      compare(longer, {0, 40, 24, 240}, Mode::kRgb, nullptr, Index(0));
    }
    EXPECT_EQ(markers, 79);
  }
}

TEST_F(Bands, OfRealFilesAreTheSame) {
  int compared = 0;
  for (const char* folder : {"images", "malformed"}) {
    for (const testing::File& file : testing::test_data(folder)) {
      if (whole_.recognise(file.bytes) != Ordinary::kOrdinary) continue;
      SCOPED_TRACE(file.name);
      const Region region{0, 0, whole_.header().width, whole_.header().height};
      if (std::int64_t{region.width} * region.height > 1 << 24) continue;
      const Index none(0);
      compare(file.bytes, region, Mode::kRgb, nullptr, none);
      const Picture picture{.width = region.width, .height = region.height};
      const Index rows = index_of(file.bytes, picture, 0, region.height);
      compare(file.bytes, region, Mode::kRgb, &rows, rows);
      ++compared;
    }
  }
  if (compared == 0) GTEST_SKIP() << "no files: set CARYA_TEST_DATA";
}

}  // namespace
}  // namespace carya::jpeg
