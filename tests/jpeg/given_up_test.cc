#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "tests/jpeg/compare_test_lib.h"
#include "transforms/simd/patience.h"

namespace carya::jpeg {
namespace {

using testing::Bytes;
using testing::Own;

// 4 million pixels and three components: three times as much as Patience does between two looks. Gray: as much as once.
Bytes large_photo(int restart_mcus = 0) {
  std::mt19937_64 random(5);
  return testing::encode({.width = 2000, .height = 2000, .restart_mcus = restart_mcus}, random);
}
constexpr Region kWhole{0, 0, 2000, 2000};

// How often it is asked, in scan order and from the points of an index, and what then is left.
void expect_given_up(const Bytes& jpeg, const Index* index) {
  Decoder plain;
  const Own expected = testing::decode(plain, jpeg, kWhole, Mode::kRgb, index);
  ASSERT_EQ(expected.outcome, Outcome::kDone);
  Decoder decoder;
  Patience patience;
  decoder.set_patience(&patience);
  int asked = 0;
  patience.set([&] { return ++asked > 0; });
  const Own done = testing::decode(decoder, jpeg, kWhole, Mode::kRgb, index);
  EXPECT_EQ(done.outcome, Outcome::kDone);
  EXPECT_EQ(done.pixels, expected.pixels) << "being asked changes nothing";
  const int all = asked;
  EXPECT_GE(all, 2);
  for (int until = 1; until <= all; ++until) {
    asked = 0;
    patience.set([&] { return ++asked < until; });
    Index made(8);
    const Own given_up = testing::decode(decoder, jpeg, kWhole, Mode::kRgb, index, index ? nullptr : &made);
    EXPECT_EQ(given_up.outcome, Outcome::kGivenUp);
    EXPECT_EQ(asked, until) << "it ended with the first no, and nothing is tried again";
    EXPECT_TRUE(made.points().empty()) << "no index of half a decode";
  }
  patience.set({});
  EXPECT_EQ(testing::decode(decoder, jpeg, kWhole, Mode::kRgb, index).pixels, expected.pixels)
      << "what was given up leaves nothing";
}

TEST(GivenUp, BetweenRowsInScanOrder) {
  expect_given_up(large_photo(), nullptr);
  expect_given_up(large_photo(50), nullptr);
}

TEST(GivenUp, BetweenRowsFromThePointsOfAnIndex) {
  const Bytes jpeg = large_photo();
  Decoder decoder;
  Index index(0);
  ASSERT_EQ(testing::decode(decoder, jpeg, kWhole, Mode::kRgb, nullptr, &index).outcome, Outcome::kDone);
  expect_given_up(jpeg, &index);
}

TEST(GivenUp, AnIndexKeepsThePointsItHad) {
  const Bytes jpeg = large_photo();
  Decoder decoder;
  Index index(0);
  ASSERT_EQ(testing::decode(decoder, jpeg, {0, 0, 2000, 100}, Mode::kRgb, nullptr, &index).outcome,
            Outcome::kDone);
  const std::vector<IndexPoint> before(index.points().begin(), index.points().end());
  ASSERT_FALSE(before.empty());
  Patience patience;
  decoder.set_patience(&patience);
  patience.set([] { return false; });
  EXPECT_EQ(testing::decode(decoder, jpeg, kWhole, Mode::kRgb, &index, &index).outcome, Outcome::kGivenUp);
  EXPECT_TRUE(std::ranges::equal(index.points(), before));
}

}  // namespace
}  // namespace carya::jpeg
