#include "transforms/jpeg/header.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/amount.h"
#include "tests/jpeg/compare_test_lib.h"

namespace carya::jpeg {
namespace {

using testing::Bytes;
using testing::Recipe;

Ordinary recognise(const Bytes& jpeg) {
  Header header;
  return read_header(jpeg, header);
}

Bytes make(const Recipe& recipe) {
  std::mt19937_64 random(41);
  return testing::encode(recipe, random);
}

// Offset of the marker FF `code` before the scan.
std::size_t find_marker(const Bytes& jpeg, int code) {
  std::size_t at = 2;
  while (jpeg.at(at + 1) != code) at += 2 + static_cast<std::size_t>(jpeg[at + 2] << 8 | jpeg[at + 3]);
  return at;
}

TEST(Header, SaysWhatTheFileIs) {
  const Bytes jpeg = make({.width = 100, .height = 50, .h = 2, .v = 2, .restart_mcus = 3});
  Header header;
  ASSERT_EQ(read_header(jpeg, header), Ordinary::kOrdinary);
  EXPECT_EQ(header.width, 100);
  EXPECT_EQ(header.height, 50);
  EXPECT_EQ(header.sampling, Sampling::k420);
  EXPECT_EQ(header.mcu_cols, 7);
  EXPECT_EQ(header.mcu_rows, 4);
  EXPECT_EQ(header.restart_interval, 3);
  EXPECT_EQ(header.components[1].width, 50);
  EXPECT_EQ(header.components[1].height, 25);
}

TEST(Header, NamesWhatIsNotOrdinary) {
  EXPECT_EQ(recognise(make({.progressive = true})), Ordinary::kProgressive);
  EXPECT_EQ(recognise(make({.h = 1, .v = 2})), Ordinary::kSampling);
  EXPECT_EQ(recognise(make({.h = 4, .v = 1})), Ordinary::kSampling);
  EXPECT_EQ(recognise(make({.width = 4, .h = 2, .v = 1})), Ordinary::kNarrow);
  EXPECT_EQ(recognise(make({.width = 4, .h = 1, .v = 1})), Ordinary::kOrdinary);
  EXPECT_EQ(recognise({}), Ordinary::kNotJpeg);

  const Bytes good = make({});
  Bytes changed = good;
  const std::size_t frame = find_marker(good, 0xC0);
  changed[frame + 4] = 12;
  EXPECT_EQ(recognise(changed), Ordinary::kPrecision);
  changed = good;
  changed[frame + 5] = changed[frame + 6] = 0;
  EXPECT_EQ(recognise(changed), Ordinary::kSize);
  changed = good;
  changed[find_marker(good, 0xDB) + 1] = 0xFE;  // a comment where the table was
  EXPECT_EQ(recognise(changed), Ordinary::kTables);
  changed = good;
  changed[find_marker(good, 0xC4) + 5] = 2;  // two codes of one bit: one is all ones
  EXPECT_EQ(recognise(changed), Ordinary::kTables);
  changed = good;
  changed[find_marker(good, 0xDA) + 5] = 9;  // a component that the frame does not have
  EXPECT_EQ(recognise(changed), Ordinary::kSeveralScans);
}

TEST(Header, TellsRgbFromYcbcrAsTurboDoes) {
  const Bytes good = make({.h = 1, .v = 1});
  const std::size_t jfif = find_marker(good, 0xE0);
  Bytes bare = good;
  bare.erase(bare.begin() + static_cast<std::ptrdiff_t>(jfif),
             bare.begin() + static_cast<std::ptrdiff_t>(jfif) + 18);
  EXPECT_EQ(recognise(bare), Ordinary::kOrdinary);
  Bytes named = bare;
  const std::size_t frame = find_marker(named, 0xC0);
  const std::size_t scan = find_marker(named, 0xDA);
  for (std::size_t c = 0; c < 3; ++c) {
    named[frame + 10 + 3 * c] = static_cast<std::uint8_t>("RGB"[c]);
    named[scan + 5 + 2 * c] = static_cast<std::uint8_t>("RGB"[c]);
  }
  EXPECT_EQ(recognise(named), Ordinary::kColour);
  Bytes both = named;  // JFIF says YCbCr, whatever the components are called
  both.insert(both.begin() + static_cast<std::ptrdiff_t>(jfif),
              good.begin() + static_cast<std::ptrdiff_t>(jfif),
              good.begin() + static_cast<std::ptrdiff_t>(jfif) + 18);
  EXPECT_EQ(recognise(both), Ordinary::kOrdinary);
  for (int transform = 0; transform < 3; ++transform) {
    Bytes adobe = bare;
    const std::uint8_t segment[16] = {
        0xFF, 0xEE, 0, 14, 'A', 'd', 'o', 'b', 'e', 0, 100, 0, 0, 0, 0, static_cast<std::uint8_t>(transform)};
    adobe.insert(adobe.begin() + 2, segment, segment + 16);
    EXPECT_EQ(recognise(adobe), transform == 1 ? Ordinary::kOrdinary : Ordinary::kColour) << transform;
  }
}

TEST(Header, CutAnywhereIsNotOrdinary) {
  const Bytes good = make({.optimise = true});
  Header header;
  ASSERT_EQ(read_header(good, header), Ordinary::kOrdinary);
  for (std::size_t size = 0; size < header.scan_begin; ++size) {
    // A copy of exactly that size, so that the address sanitizer sees what is read beyond.
    const Bytes cut(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(size));
    EXPECT_NE(recognise(cut), Ordinary::kOrdinary) << size;
  }
}

// Whatever stands before the scan: what we call ordinary and decode, libjpeg-turbo decodes to the same pixels
// without a warning of its own about the header.
TEST(Header, ChangedBytesAreJudgedAsTurboDoes) {
  std::mt19937_64 random(42);
  Decoder decoder;
  int same = 0;
  for (int i = 0; i < (long_tests() ? 200000 : 6000); ++i) {
    const Recipe recipe = testing::random_recipe(random, 40);
    Bytes jpeg = testing::encode(recipe, random);
    if (decoder.recognise(jpeg) != Ordinary::kOrdinary) continue;
    const std::size_t begin = decoder.header().scan_begin;
    for (int change = testing::draw(random, 1, 2); change > 0; --change) {
      const std::size_t at = 2 + random() % (begin - 2);
      jpeg[at] = testing::draw(random, 0, 1) == 0
                     ? static_cast<std::uint8_t>(random())
                     : static_cast<std::uint8_t>(jpeg[at] ^ (1u << (random() & 7)));
    }
    if (decoder.recognise(jpeg) != Ordinary::kOrdinary) continue;
    const Header& header = decoder.header();
    if (static_cast<std::int64_t>(header.width) * header.height > 1'000'000) continue;
    const Region whole{0, 0, header.width, header.height};
    const testing::Own own = testing::decode(decoder, jpeg, whole, Mode::kRgb);
    if (own.outcome != Outcome::kDone) continue;
    SCOPED_TRACE("file " + std::to_string(i) + ": " + recipe.text());
    const testing::Picture picture = testing::turbo_decode(jpeg);
    ASSERT_TRUE(picture.decoded);
    ASSERT_EQ(own.pixels, testing::crop(picture, whole));
    ++same;
  }
  EXPECT_GT(same, 100);
}

TEST(Header, RealFilesAreJudgedWithoutHarm) {
  int ordinary = 0;
  for (const char* folder : {"images", "malformed"}) {
    for (const auto& file : testing::test_data(folder))
      ordinary += recognise(file.bytes) == Ordinary::kOrdinary;
  }
  if (!testing::test_data("images").empty()) {
    EXPECT_GT(ordinary, 300);
  }
}

}  // namespace
}  // namespace carya::jpeg
