#include "base/permutation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <random>
#include <unordered_set>
#include <vector>

#include "base/hash.h"

namespace carya {
namespace {

std::vector<std::uint64_t> order(std::uint64_t seed, std::uint64_t epoch, std::uint64_t count) {
  const Permutation permutation(seed, epoch, count);
  std::vector<std::uint64_t> records(count);
  for (std::uint64_t i = 0; i < count; ++i) records[i] = permutation(i);
  return records;
}

TEST(Permutation, IsABijectionForEveryCountUpTo5000) {
  std::vector<std::uint64_t> seen(5000, 0);
  std::uint64_t run = 0;
  for (std::uint64_t count = 0; count <= 5000; ++count) {
    const Permutation permutation(count % 7, count % 3, count);
    ++run;
    for (std::uint64_t i = 0; i < count; ++i) {
      const std::uint64_t record = permutation(i);
      ASSERT_LT(record, count);
      ASSERT_NE(seen[record], run) << "count " << count << " delivers record " << record << " twice";
      seen[record] = run;
    }
  }
}

TEST(Permutation, IsABijectionOfAWholeMediumDomain) {
  for (std::uint64_t count : {std::uint64_t{65'536}, std::uint64_t{65'537}, std::uint64_t{1'281'167}}) {
    std::vector<bool> seen(count);
    const Permutation permutation(5, 1, count);
    for (std::uint64_t i = 0; i < count; ++i) {
      const std::uint64_t record = permutation(i);
      ASSERT_LT(record, count);
      ASSERT_FALSE(seen[record]);
      seen[record] = true;
    }
  }
}

// A function that is no bijection of a large domain collides among s random points about s^2 / 2N times; 2^20
// windows of neighbours, the ends, and random points are looked at.
TEST(Permutation, HasNoCollisionsInSamplesOfLargeCounts) {
  for (std::uint64_t count :
       {(std::uint64_t{1} << 31) - 1, (std::uint64_t{1} << 32) + 1, std::uint64_t{1'000'000'007},
        (std::uint64_t{1} << 47) + 12345, Permutation::kCountMax - 1, Permutation::kCountMax}) {
    const Permutation permutation(1, 2, count);
    std::unordered_set<std::uint64_t> positions;
    std::mt19937_64 random(99);
    for (std::uint64_t i = 0; i < 50'000; ++i) {
      positions.insert(i);
      positions.insert(count - 1 - i);
      positions.insert(count / 2 + i);
      positions.insert(random() % count);
    }
    std::unordered_set<std::uint64_t> records;
    for (std::uint64_t position : positions) {
      const std::uint64_t record = permutation(position);
      ASSERT_LT(record, count);
      ASSERT_TRUE(records.insert(record).second) << "count " << count;
    }
  }
}

// A bug that drops a high bit would show as records that never leave a part of the range.
TEST(Permutation, SpreadsLargeCountsEvenly) {
  for (std::uint64_t count : {std::uint64_t{1'000'000'000}, Permutation::kCountMax - 7}) {
    const Permutation permutation(3, 0, count);
    std::array<int, 100> cells{};
    for (std::uint64_t i = 0; i < 100'000; ++i) ++cells[permutation(i) / (count / 100 + 1)];
    double chi = 0;
    for (int cell : cells) chi += (cell - 1000.0) * (cell - 1000.0) / 1000.0;
    EXPECT_GT(chi, 50);  // 99 degrees of freedom: 99 +- 14; also too even would be wrong
    EXPECT_LT(chi, 170);
  }
}

// 119 degrees of freedom: mean 119, standard deviation 15.4.
TEST(Permutation, AllOrdersOfFiveAreEquallyLikely) {
  constexpr int kOrders = 120, kPerOrder = 2000;
  std::map<std::vector<std::uint64_t>, int> seen;
  for (std::uint64_t seed = 0; seed < kOrders * kPerOrder; ++seed) ++seen[order(seed, seed % 5, 5)];
  ASSERT_EQ(seen.size(), static_cast<std::size_t>(kOrders));
  double chi = 0;
  for (const auto& [records, count] : seen)
    chi += (count - kPerOrder) * double(count - kPerOrder) / kPerOrder;
  EXPECT_LT(chi, 119 + 4 * 15.4);
  EXPECT_GT(chi, 119 - 4 * 15.4);
}

bool is_odd(std::vector<std::uint64_t> records) {
  bool odd = false;
  for (std::uint64_t i = 0; i < records.size(); ++i)
    while (records[i] != i) {
      std::swap(records[records[i]], records[i]);
      odd = !odd;
    }
  return odd;
}

TEST(Permutation, HalfOfTheOrdersOfAPowerOfTwoAreOdd) {
  for (std::uint64_t count : {2, 64, 128, 1024}) {
    int odd = 0;
    for (std::uint64_t seed = 0; seed < 2000; ++seed) odd += is_odd(order(seed, 0, count));
    EXPECT_NEAR(odd, 1000, 5 * 22.4) << "count " << count;
  }
}

// Chi-square of (position cell, record cell) over 200 seeds: every position must see every record equally
// often.
TEST(Permutation, EveryPositionSeesEveryRecordEquallyOften) {
  for (std::uint64_t count : {10, 50, 100, 1000, 4097}) {
    constexpr int kCells = 10;
    std::array<std::array<double, kCells>, kCells> seen{};
    for (std::uint64_t seed = 0; seed < 200; ++seed) {
      const Permutation permutation(seed, 0, count);
      for (std::uint64_t i = 0; i < count; ++i) ++seen[i * kCells / count][permutation(i) * kCells / count];
    }
    double chi = 0;
    std::array<double, kCells> cell_size{};
    for (std::uint64_t i = 0; i < count; ++i) ++cell_size[i * kCells / count];
    for (int row = 0; row < kCells; ++row)
      for (int column = 0; column < kCells; ++column) {
        const double expected = 200.0 * cell_size[row] * cell_size[column] / static_cast<double>(count);
        chi += (seen[row][column] - expected) * (seen[row][column] - expected) / expected;
      }
    // 81 degrees of freedom (rows and columns are fixed), variance a little smaller than of independent
    // draws.
    EXPECT_LT(chi, 81 * static_cast<double>(count) / static_cast<double>(count - 1) + 4.5 * 12.8)
        << "count " << count;
    EXPECT_GT(chi, 81 - 4.5 * 12.8) << "count " << count;
  }
}

double correlation(const std::vector<std::uint64_t>& first, const std::vector<std::uint64_t>& second) {
  const double count = static_cast<double>(first.size());
  const double mean = (count - 1) / 2, variance = (count * count - 1) / 12;
  double sum = 0;
  for (std::size_t i = 0; i < first.size(); ++i)
    sum += (static_cast<double>(first[i]) - mean) * (static_cast<double>(second[i]) - mean);
  return sum / count / variance;
}

TEST(Permutation, RecordsDoNotFollowPositions) {
  constexpr std::uint64_t kCount = 20'000;
  std::vector<std::uint64_t> identity(kCount);
  for (std::uint64_t i = 0; i < kCount; ++i) identity[i] = i;
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    const auto records = order(seed, 0, kCount);
    EXPECT_LT(std::abs(correlation(identity, records)), 4.5 / 141.4) << "seed " << seed;
    for (std::size_t lag : {1, 2, 3, 64, 128}) {
      auto shifted = records;
      std::rotate(shifted.begin(), shifted.begin() + static_cast<std::ptrdiff_t>(lag), shifted.end());
      EXPECT_LT(std::abs(correlation(records, shifted)), 4.5 / 141.4) << "seed " << seed << " lag " << lag;
    }
  }
}

// Ascending steps of a random order: mean (n - 1) / 2, variance (n + 1) / 12.
TEST(Permutation, HasAsManyAscentsAsChance) {
  constexpr std::uint64_t kCount = 12'000;
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    const auto records = order(seed, 3, kCount);
    int ascents = 0, runs_of_three = 0;
    for (std::size_t i = 0; i + 1 < records.size(); ++i) ascents += records[i] < records[i + 1];
    for (std::size_t i = 0; i + 2 < records.size(); ++i)
      runs_of_three += records[i] < records[i + 1] && records[i + 1] < records[i + 2];
    EXPECT_NEAR(ascents, (kCount - 1) / 2.0, 4.5 * 31.6) << "seed " << seed;
    EXPECT_NEAR(runs_of_three, (kCount - 2) / 6.0, 4.5 * 52) << "seed " << seed;
  }
}

TEST(Permutation, NeighbouringSeedsAndEpochsAreUncorrelated) {
  constexpr std::uint64_t kCount = 20'000;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const auto records = order(seed, 0, kCount);
    EXPECT_LT(std::abs(correlation(records, order(seed + 1, 0, kCount))), 4.5 / 141.4) << "seed " << seed;
    EXPECT_LT(std::abs(correlation(records, order(seed, 1, kCount))), 4.5 / 141.4) << "seed " << seed;
    EXPECT_LT(std::abs(correlation(records, order(seed ^ (std::uint64_t{1} << 63), 0, kCount))), 4.5 / 141.4);
  }
}

// A random order has one fixed point on average, whatever the count: Poisson with mean 1.
TEST(Permutation, HasOneFixedPointOnAverage) {
  for (std::uint64_t count : {7, 63, 1000}) {
    int fixed = 0;
    for (std::uint64_t seed = 0; seed < 4000; ++seed) {
      const Permutation permutation(seed, 9, count);
      for (std::uint64_t i = 0; i < count; ++i) fixed += permutation(i) == i;
    }
    EXPECT_NEAR(fixed, 4000, 5 * 63.2) << "count " << count;
  }
}

// The orders are part of the stream: another digest breaks every checkpoint and needs a new state version.
TEST(Permutation, OrdersAreTheSameForEver) {
  Hasher128 hasher;
  for (std::uint64_t count : {1, 2, 5, 64, 1000, 65'537})
    for (std::uint64_t record : order(42, 7, count)) hasher.update(record);
  const Permutation large(42, 7, Permutation::kCountMax - 1);
  for (std::uint64_t i = 0; i < 1000; ++i) hasher.update(large(i));
  EXPECT_EQ(hasher.digest().hex(), "f64a31498e53780fefef28dd0cd4ab41");
}

TEST(PermutationDeathTest, RefusesAPositionOutsideAndATooLargeCount) {
  EXPECT_DEATH(Permutation(0, 0, 10)(10), "position < count_");
  EXPECT_DEATH(Permutation(0, 0, Permutation::kCountMax + 1), "kCountMax");
}

}  // namespace
}  // namespace carya
