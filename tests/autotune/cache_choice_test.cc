// What is kept: the choice against playing the whole run, record by record.
#include "autotune/cache/cache_choice.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

namespace carya::autotune {
namespace {

/// CPU seconds of a whole run: in each epoch every record is a hit, a fill or neither.
double played(const CacheInputs& facts, std::optional<std::size_t> place) {
  double sum = 0, room = facts.capacity_bytes;
  const auto records = static_cast<int>(facts.records);
  std::vector<bool> kept(static_cast<std::size_t>(records));
  for (int epoch = 0; epoch < static_cast<int>(facts.epochs_left); ++epoch)
    for (std::size_t r = 0; r < kept.size(); ++r) {
      if (place && kept[r]) {
        sum += facts.places[*place].hit_s;
      } else if (place && epoch == 0 && room >= facts.places[*place].bytes) {
        kept[r] = true;
        room -= facts.places[*place].bytes;
        sum += facts.places[*place].fill_s;
      } else {
        sum += facts.sample_s;
      }
    }
  return sum / facts.records;
}

CacheInputs photos(double epochs) {
  return {.sample_s = 420e-6,
          .places = {{.at = {1}, .fill_s = 800e-6, .hit_s = 110e-6, .bytes = 580e3}},
          .records = 1000,
          .capacity_bytes = 1e9,
          .epochs_left = epochs};
}

TEST(CacheChoice, IsTheBestOfPlayingEveryPlace) {
  std::mt19937_64 random(7);
  const auto draw = [&](double low, double high) {
    return std::exp(std::uniform_real_distribution<double>(std::log(low), std::log(high))(random));
  };
  int kept = 0;
  for (int world = 0; world < 400; ++world) {
    CacheInputs facts{.sample_s = draw(1e-5, 1e-2), .records = std::floor(draw(1, 200))};
    for (std::size_t ops = 1; ops <= random() % 7; ++ops) {
      const double hit = draw(1e-6, 1e-2);
      facts.places.push_back(
          {.at = {ops}, .fill_s = hit + draw(1e-5, 1e-2), .hit_s = hit, .bytes = std::floor(draw(1e3, 1e6))});
    }
    facts.epochs_left = 1 + static_cast<double>(random() % 9);
    // Whole records, so that the share is what fits.
    const double whole = facts.places.empty() ? 1 : facts.places[random() % facts.places.size()].bytes;
    facts.capacity_bytes = whole * static_cast<double>(random() % 250);
    const auto choice = choose_cache(facts, std::nullopt);
    ASSERT_TRUE(choice) << choice.error().message;
    ASSERT_EQ(choice->all.size(), facts.places.size() + 1);
    const double nothing = played(facts, std::nullopt);
    double best = nothing;
    for (const CacheCost& cost : choice->all) {
      const double share = cost.share * facts.records;
      best = std::min(best, cost.run_s);
      if (share == std::floor(share)) EXPECT_NEAR(cost.run_s, played(facts, cost.place), 1e-9 * nothing);
    }
    EXPECT_LE(choice->chosen.run_s, best + kCacheMargin * nothing);
    if (choice->chosen.place) {
      EXPECT_EQ(choice->chosen.run_s, best);
      ++kept;
    }
  }
  EXPECT_GT(kept, 50);
}

TEST(CacheChoice, ReadsThatAreSavedCountInMoneyAndTime) {
  CacheInputs facts = photos(10);
  facts.places[0] = {.at = {.form = CacheForm::kRecords}, .fill_s = 430e-6, .hit_s = 425e-6, .bytes = 1e5};
  EXPECT_FALSE(choose_cache(facts, std::nullopt)->chosen.place) << "computing it costs as much as ever";
  facts.read_s = 100e-6;
  const auto money = choose_cache(facts, std::nullopt);
  ASSERT_TRUE(money->chosen.place);
  EXPECT_NEAR(money->chosen.run_s, (430e-6 + 100e-6) + 9 * 425e-6, 1e-12) << "each record is read once";
  EXPECT_NEAR(money->all[0].run_s, 10 * 520e-6, 1e-12);
  facts.read_s = 0;
  facts.wait_s = 400e-6;
  EXPECT_FALSE(choose_cache(facts, std::nullopt)->chosen.place) << "the threads wait for no read";
  facts.wait_s = 2e-3;
  const auto time = choose_cache(facts, std::nullopt);
  ASSERT_TRUE(time->chosen.place);
  EXPECT_NEAR(time->chosen.run_s, 2e-3 + 9 * 425e-6, 1e-12) << "filling is free while they wait";
  facts.capacity_bytes = 0.5 * facts.records * 1e5;
  EXPECT_NEAR(choose_cache(facts, std::nullopt)->chosen.later_s, 1e-3, 1e-12) << "half of the reads are left";
}

TEST(CacheChoice, APlaceThatIsSlowerThanWhatItSavesIsNotTaken) {
  CacheInputs facts = photos(5);
  facts.places[0].hit_s = 20e-6;
  ASSERT_EQ(choose_cache(facts, std::nullopt)->chosen.place, 0u);
  facts.places[0].fetch_s = 450e-6;  // its disk gives a picture more slowly than it is decoded
  const auto slow = choose_cache(facts, std::nullopt);
  EXPECT_FALSE(slow->chosen.place);
  EXPECT_DOUBLE_EQ(slow->all[1].later_s, 450e-6);
  facts.places[0].fetch_s = 200e-6;
  facts.places[0].put_s = 1000e-6;
  const auto late = choose_cache(facts, std::nullopt);
  EXPECT_DOUBLE_EQ(late->all[1].run_s, 1000e-6 + 4 * 200e-6) << "in the first epoch writing is slowest";
  EXPECT_TRUE(late->chosen.place);
  // A small tier in memory beside a large one on a disk, which fetches half as fast as it is computed.
  facts.places.push_back(facts.places[0]);
  facts.places[0] = {.at = {1}, .fill_s = 500e-6, .hit_s = 20e-6, .bytes = 580e3};
  facts.capacity_bytes = 0.1 * 580e6;
  facts.places[1].capacity_bytes = 1e12;
  EXPECT_EQ(choose_cache(facts, std::nullopt)->chosen.place, 1u);
  facts.places[1].capacity_bytes = 0.05 * 580e6;
  EXPECT_EQ(choose_cache(facts, std::nullopt)->chosen.place, 0u);
}

TEST(CacheChoice, KeepsNothingForOneEpoch) {
  EXPECT_FALSE(choose_cache(photos(1), std::nullopt)->chosen.place);
  EXPECT_TRUE(choose_cache(photos(10), std::nullopt)->chosen.place);
}

TEST(CacheChoice, WeighsTheWholePictureAgainstTheRegion) {
  // Decoding regions with an index is cheaper for two epochs; not for three.
  const auto two = choose_cache(photos(2), std::nullopt);
  EXPECT_FALSE(two->chosen.place);
  EXPECT_NEAR(two->all[1].pays_back_epochs.value(), 1 + 380.0 / 310.0, 1e-9);
  EXPECT_TRUE(choose_cache(photos(3), std::nullopt)->chosen.place);
  CacheInputs little = photos(10);
  little.places[0].hit_s = 430e-6;
  EXPECT_FALSE(choose_cache(little, std::nullopt)->chosen.place);
  EXPECT_FALSE(choose_cache(little, std::nullopt)->all[1].pays_back_epochs);
}

TEST(CacheChoice, StaysWhereItIsForLessThanTheMargin) {
  CacheInputs facts = photos(100);
  facts.places.push_back({.at = {2}, .fill_s = 800e-6, .hit_s = 109e-6, .bytes = 580e3});
  EXPECT_EQ(choose_cache(facts, 0)->chosen.place, 0);
  EXPECT_EQ(choose_cache(facts, 1)->chosen.place, 1);
  facts.places[1].hit_s = 60e-6;
  EXPECT_EQ(choose_cache(facts, 0)->chosen.place, 1);
  facts.places[1].hit_s = facts.places[0].hit_s = 500e-6;
  EXPECT_FALSE(choose_cache(facts, 0)->chosen.place);
}

TEST(CacheChoice, KeepsTheShareThatFits) {
  CacheInputs facts = photos(10);
  facts.capacity_bytes = 0.4 * facts.records * facts.places[0].bytes;
  const auto choice = choose_cache(facts, std::nullopt);
  EXPECT_DOUBLE_EQ(choice->chosen.share, 0.4);
  EXPECT_NEAR(choice->chosen.later_s, 0.6 * 420e-6 + 0.4 * 110e-6, 1e-12);
}

TEST(CacheChoice, ARankAmongSeveralMeetsNewRecordsInLaterEpochsToo) {
  constexpr int kRecords = 4000, kRanks = 4, kEpochs = 6;
  std::mt19937_64 random(5);
  std::vector<bool> seen(kRecords);
  double fills = 0;
  for (int row = 0; row < kEpochs * kRecords / kRanks;
       ++row) {  // one epoch's rows have no record twice; nearly so here
    const std::size_t record = random() % kRecords;
    fills += seen[record] ? 0 : 1;
    seen[record] = true;
  }
  EXPECT_NEAR(filling_epochs(kRanks, kEpochs), fills * kRanks / kRecords, 0.25);
  EXPECT_EQ(filling_epochs(1, kEpochs), 1);
  EXPECT_EQ(filling_epochs(8, 1), 1);
  CacheInputs facts = photos(3);
  facts.filling_epochs = filling_epochs(8, 3);
  EXPECT_FALSE(choose_cache(facts, std::nullopt)->chosen.place)
      << "of three epochs hardly a record comes twice";
  facts.epochs_left = 90;
  facts.filling_epochs = filling_epochs(8, 90);
  EXPECT_TRUE(choose_cache(facts, std::nullopt)->chosen.place);
}

TEST(CacheChoice, NumbersThatCannotBeAreNamed) {
  CacheInputs facts = photos(10);
  facts.places[0].bytes = 0;
  const auto refused = choose_cache(facts, std::nullopt);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("after 1 ops: bytes"), std::string::npos);
  EXPECT_FALSE(choose_cache({.sample_s = NAN, .records = 1}, std::nullopt));
}

TEST(CacheChoice, ExpectsAsMuchAsThereWas) {
  EXPECT_EQ(expected_epochs(10, 3), 7);
  EXPECT_EQ(expected_epochs(10, 12), 1);
  EXPECT_EQ(expected_epochs(std::nullopt, 0), 2);
  EXPECT_EQ(expected_epochs(std::nullopt, 4), 6);
}

}  // namespace
}  // namespace carya::autotune
