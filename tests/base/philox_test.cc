#include "base/philox.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

namespace carya {
namespace {

using Counter = Philox4x32::Counter;

// Source: Random123's kat_vectors, lines "philox4x32 10".
TEST(Philox, GivesTheKnownAnswersOfRandom123) {
  EXPECT_EQ(Philox4x32::block({0, 0, 0, 0}, {0, 0}),
            (Counter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(Philox4x32::block({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}),
            (Counter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(Philox4x32::block({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Counter{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, OpKeysDifferInEveryPart) {
  const std::set<Philox4x32::Key> keys{op_key(0, "crop", 0), op_key(1, "crop", 0), op_key(0, "flip", 0),
                                       op_key(0, "crop", 1), op_key(std::uint64_t{1} << 32, "crop", 0)};
  EXPECT_EQ(keys.size(), 5u);
}

TEST(SampleRng, FollowsTheFormulaOfItsHeader) {
  const Philox4x32::Key key{7, 9};
  const std::uint64_t epoch = 0x1'0000'0002, record = 0x3'0000'0004, occurrence = 0x5'0000'0006;
  const Counter fold = Philox4x32::block({2, 1, 6, 5}, key);
  SampleRng rng(key, epoch, record, occurrence);
  for (std::uint32_t block = 0; block < 3; ++block)
    for (std::uint32_t word : Philox4x32::block({4, 3, fold[2], block}, {fold[0], fold[1]}))
      EXPECT_EQ(rng.next_u32(), word);
}

TEST(SampleRng, HasOtherNumbersForEveryPartOfItsAddress) {
  const Philox4x32::Key key = op_key(0, "crop", 0);
  std::set<std::uint32_t> first;
  for (std::uint64_t shift : {0, 1, 31, 32, 33, 47}) {
    const std::uint64_t one = std::uint64_t{1} << shift;
    first.insert(SampleRng(key, one, 0, 0).next_u32());
    first.insert(SampleRng(key, 0, one, 0).next_u32());
    first.insert(SampleRng(key, 0, 0, one).next_u32());
  }
  EXPECT_EQ(first.size(), 18u);
}

TEST(SampleRng, DoublesAreUniform) {
  double sum = 0, sum_of_squares = 0;
  constexpr int kCount = 200'000;
  for (int record = 0; record < kCount; ++record) {
    const double value = SampleRng({1, 2}, 0, static_cast<std::uint64_t>(record), 0).next_double();
    ASSERT_GE(value, 0.0);
    ASSERT_LT(value, 1.0);
    sum += value;
    sum_of_squares += value * value;
  }
  EXPECT_NEAR(sum / kCount, 0.5, 5 * 0.2887 / std::sqrt(kCount));
  EXPECT_NEAR(sum_of_squares / kCount, 1.0 / 3, 5 * 0.2981 / std::sqrt(kCount));
}

TEST(SampleRng, NextBelowIsUniformAndBounded) {
  SampleRng rng({3, 4}, 0, 0, 0);
  for (std::uint64_t bound : {std::uint64_t{1}, std::uint64_t{7}, std::uint64_t{100}}) {
    std::vector<int> seen(bound);
    constexpr int kPerCell = 2000;
    for (std::uint64_t i = 0; i < bound * kPerCell; ++i) {
      const std::uint64_t value = rng.next_below(bound);
      ASSERT_LT(value, bound);
      ++seen[value];
    }
    for (int cell : seen) EXPECT_NEAR(cell, kPerCell, 5 * std::sqrt(kPerCell));
  }
  // Just above 2^63 half of all words are rejected: the loop must end, and both halves must appear.
  const std::uint64_t bound = (std::uint64_t{1} << 63) + 1;
  int upper = 0;
  for (int i = 0; i < 2000; ++i) {
    const std::uint64_t value = rng.next_below(bound);
    ASSERT_LT(value, bound);
    upper += value >= bound / 2;
  }
  EXPECT_NEAR(upper, 1000, 5 * std::sqrt(500));
}

// No correlation between neighbouring seeds, epochs, records, ops and occurrences.
TEST(SampleRng, NeighboursAreUncorrelated) {
  constexpr int kCount = 50'000;
  const auto correlation = [](auto first, auto second) {
    double sum = 0;
    for (int i = 0; i < kCount; ++i) {
      const auto at = static_cast<std::uint64_t>(i);
      sum += (first(at).next_double() - 0.5) * (second(at).next_double() - 0.5);
    }
    return sum / kCount * 12;
  };
  const Philox4x32::Key crop = op_key(0, "crop", 0), crop_again = op_key(0, "crop", 1),
                        flip = op_key(0, "flip", 0);
  const auto base = [&](std::uint64_t i) { return SampleRng(crop, 0, i, 0); };
  const double bound = 5 / std::sqrt(kCount);
  EXPECT_LT(std::abs(correlation(base, [&](auto i) { return SampleRng(crop, 0, i + 1, 0); })), bound);
  EXPECT_LT(std::abs(correlation(base, [&](auto i) { return SampleRng(crop, 1, i, 0); })), bound);
  EXPECT_LT(std::abs(correlation(base, [&](auto i) { return SampleRng(crop, 0, i, 1); })), bound);
  EXPECT_LT(std::abs(correlation(base, [&](auto i) { return SampleRng(crop_again, 0, i, 0); })), bound);
  EXPECT_LT(std::abs(correlation(base, [&](auto i) { return SampleRng(flip, 0, i, 0); })), bound);
  const auto seeded = [](std::uint64_t i) { return SampleRng(op_key(i, "crop", 0), 0, 0, 0); };
  EXPECT_LT(
      std::abs(correlation(seeded, [](auto i) { return SampleRng(op_key(i + 1, "crop", 0), 0, 0, 0); })),
      bound);
}

TEST(EpochGroups, FirstAndEndAreThoseOfCountingEpochs) {
  EXPECT_TRUE(EpochGroups().each_alone());
  EXPECT_EQ(EpochGroups().first(7), 7U);
  EXPECT_EQ(EpochGroups().end(7), 8U);
  const EpochGroups groups({{0, 3}, {4, 2}, {5, 1}, {9, 4}});
  EXPECT_FALSE(groups.each_alone());
  std::vector<std::uint64_t> begins;
  for (std::uint64_t epoch = 0, length = 0; epoch < 40; ++epoch) {
    const auto& parts = groups.parts();
    const auto part = std::ranges::find(parts, epoch, &EpochGroups::Part::from);
    const std::uint64_t now = parts[groups.part_at(epoch)].epochs;
    if (part != parts.end() || length == now) begins.push_back(epoch), length = 0;
    ++length;
  }
  begins.push_back(41);  // 9, 13, ... 37, 41
  for (std::size_t i = 0; i + 1 < begins.size(); ++i)
    for (std::uint64_t epoch = begins[i]; epoch < std::min<std::uint64_t>(begins[i + 1], 40); ++epoch) {
      EXPECT_EQ(groups.first(epoch), begins[i]) << epoch;
      EXPECT_EQ(groups.end(epoch), begins[i + 1]) << epoch;
    }
  EXPECT_EQ(begins, (std::vector<std::uint64_t>{0, 3, 4, 5, 6, 7, 8, 9, 13, 17, 21, 25, 29, 33, 37, 41}));
  const EpochGroups whole({{0, std::uint64_t{1} << 48}});
  EXPECT_EQ(whole.first(EpochGroups::kNoEnd - 1) % (std::uint64_t{1} << 48), 0U);
  EXPECT_EQ(whole.end(EpochGroups::kNoEnd - 1), EpochGroups::kNoEnd);
}

}  // namespace
}  // namespace carya
