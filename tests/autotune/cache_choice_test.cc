// What is kept: the choice against playing the whole run, record by record.
#include "autotune/cache/cache_choice.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

namespace carya::autotune {
namespace {

/// CPU seconds of a whole run: in each epoch every record is a hit, a fill or neither. A place with groups is emptied where
/// one begins; of the first, whose beginning is over, the records in front are kept already.
double played(const CacheInputs& facts, std::optional<std::size_t> place) {
  double sum = 0, room = facts.capacity_bytes;
  const auto records = static_cast<int>(facts.records);
  const std::optional<EpochGroups> groups = place ? facts.places[*place].groups : std::nullopt;
  const auto begins = [&](int epoch) {
    return groups && groups->first(static_cast<std::uint64_t>(epoch)) == static_cast<std::uint64_t>(epoch);
  };
  const int first = static_cast<int>(facts.epoch), end = first + static_cast<int>(facts.epochs_left);
  std::vector<bool> kept(static_cast<std::size_t>(records));
  if (place)
    for (std::size_t r = 0;
         r < static_cast<std::size_t>(std::llround(facts.places[*place].kept * facts.records)); ++r)
      kept[r] = true, room -= facts.places[*place].bytes;
  for (int epoch = first; epoch < end; ++epoch) {
    if (epoch > first && begins(epoch)) {
      kept.assign(kept.size(), false);
      room = facts.capacity_bytes;
    }
    const bool fills = groups ? epoch + 1 < end && !begins(epoch + 1) : epoch == first;
    for (std::size_t r = 0; r < kept.size(); ++r) {
      if (place && kept[r]) {
        sum += facts.places[*place].hit_s;
      } else if (place && fills && room >= facts.places[*place].bytes) {
        kept[r] = true;
        room -= facts.places[*place].bytes;
        sum += facts.places[*place].fill_s;
      } else {
        sum += facts.sample_s;
      }
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

/// Even in its logarithm.
double drawn(std::mt19937_64& random, double low, double high) {
  return std::exp(std::uniform_real_distribution<double>(std::log(low), std::log(high))(random));
}

TEST(CacheChoice, IsTheBestOfPlayingEveryPlace) {
  std::mt19937_64 random(7);
  const auto draw = [&](double low, double high) { return drawn(random, low, high); };
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
    const auto choice = choose_cache(facts);
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

/// Groups of 1 to 6 epochs, of which some begin anew with another length.
EpochGroups drawn_groups(std::mt19937_64& random) {
  std::vector<EpochGroups::Part> parts{{0, 1 + random() % 6}};
  while (random() % 2 == 0) parts.push_back({parts.back().from + 1 + random() % 9, 1 + random() % 6});
  return EpochGroups(parts);
}

TEST(CacheChoice, OfPlacesWithGroupsTheBestOfPlayingThemIsTaken) {
  std::mt19937_64 random(11);
  const auto draw = [&](double low, double high) { return drawn(random, low, high); };
  int periodic = 0, lasting = 0, nothing = 0;
  for (int world = 0; world < 800; ++world) {
    CacheInputs facts{.sample_s = draw(1e-4, 1e-3), .records = std::floor(draw(1, 60))};
    const EpochGroups groups = drawn_groups(random);
    facts.epoch = static_cast<double>(random() % 9);
    facts.epochs_left = static_cast<double>(1 + random() % 20);
    facts.places.push_back({.at = {1},
                            .fill_s = facts.sample_s * draw(1.05, 2),
                            .hit_s = facts.sample_s * draw(0.3, 0.9),
                            .bytes = 6e5});
    facts.places.push_back({.at = {2},
                            .fill_s = facts.sample_s * draw(1.01, 1.6),
                            .hit_s = facts.sample_s * draw(0.02, 0.5),
                            .bytes = 1.5e5,
                            .groups = groups});
    facts.capacity_bytes = facts.records * 6e5;
    // What is kept is of the present group, which began before.
    const auto present = static_cast<std::uint64_t>(facts.epoch);
    if (present > groups.first(present) && random() % 2 == 0)
      facts.places[1].kept = std::floor(draw(1, 1 + facts.records)) / (1 + facts.records);
    facts.places[1].kept = std::floor(facts.places[1].kept * facts.records) / facts.records;
    const auto choice = choose_cache(facts);
    ASSERT_TRUE(choice) << choice.error().message;
    double best = choice->all.front().run_s;
    for (const CacheCost& cost : choice->all) {
      EXPECT_NEAR(cost.run_s, played(facts, cost.place), 1e-9) << world;
      best = std::min(best, cost.run_s);
    }
    EXPECT_LE(choice->chosen.run_s, best + kCacheMargin * choice->all.front().run_s);
    ++(!choice->chosen.place ? nothing : *choice->chosen.place == 1 ? periodic : lasting);
  }
  EXPECT_GT(periodic, 50);
  EXPECT_GT(lasting, 20);
  EXPECT_GT(nothing, 20);
}

TEST(CacheChoice, APeriodPaysWhatFillingCostsByItself) {
  CacheInputs facts = photos(100);
  facts.places[0].groups = EpochGroups({{0, 2}});  // 380 us more in one epoch, 310 less in the other
  EXPECT_FALSE(choose_cache(facts)->chosen.place);
  EXPECT_FALSE(choose_cache(facts)->all[1].pays_back_epochs);
  facts.places[0].groups = EpochGroups({{0, 3}});
  const auto choice = choose_cache(facts);
  ASSERT_TRUE(choice->chosen.place);
  EXPECT_NEAR(choice->chosen.later_s, (800e-6 + 2 * 110e-6) / 3, 1e-12);
  EXPECT_NEAR(choice->chosen.pays_back_epochs.value_or(0), 1 + 380.0 / 310, 1e-9);
  facts.epoch = 2,
  facts.epochs_left = 2;  // the last epoch of a period, and the first of the next, which is the last
  EXPECT_FALSE(choose_cache(facts)->chosen.place);
  EXPECT_FALSE(pays_to_fill(facts, facts.places[0])) << "it is over with this epoch";
  facts.epoch = 3, facts.epochs_left = 3;
  EXPECT_TRUE(pays_to_fill(facts, facts.places[0]));
}

/// A second job of the same data: it plays on from what the first has put at its place, where it has no room of its own
/// at others beyond what the first has left.
TEST(CacheChoice, WhatOthersKeepAlreadyIsFoundFromTheFirstEpochOn) {
  std::mt19937_64 random(23);
  const auto draw = [&](double low, double high) { return drawn(random, low, high); };
  int same = 0, other = 0;
  for (int world = 0; world < 400; ++world) {
    CacheInputs facts{.sample_s = draw(1e-4, 1e-2), .records = 20 + std::floor(draw(1, 200))};
    facts.epochs_left = 2 + static_cast<double>(random() % 8);
    for (std::size_t ops = 1; ops <= 2 + random() % 5; ++ops) {
      const double hit = facts.sample_s * draw(0.01, 0.9);
      facts.places.push_back({.at = {ops},
                              .fill_s = facts.sample_s + draw(1e-6, 1e-3),
                              .hit_s = hit,
                              .bytes = std::floor(draw(1e3, 1e6))});
    }
    // The first job keeps whole records at one place, and has filled a part of them.
    const std::size_t taken = random() % facts.places.size();
    const double fits = std::floor(draw(1, facts.records + 1)), there = std::floor(draw(1, fits + 1));
    const double left_bytes = random() % 2 == 0 ? 0 : draw(1e4, 1e8);
    for (CachePlace& place : facts.places) place.tiers = {{.capacity_bytes = left_bytes}};
    CachePlace& live = facts.places[taken];
    live.tiers = {{.capacity_bytes = fits * live.bytes}};
    live.kept = there / facts.records;
    const auto played_on = [&](std::size_t index) {
      const CachePlace& place = facts.places[index];
      double sum = 0, kept = index == taken ? there : 0;
      const double most = std::min(facts.records, place.tiers[0].capacity_bytes / place.bytes);
      for (int epoch = 0; epoch < static_cast<int>(facts.epochs_left); ++epoch) {
        sum += kept * place.hit_s + (most - kept) * place.fill_s + (facts.records - most) * facts.sample_s;
        kept = most;
      }
      return sum / facts.records;
    };
    const auto choice = choose_cache(facts);
    ASSERT_TRUE(choice) << choice.error().message;
    const double nothing = facts.epochs_left * facts.sample_s;
    double best = nothing;
    for (std::size_t i = 0; i < facts.places.size(); ++i) {
      EXPECT_NEAR(choice->all[i + 1].run_s, played_on(i), 1e-9 * nothing) << world << " " << i;
      best = std::min(best, played_on(i));
    }
    EXPECT_LE(choice->chosen.run_s, best + kCacheMargin * nothing);
    EXPECT_LE(choice->chosen.run_s, played_on(taken) + kCacheMargin * nothing)
        << "what marking it would cost";
    if (left_bytes == 0 && choice->chosen.place) EXPECT_EQ(choice->chosen.place, taken);
    if (choice->chosen.place) ++(choice->chosen.place == taken ? same : other);
  }
  EXPECT_GT(same, 100);
  EXPECT_GT(other, 20);
}

TEST(CacheChoice, ReadsThatAreSavedCountInMoneyAndTime) {
  CacheInputs facts = photos(10);
  facts.places[0] = {.at = {.form = CacheForm::kRecords}, .fill_s = 430e-6, .hit_s = 425e-6, .bytes = 1e5};
  EXPECT_FALSE(choose_cache(facts)->chosen.place) << "computing it costs as much as ever";
  facts.read_s = 100e-6;
  const auto money = choose_cache(facts);
  ASSERT_TRUE(money->chosen.place);
  EXPECT_NEAR(money->chosen.run_s, (430e-6 + 100e-6) + 9 * 425e-6, 1e-12) << "each record is read once";
  EXPECT_NEAR(money->all[0].run_s, 10 * 520e-6, 1e-12);
  facts.read_s = 0;
  facts.wait_s = 400e-6;
  EXPECT_FALSE(choose_cache(facts)->chosen.place) << "the threads wait for no read";
  facts.wait_s = 2e-3;
  const auto time = choose_cache(facts);
  ASSERT_TRUE(time->chosen.place);
  EXPECT_NEAR(time->chosen.run_s, 2e-3 + 9 * 425e-6, 1e-12) << "filling is free while they wait";
  facts.capacity_bytes = 0.5 * facts.records * 1e5;
  EXPECT_NEAR(choose_cache(facts)->chosen.later_s, 1e-3, 1e-12) << "half of the reads are left";
}

TEST(CacheChoice, APlaceThatIsSlowerThanWhatItSavesIsNotTaken) {
  CacheInputs facts = photos(5);
  facts.places[0].hit_s = 20e-6;
  ASSERT_EQ(choose_cache(facts)->chosen.place, 0u);
  // Its disk gives a picture more slowly than it is decoded.
  facts.places[0].tiers = {{.capacity_bytes = 1e12, .fetch_s = 450e-6}};
  const auto slow = choose_cache(facts);
  EXPECT_FALSE(slow->chosen.place);
  EXPECT_DOUBLE_EQ(slow->all[1].later_s, 450e-6);
  facts.places[0].tiers[0].fetch_s = 200e-6;
  facts.places[0].tiers[0].put_s = 1000e-6;
  const auto late = choose_cache(facts);
  EXPECT_DOUBLE_EQ(late->all[1].run_s, 1000e-6 + 4 * 200e-6) << "in the first epoch writing is slowest";
  EXPECT_TRUE(late->chosen.place);
  // A small tier in memory beside a large one on a disk, which fetches half as fast as it is computed.
  facts.places.push_back(facts.places[0]);
  facts.places[0] = {.at = {1}, .fill_s = 500e-6, .hit_s = 20e-6, .bytes = 580e3};
  facts.capacity_bytes = 0.1 * 580e6;
  EXPECT_EQ(choose_cache(facts)->chosen.place, 1u);
  facts.places[1].tiers[0].capacity_bytes = 0.05 * 580e6;
  EXPECT_EQ(choose_cache(facts)->chosen.place, 0u);
}

/// The economics: 507 us of decoding, 578 KB of pixels, so 1.14 GB/s for each core.
TEST(CacheChoice, PicturesOfADiskPayWhileCoresAreFewerThanItsRateOver1140MBs) {
  for (const double cores : {1, 2, 4, 8, 16, 64})
    for (const double rate : {0.3e9, 0.7e9, 1e9, 3e9, 7e9, 30e9}) {
      CacheInputs facts{.sample_s = 507e-6, .records = 1e6, .epochs_left = 90};
      facts.places = {
          {.at = {1},
           .fill_s = 507e-6,
           .hit_s = 99e-6,
           .bytes = 578e3,
           .tiers = {
               {.capacity_bytes = 1e12, .fetch_s = cores * 578e3 / rate, .storage = CacheStorage::kDisk}}}};
      const auto choice = choose_cache(facts);
      ASSERT_TRUE(choice);
      EXPECT_EQ(choice->chosen.place.has_value(), cores < 0.98 * rate / 1.14e9) << cores << " at " << rate;
      EXPECT_EQ(choice->all.size(), 2u) << "what it would have cost is said all the same";
    }
}

TEST(CacheChoice, NearerTiersAreFilledFirstAndTheSlowestDecides) {
  CacheInputs facts = photos(10);
  facts.places[0].tiers = {
      {.capacity_bytes = 0.25 * 580e6},
      {.capacity_bytes = 0.5 * 580e6,
       .read_cpu_s = 40e-6,
       .write_cpu_s = 60e-6,
       .fetch_s = 600e-6,
       .put_s = 100e-6,
       .storage = CacheStorage::kDisk},
      {.capacity_bytes = 1e12, .read_cpu_s = 80e-6, .fetch_s = 900e-6, .storage = CacheStorage::kShared}};
  const auto choice = choose_cache(facts);
  ASSERT_TRUE(choice->chosen.place);
  EXPECT_DOUBLE_EQ(choice->chosen.share, 1);
  EXPECT_NEAR(choice->chosen.later_s, 0.5 * 600e-6, 1e-12) << "half of them come from the disk";
  facts.places[0].tiers[1].fetch_s = 0;
  facts.places[0].tiers[2].capacity_bytes = 0;
  EXPECT_NEAR(choose_cache(facts)->all[1].later_s, 0.25 * 420e-6 + 0.75 * 110e-6 + 0.5 * 40e-6, 1e-12);
  EXPECT_DOUBLE_EQ(cache_share(facts, facts.places[0]), 0.75);
}

TEST(CacheChoice, OfDrawnTiersTheBestOfPlayingThemIsTaken) {
  std::mt19937_64 random(11);
  const auto draw = [&](double low, double high) { return drawn(random, low, high); };
  int on_files = 0;
  for (int world = 0; world < 400; ++world) {
    CacheInputs facts{.sample_s = draw(1e-4, 1e-2), .records = 40 + std::floor(draw(1, 100))};
    facts.epochs_left = 1 + static_cast<double>(random() % 9);
    const double rates[] = {INFINITY, draw(1e7, 1e10), draw(1e7, 1e10)};
    for (std::size_t ops = 1; ops <= 3; ++ops) {
      const double hit = draw(1e-6, 1e-3), bytes = std::floor(draw(1e4, 1e6));
      for (unsigned used = 1; used < 8; ++used) {
        CachePlace place{.at = {ops}, .fill_s = hit + draw(1e-5, 1e-2), .hit_s = hit, .bytes = bytes};
        for (std::size_t storage = 0; storage < kCacheStorages; ++storage)
          if ((used >> storage & 1) != 0)
            place.tiers.push_back({.capacity_bytes = bytes * std::floor(draw(1, 200)),
                                   .read_cpu_s = storage > 0 ? bytes * 0.5e-9 : 0,
                                   .write_cpu_s = storage > 0 ? bytes * 0.5e-9 : 0,
                                   .fetch_s = 4 * bytes / rates[storage],
                                   .put_s = 8 * bytes / rates[storage],
                                   .storage = static_cast<CacheStorage>(storage)});
        facts.places.push_back(place);
      }
    }
    // Record by record: each is in the first tier that has room, and an epoch lasts as long as its slowest part.
    const auto played_in = [&](const CachePlace* place) {
      double run = 0;
      std::vector<int> tier_of(static_cast<std::size_t>(facts.records), -1);
      for (int epoch = 0; epoch < static_cast<int>(facts.epochs_left); ++epoch) {
        double computed = 0, busy[3] = {}, room[3] = {};
        for (std::size_t t = 0; place && t < place->tiers.size(); ++t)
          room[t] = place->tiers[t].capacity_bytes;
        for (int& at : tier_of) {
          bool fills = false;
          for (std::size_t t = 0; place && epoch == 0 && at < 0 && t < place->tiers.size(); ++t)
            if (room[t] >= place->bytes) at = static_cast<int>(t), room[t] -= place->bytes, fills = true;
          if (at < 0) {
            computed += facts.sample_s;
            continue;
          }
          const CacheTier& tier = place->tiers[static_cast<std::size_t>(at)];
          computed += fills ? place->fill_s + tier.write_cpu_s : place->hit_s + tier.read_cpu_s;
          busy[at] += fills ? tier.put_s : tier.fetch_s;
        }
        run += std::max({computed, busy[0], busy[1], busy[2]});
      }
      return run / facts.records;
    };
    const auto choice = choose_cache(facts);
    ASSERT_TRUE(choice) << choice.error().message;
    double best = played_in(nullptr);
    const double nothing = best;
    for (std::size_t i = 0; i < facts.places.size(); ++i) {
      const double run = played_in(&facts.places[i]);
      EXPECT_NEAR(choice->all[i + 1].run_s, run, 1e-9 * nothing);
      best = std::min(best, run);
    }
    EXPECT_LE(choice->chosen.run_s, best + kCacheMargin * nothing);
    if (choice->chosen.written_bytes > 0) ++on_files;
  }
  EXPECT_GT(on_files, 50);
}

/// Played on from an epoch in which some of the records that fit are kept.
TEST(CacheChoice, FillingStopsWhenItNoLongerPaysBeforeTheRunEnds) {
  CacheInputs facts = photos(10);
  facts.places[0].tiers = {
      {.capacity_bytes = 0.8 * 580e6, .write_cpu_s = 90e-6, .storage = CacheStorage::kDisk}};
  CachePlace& place = facts.places[0];
  int pays = 0;
  for (double left = 1; left <= 10; ++left)
    for (const double filled : {0.0, 0.2, 0.5, 0.79, 0.8, 1.0}) {
      facts.epochs_left = left;
      place.kept = filled;
      const auto played_on = [&](bool fills) {
        double sum = 0, kept = std::min(filled, 0.8);
        for (int epoch = 0; epoch < left; ++epoch) {
          const double more = fills ? 0.8 - kept : 0;
          sum += kept * place.hit_s + more * (place.fill_s + 90e-6) + (1 - kept - more) * facts.sample_s;
          kept += more;
        }
        return sum;
      };
      const bool better = filled < 0.8 && played_on(true) < played_on(false);
      EXPECT_EQ(pays_to_fill(facts, place), better) << left << " epochs, filled " << filled;
      pays += better ? 1 : 0;
    }
  EXPECT_GT(pays, 10);
  EXPECT_LT(pays, 40);
  EXPECT_EQ(choose_cache(facts)->all[1].written_bytes, 0) << "all is there";
  place.kept = 0;
  EXPECT_NEAR(choose_cache(facts)->all[1].written_bytes, 0.8 * 580e3, 1e-6);
}

TEST(CacheChoice, AChangeIsBetterWhereverTheRatesMayLie) {
  CacheInputs facts = photos(100);
  facts.places[0].fill_s = 420e-6;
  facts.places[0].tiers = {
      {.capacity_bytes = 1e12, .fetch_s = 300e-6, .error = 0.1, .storage = CacheStorage::kDisk}};
  EXPECT_TRUE(choose_cache(facts)->chosen.place);
  facts.places[0].tiers[0].error = 0.3;
  EXPECT_FALSE(choose_cache(facts)->chosen.place) << "it may be slower than decoding";
  EXPECT_TRUE(choose_cache(facts, {.present = 1})->chosen.place) << "and is kept where it is used";
  facts.places[0].tiers[0].fetch_s = 450e-6;
  EXPECT_TRUE(choose_cache(facts, {.present = 1})->chosen.place) << "it may be faster than decoding";
  facts.places[0].tiers[0].error = 0.03;
  EXPECT_FALSE(choose_cache(facts, {.present = 1})->chosen.place);
  // Two places of one storage are right or wrong together: its error does not part them.
  facts.places.push_back(facts.places[0]);
  facts.places[0].tiers[0] = {
      .capacity_bytes = 1e12, .fetch_s = 300e-6, .error = 0.3, .storage = CacheStorage::kDisk};
  facts.places[1].tiers[0] = {
      .capacity_bytes = 1e12, .fetch_s = 250e-6, .error = 0.3, .storage = CacheStorage::kDisk};
  EXPECT_EQ(choose_cache(facts, {.present = 1})->chosen.place, 1u);
}

/// A storage whose rate is measured with noise around the one at which it pays as much as nothing.
TEST(CacheChoice, NoiseDoesNotMoveIt) {
  std::mt19937_64 random(3);
  std::normal_distribution<double> noise(1, 0.05);
  CacheInputs facts = photos(100);
  facts.places[0].fill_s = 420e-6;
  CacheNow now;
  int changes = 0;
  for (int look = 0; look < 2000; ++look) {
    facts.places[0].tiers = {{.capacity_bytes = 1e12,
                              .fetch_s = 415e-6 * noise(random),
                              .error = 0.05,
                              .storage = CacheStorage::kDisk}};
    const std::size_t next = choose_cache(facts, now)->chosen.place ? 1 : 0;
    if (next == now.present) continue;
    ++changes;
    now = {.present = next, .left = now.present};
  }
  EXPECT_LE(changes, 1);
}

TEST(CacheChoice, KeepsNothingForOneEpoch) {
  EXPECT_FALSE(choose_cache(photos(1))->chosen.place);
  EXPECT_TRUE(choose_cache(photos(10))->chosen.place);
}

TEST(CacheChoice, WeighsTheWholePictureAgainstTheRegion) {
  // Decoding regions with an index is cheaper for two epochs; not for three.
  const auto two = choose_cache(photos(2));
  EXPECT_FALSE(two->chosen.place);
  EXPECT_NEAR(two->all[1].pays_back_epochs.value(), 1 + 380.0 / 310.0, 1e-9);
  EXPECT_TRUE(choose_cache(photos(3))->chosen.place);
  CacheInputs little = photos(10);
  little.places[0].hit_s = 430e-6;
  EXPECT_FALSE(choose_cache(little)->chosen.place);
  EXPECT_FALSE(choose_cache(little)->all[1].pays_back_epochs);
}

TEST(CacheChoice, StaysWhereItIsForLessThanTheMargin) {
  CacheInputs facts = photos(100);
  facts.places.push_back({.at = {2}, .fill_s = 800e-6, .hit_s = 109e-6, .bytes = 580e3});
  EXPECT_EQ(choose_cache(facts, {.present = 1})->chosen.place, 0);
  EXPECT_EQ(choose_cache(facts, {.present = 2})->chosen.place, 1);
  facts.places[1].hit_s = 100e-6;
  EXPECT_EQ(choose_cache(facts, {.present = 1})->chosen.place, 1);
  EXPECT_EQ(choose_cache(facts, {.present = 1, .left = 2})->chosen.place, 0) << "it was left just now";
  facts.places[1].hit_s = 60e-6;
  EXPECT_EQ(choose_cache(facts, {.present = 1, .left = 2})->chosen.place, 1) << "which 15 % undo";
  facts.places[1].hit_s = facts.places[0].hit_s = 500e-6;
  EXPECT_FALSE(choose_cache(facts, {.present = 1})->chosen.place);
}

TEST(CacheChoice, KeepsTheShareThatFits) {
  CacheInputs facts = photos(10);
  facts.capacity_bytes = 0.4 * facts.records * facts.places[0].bytes;
  const auto choice = choose_cache(facts);
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
  facts.ranks = 8;
  EXPECT_FALSE(choose_cache(facts)->chosen.place) << "of three epochs hardly a record comes twice";
  facts.epochs_left = 90;
  EXPECT_TRUE(choose_cache(facts)->chosen.place);
}

TEST(CacheChoice, NumbersThatCannotBeAreNamed) {
  CacheInputs facts = photos(10);
  facts.places[0].bytes = 0;
  const auto refused = choose_cache(facts);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("after 1 ops: bytes"), std::string::npos);
  EXPECT_FALSE(choose_cache({.sample_s = NAN, .records = 1}));
  facts = photos(10);
  facts.places[0].tiers = {{.capacity_bytes = 1, .fetch_s = NAN}};
  EXPECT_NE(choose_cache(facts).error().message.find("fetch_s"), std::string::npos);
}

TEST(CacheChoice, ExpectsAsMuchAsThereWas) {
  EXPECT_EQ(expected_epochs(10, 3), 7);
  EXPECT_EQ(expected_epochs(10, 12), 1);
  EXPECT_EQ(expected_epochs(std::nullopt, 0), 2);
  EXPECT_EQ(expected_epochs(std::nullopt, 4), 6);
}

}  // namespace
}  // namespace carya::autotune
