#include "transforms/jpeg/index.h"

#include <gtest/gtest.h>

#include "base/hash.h"
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

Bytes bytes_of(const Index& index) {
  Bytes bytes;
  index.write(bytes);
  return bytes;
}

// The checksum made right again, as a liar would.
void reseal(Bytes& bytes) {
  const std::span<const std::uint8_t> body(bytes.data(), bytes.size() - 4);
  const std::uint64_t sum = hash64(std::as_bytes(body));
  for (std::size_t i = 0; i < 4; ++i) bytes[body.size() + i] = static_cast<std::uint8_t>(sum >> (8 * i));
}

class IndexOnTarget : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { ASSERT_TRUE(force_simd_target(GetParam())); }
  void TearDown() override { force_simd_target(""); }
  Decoder decoder_;
};

TEST_P(IndexOnTarget, RegionsHaveTheSamePixels) {
  std::mt19937_64 random(31);
  const int files = long_tests() ? 4000 : 250;
  int used = 0;
  for (int i = 0; i < files; ++i) {
    Recipe recipe = testing::random_recipe(random, 200);
    recipe.quant_scale = 0;
    const Bytes jpeg = testing::encode(recipe, random);
    if (decoder_.recognise(jpeg) != Ordinary::kOrdinary) continue;
    SCOPED_TRACE("file " + std::to_string(i) + ": " + recipe.text());
    const Mode mode = draw(random, 0, 4) == 0 ? Mode::kGray : Mode::kRgb;
    const Picture picture = testing::turbo_decode(jpeg, mode == Mode::kGray);
    constexpr int kSpacings[] = {0, 1, 8, 16, 3};
    Index index(kSpacings[draw(random, 0, 4)]);
    ASSERT_EQ(testing::decode(decoder_, jpeg, testing::whole(picture), mode, nullptr, &index).outcome,
              Outcome::kDone);
    if (recipe.restart_mcus > 0) {
      ASSERT_TRUE(index.points().empty());  // restart intervals go without
      continue;
    }
    ASSERT_TRUE(index.complete());
    Index read;
    ASSERT_TRUE(read.read(bytes_of(index)));
    ++used;
    ASSERT_TRUE(testing::same_pixels(decoder_, jpeg, picture, testing::whole(picture), mode, &read));
    for (int r = 0; r < 6; ++r) {
      const Region region = testing::random_region(picture.width, picture.height, random);
      ASSERT_TRUE(testing::same_pixels(decoder_, jpeg, picture, region, mode, &read));
    }
  }
  EXPECT_GT(used, files / 2);
}

TEST_P(IndexOnTarget, GrowsFromRegionToRegion) {
  std::mt19937_64 random(32);
  for (int i = 0; i < (long_tests() ? 2000 : 150); ++i) {
    Recipe recipe = testing::random_recipe(random, 200);
    recipe.quant_scale = recipe.restart_mcus = 0;
    const Bytes jpeg = testing::encode(recipe, random);
    if (decoder_.recognise(jpeg) != Ordinary::kOrdinary) continue;
    SCOPED_TRACE("file " + std::to_string(i) + ": " + recipe.text());
    const Picture picture = testing::turbo_decode(jpeg);
    Index complete(8);
    ASSERT_EQ(
        testing::decode(decoder_, jpeg, testing::whole(picture), Mode::kRgb, nullptr, &complete).outcome,
        Outcome::kDone);
    Index growing(8);
    for (int r = 0; r < 8; ++r) {
      const Region region = testing::random_region(picture.width, picture.height, random);
      const std::size_t before = growing.points().size();
      const Own own = testing::decode(decoder_, jpeg, region, Mode::kRgb, &growing, &growing);
      ASSERT_EQ(own.outcome, Outcome::kDone);
      ASSERT_EQ(own.pixels, testing::crop(picture, region));
      ASSERT_GE(growing.points().size(), before);
      for (std::size_t p = 0; p < growing.points().size(); ++p)
        ASSERT_EQ(growing.points()[p], complete.points()[p]) << p;
    }
  }
}

TEST_P(IndexOnTarget, LiesCostNothingButTime) {
  std::mt19937_64 random(33);
  int refused = 0;
  int caught = 0;
  int wrong = 0;
  for (int i = 0; i < (long_tests() ? 20000 : 1500); ++i) {
    Recipe recipe = testing::random_recipe(random, 120);
    recipe.quant_scale = recipe.restart_mcus = 0;
    const Bytes jpeg = testing::encode(recipe, random);
    if (decoder_.recognise(jpeg) != Ordinary::kOrdinary) continue;
    const Picture picture = testing::turbo_decode(jpeg);
    Index index(draw(random, 0, 1) == 0 ? 0 : 4);
    ASSERT_EQ(testing::decode(decoder_, jpeg, testing::whole(picture), Mode::kRgb, nullptr, &index).outcome,
              Outcome::kDone);
    Bytes bytes = bytes_of(index);
    for (int change = draw(random, 1, 3); change > 0; --change) {
      // behind the header's identity most of the time, so that it is believed at first
      const std::size_t begin = draw(random, 0, 9) == 0 ? 0 : 36;
      if (bytes.size() > begin + 4)
        bytes[begin + random() % (bytes.size() - 4 - begin)] ^=
            static_cast<std::uint8_t>(1u << (random() & 7));
    }
    reseal(bytes);
    Index lie;
    if (!lie.read(bytes)) {
      ++refused;
      continue;
    }
    const Region region = testing::random_region(picture.width, picture.height, random);
    const Own own = testing::decode(decoder_, jpeg, region, Mode::kRgb, &lie);
    // Never a hand-over of a good file, never a byte outside; a forged point may show in the pixels of a
    // part.
    ASSERT_EQ(own.outcome, Outcome::kDone);
    ASSERT_TRUE(own.guards_kept);
    (own.pixels == testing::crop(picture, region) ? caught : wrong) += 1;
    const Own all = testing::decode(decoder_, jpeg, testing::whole(picture), Mode::kRgb, &lie);
    ASSERT_EQ(all.outcome, Outcome::kDone);
    ASSERT_EQ(all.pixels, picture.pixels.empty() ? Bytes{} : testing::crop(picture, testing::whole(picture)))
        << "a whole decode meets every point";
  }
  EXPECT_GT(refused, 0);
  EXPECT_GT(caught, wrong);
}

