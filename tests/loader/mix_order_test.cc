#include "loader/data/mix_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

namespace carya::loader {
namespace {

MixOrder made(MixOrder::Options options) {
  auto order = MixOrder::create(std::move(options));
  CHECK(order);
  return std::move(*order);
}

struct Found {
  std::vector<std::int64_t> sources, epochs, indices;
};

Found rows_of(MixOrder& order, std::uint64_t epoch, std::uint64_t first, std::size_t count) {
  Found found{std::vector<std::int64_t>(count), std::vector<std::int64_t>(count),
              std::vector<std::int64_t>(count)};
  EXPECT_TRUE(order.rows(epoch, first, {found.sources, found.epochs, found.indices}));
  return found;
}

TEST(MixOrder, PlacesAreWhatTheCountsBeforeThemSay) {
  MixOrder order = made({.sources = {{9}, {9}, {9}},
                         .table = {{0, {1, 0, 0}}, {7, {3, 0, 5}}, {40, {2, 7, 1}}},
                         .length = 50,
                         .seed = {}});
  std::vector<std::int64_t> sources(50);
  std::vector<std::int64_t> numbers(50);
  for (std::uint64_t epoch = 0; epoch < 3; ++epoch) {
    ASSERT_TRUE(order.places(epoch, 0, sources, numbers));
    for (std::size_t at = 0; at < 50; ++at) {
      const std::vector<std::uint64_t> before = order.given(epoch * 50 + at);
      std::vector<std::uint64_t> after = before;
      const auto source = static_cast<std::size_t>(sources[at]);
      EXPECT_EQ(static_cast<std::uint64_t>(numbers[at]), before[source]);
      ++after[source];
      EXPECT_EQ(after, order.given(epoch * 50 + at + 1)) << epoch << " " << at;
    }
  }
}

TEST(MixOrder, EveryEpochOfEverySourceHasEachSampleOnceAndAnyPartIsTheSame) {
  std::mt19937 random(3);
  for (const bool in_turn : {false, true}) {
    MixOrder order = made({.sources = {{3000, 5}, {700, {}}, {1, 9}},
                           .table = {{0, {3, 2, 1}}},
                           .length = 9000,
                           .seed = 11,
                           .in_turn = in_turn});
    std::map<std::pair<std::int64_t, std::int64_t>, std::vector<std::int64_t>> taken;
    for (std::uint64_t epoch = 0; epoch < 3; ++epoch) {
      const Found whole = rows_of(order, epoch, 0, 9000);
      for (std::size_t at = 0; at < 9000; ++at)
        taken[{whole.sources[at], whole.epochs[at]}].push_back(whole.indices[at]);
      for (int part = 0; part < 20; ++part) {
        const std::size_t first = random() % 9000;
        const std::size_t count = random() % (9000 - first);
        const Found found = rows_of(order, epoch, first, count);
        const auto begin = static_cast<std::ptrdiff_t>(first);
        EXPECT_TRUE(std::ranges::equal(found.sources, std::span(whole.sources).subspan(first, count)));
        EXPECT_TRUE(std::equal(found.epochs.begin(), found.epochs.end(), whole.epochs.begin() + begin));
        EXPECT_TRUE(std::equal(found.indices.begin(), found.indices.end(), whole.indices.begin() + begin));
      }
    }
    const std::uint64_t counts[] = {3000, 700, 1};
    const std::vector<std::uint64_t> given = order.given(27000);
    for (auto& [of, indices] : taken) {
      const std::uint64_t count = counts[of.first];
      const bool last =
          given[static_cast<std::size_t>(of.first)] / count == static_cast<std::uint64_t>(of.second);
      if (of.first == 1 && in_turn) EXPECT_TRUE(std::ranges::is_sorted(indices));
      std::ranges::sort(indices);
      EXPECT_EQ(std::ranges::adjacent_find(indices), indices.end());
      if (!last) EXPECT_EQ(indices.size(), count);
    }
  }
}

TEST(MixOrder, SamplesStandInTheOrderOfTheirSourceInItsOwnEpoch) {
  MixOrder order = made({.sources = {{30, 5}, {70, {}}}, .table = {{0, {2, 1}}}, .length = 90, .seed = 11});
  std::vector<std::int64_t> sources(90);
  std::vector<std::int64_t> numbers(90);
  for (std::uint64_t epoch = 0; epoch < 3; ++epoch) {
    ASSERT_TRUE(order.places(epoch, 0, sources, numbers));
    const Found found = rows_of(order, epoch, 0, 90);
    for (std::size_t at = 0; at < 90; ++at) {
      const auto number = static_cast<std::uint64_t>(numbers[at]);
      const std::uint64_t expected =
          sources[at] == 0 ? Permutation(5, number / 30, 30)(number % 30) : number % 70;
      EXPECT_EQ(static_cast<std::uint64_t>(found.indices[at]), expected) << epoch << " " << at;
    }
  }
}

TEST(MixOrder, RefusesWhatIsNoMix) {
  const MixOrder::Options fine{
      .sources = {{4}, {4}}, .table = {{0, {1, 1}}, {5, {0, 1}}}, .length = 8, .seed = {}};
  ASSERT_TRUE(MixOrder::create(fine));
  const auto refused = [&](auto change) {
    MixOrder::Options options = fine;
    change(options);
    return !MixOrder::create(options);
  };
  EXPECT_TRUE(refused([](auto& o) { o.sources.clear(); }));
  EXPECT_TRUE(refused([](auto& o) { o.sources[1].count = 0; }));
  EXPECT_TRUE(refused([](auto& o) { o.sources[1].count = Permutation::kCountMax + 1; }));
  EXPECT_TRUE(refused([](auto& o) { o.table.clear(); }));
  EXPECT_TRUE(refused([](auto& o) { o.table[0].at = 1; }));
  EXPECT_TRUE(refused([](auto& o) { o.table[1].at = 0; }));
  EXPECT_TRUE(refused([](auto& o) { o.table[1].weights = {1}; }));
  EXPECT_TRUE(refused([](auto& o) { o.table[1].weights = {0, 0}; }));
  EXPECT_TRUE(refused([](auto& o) { o.table[1].weights = {MixOrder::kWeightsMax, 1}; }));
  EXPECT_TRUE(refused([](auto& o) { o.length = 0; }));
  MixOrder order = made(fine);
  std::vector<std::int64_t> cells(2);
  EXPECT_TRUE(order.places(0, 6, cells, cells));
  EXPECT_FALSE(order.places(0, 7, cells, cells));
  EXPECT_FALSE(order.places(0, 9, cells, cells));
  EXPECT_FALSE(order.places(MixOrder::kPositionsMax / 8, 0, cells, cells));
}

}  // namespace
}  // namespace carya::loader