TEST_P(IndexOnTarget, OfADamagedScanIsNotMadeOrUsed) {
  std::mt19937_64 random(34);
  for (int i = 0; i < (long_tests() ? 20000 : 1500); ++i) {
    Recipe recipe = testing::random_recipe(random, 90);
    recipe.quant_scale = recipe.restart_mcus = 0;
    const Bytes good = testing::encode(recipe, random);
    if (decoder_.recognise(good) != Ordinary::kOrdinary) continue;
    Bytes bad = good;
    testing::mutate_scan(bad, decoder_.header().scan_begin, random);
    if (decoder_.recognise(bad) != Ordinary::kOrdinary) continue;
    SCOPED_TRACE("file " + std::to_string(i) + ": " + recipe.text());
    const Region whole{0, 0, recipe.width, recipe.height};
    Index index(4);
    ASSERT_EQ(testing::decode(decoder_, good, whole, Mode::kRgb, nullptr, &index).outcome, Outcome::kDone);
    const Region region = testing::random_region(recipe.width, recipe.height, random);
    const Own plain = testing::decode(decoder_, bad, region, Mode::kRgb);
    // The good file's index does not fit the bad file: verdict and pixels are those without it.
    const Own with_other = testing::decode(decoder_, bad, region, Mode::kRgb, &index);
    ASSERT_EQ(plain.outcome, with_other.outcome);
    if (plain.outcome == Outcome::kDone) {
      ASSERT_EQ(plain.pixels, with_other.pixels);
    }
    // Its own index holds nothing that was not decoded without a doubt.
    Index own(4);
    const Own making = testing::decode(decoder_, bad, region, Mode::kRgb, nullptr, &own);
    ASSERT_EQ(plain.outcome, making.outcome);
    if (making.outcome != Outcome::kDone) {
      ASSERT_TRUE(own.points().empty());
    }
    const Region second = testing::random_region(recipe.width, recipe.height, random);
    const Own without = testing::decode(decoder_, bad, second, Mode::kRgb);
    const Own with = testing::decode(decoder_, bad, second, Mode::kRgb, &own);
    ASSERT_EQ(without.outcome, with.outcome);
    if (with.outcome == Outcome::kDone) {
      ASSERT_EQ(without.pixels, with.pixels);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(EveryTarget, IndexOnTarget, ::testing::ValuesIn(simd_targets()),
                         [](const auto& target) { return target.param; });

// The worked example of FORMAT.md.
TEST(Index, WritesTheDocumentedBytes) {
  Header header{};
  header.mcu_cols = 2;
  header.mcu_rows = 1;
  header.component_count = 3;
  Index index(1);
  index.bind(header, 654, 0xE19C02775A1F33D0u);
  index.append({});
  index.append({.byte = 21, .bit = 3, .dc = {-34, 5, 0}});
  const Bytes wanted = {0x43, 0x4A, 0x49, 0x31, 0x01, 0x00, 0x03, 0x00, 0x02, 0x00, 0x00, 0x00, 0x01,
                        0x00, 0x00, 0x00, 0x8E, 0x02, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0xD0, 0x33,
                        0x1F, 0x5A, 0x77, 0x02, 0x9C, 0xE1, 0x02, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
                        0x00, 0xAB, 0x01, 0x43, 0x0A, 0x00, 0x1F, 0x81, 0xBB, 0xAC};
  EXPECT_EQ(bytes_of(index), wanted);
}

TEST(Index, RefusesAnyChangedByte) {
  std::mt19937_64 random(35);
  Decoder decoder;
  const Bytes jpeg = testing::encode({.width = 100, .height = 100}, random);
  Index index(2);
  ASSERT_EQ(testing::decode(decoder, jpeg, {0, 0, 100, 100}, Mode::kRgb, nullptr, &index).outcome,
            Outcome::kDone);
  const Bytes bytes = bytes_of(index);
  Index read;
  ASSERT_TRUE(read.read(bytes));
  EXPECT_EQ(bytes_of(read), bytes);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    Bytes changed = bytes;
    changed[i] ^= 0x10;
    EXPECT_FALSE(read.read(changed)) << i;
    EXPECT_FALSE(read.read(std::span(bytes).first(i))) << i;
  }
}

}  // namespace
}  // namespace carya::jpeg
