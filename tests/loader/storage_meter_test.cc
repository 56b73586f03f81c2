// What is known of storage: found by a probe, corrected by what a tier does, kept for the next run.
#include "loader/cache/storage_meter.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <random>
#include <thread>

#include "loader/cache/storage_probe.h"
#include "tests/io/temp_dir.h"

namespace carya::loader {
namespace {

using namespace std::chrono_literals;

StorageRates some_rates() {
  return {.time = {{{1e-5, 1e-10}, {1e-4, 1e-9}, {1e-4, 2e-9}}},
          .cpu = {{{1e-5, 3e-10}, {1e-5, 5e-10}, {1e-5, 5e-10}}},
          .measured_at_s = 1000};
}

Result<StorageRates> probed(const StorageProbeOptions& options) {
  const auto probe = StorageProbe::begin(options);
  for (int i = 0; i < 6000; ++i) {
    if (auto found = probe->result()) return *found;
    std::this_thread::sleep_for(10ms);
  }
  return fail(Code::kTimeout, "no end");
}

TEST(SizeCost, GoesThroughBothSizesWithoutNegativeParts) {
  const SizeCost plain = SizeCost::through(1000, 3e-6, 5000, 7e-6);
  EXPECT_DOUBLE_EQ(plain.at(1000), 3e-6);
  EXPECT_DOUBLE_EQ(plain.at(5000), 7e-6);
  EXPECT_DOUBLE_EQ(plain.fixed_s, 2e-6);
  const SizeCost flat = SizeCost::through(1000, 9e-6, 5000, 7e-6);
  EXPECT_DOUBLE_EQ(flat.at(1), 7e-6) << "the larger one is not below the smaller one";
  const SizeCost steep = SizeCost::through(1000, 1e-9, 5000, 1e-3);
  EXPECT_GE(steep.fixed_s, 0);
  EXPECT_DOUBLE_EQ(steep.at(5000), 1e-3);
  EXPECT_DOUBLE_EQ(SizeCost::through(500, 1e-6, 500, 1e-6).at(1000), 2e-6);
}

TEST(StorageProbe, FindsRatesAndLeavesNothing) {
  const io::TempDir dir;
  const std::string folder = dir.path("made");
  const auto rates = probed({.folder = folder, .small_bytes = 9'000, .large_bytes = 600'000});
  ASSERT_TRUE(rates) << rates.error().message;
  EXPECT_TRUE(is_possible(*rates));
  EXPECT_GT(rates->measured_at_s, 0);
  for (const StorageWork work : {StorageWork::kRead, StorageWork::kReadPast, StorageWork::kWrite})
    EXPECT_GT(rates->time_of(work).at(600'000), 0);
  EXPECT_TRUE(std::filesystem::is_empty(folder));
  EXPECT_EQ(std::filesystem::status(folder).permissions(), std::filesystem::perms::owner_all);
}

TEST(StorageProbe, WritesNoMoreThanADayAllows) {
  const io::TempDir dir;
  const auto small = std::make_shared<WriteBudget>(1'000'000);
  const auto refused =
      probed({.folder = dir.path(), .small_bytes = 9'000, .large_bytes = 600'000, .budget = small});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kExhausted);
  EXPECT_EQ(small->written(WriteBudget::Moment::now()), 0);
  const auto enough = std::make_shared<WriteBudget>(StorageProbe::kBytesMax);
  ASSERT_TRUE(
      probed({.folder = dir.path(), .small_bytes = 9'000, .large_bytes = 60'000'000, .budget = enough}));
  EXPECT_GT(enough->written(WriteBudget::Moment::now()), 1'000'000) << "what it wrote counts";
}

TEST(StorageProbe, SaysWhatIsWrongWithAFolder) {
  const io::TempDir dir;
  std::ofstream(dir.path("file")) << "no folder";
  const auto refused = probed({.folder = dir.path("file") + "/tier", .small_bytes = 1, .large_bytes = 1});
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("file/tier"), std::string::npos) << refused.error().message;
}

/// A tier whose reads and writes take so many times as long as some_rates() say, as so many looks see it.
struct WorkingTier {
  FileTierStats stats{};
  std::mt19937_64 random{5};
  std::uint64_t bytes = 100'000;

  bool work(StorageMeter& meter, double factor, std::uint64_t reads = 200) {
    std::normal_distribution<double> noise(1, 0.05);
    const StorageRates rates = some_rates();
    stats.many_reads += reads;
    stats.many_bytes += reads * bytes;
    stats.many_s += static_cast<double>(reads) * factor * noise(random) *
                    rates.time_of(StorageWork::kReadPast).at(static_cast<double>(bytes));
    stats.store.written += reads;
    stats.store.written_bytes += reads * bytes;
    stats.write_s += static_cast<double>(reads) * noise(random) *
                     rates.time_of(StorageWork::kWrite).at(static_cast<double>(bytes));
    return meter.look(stats, StorageWork::kReadPast, 2000);
  }
};

TEST(StorageMeter, WhatATierDoesCorrectsWhatWasKnown) {
  StorageMeter nothing(std::nullopt);
  EXPECT_FALSE(nothing.rates());
  EXPECT_FALSE(nothing.look({}, StorageWork::kRead, 1));
  StorageMeter meter(some_rates());
  EXPECT_EQ(meter.rates(), some_rates());
  EXPECT_EQ(meter.error(StorageWork::kReadPast), StorageMeter::kEarlierError);
  WorkingTier tier;
  for (int i = 0; i < 30; ++i) tier.work(meter, 3);
  const StorageRates rates = *meter.rates();
  EXPECT_NEAR(rates.time_of(StorageWork::kReadPast).at(200'000), 3 * 3e-4, 0.1 * 9e-4)
      << "at other sizes too";
  EXPECT_EQ(rates.time_of(StorageWork::kRead), some_rates().time_of(StorageWork::kRead)) << "was not done";
  EXPECT_NEAR(rates.time_of(StorageWork::kWrite).at(100'000), 3e-4, 0.1 * 3e-4);
  EXPECT_EQ(rates.measured_at_s, 2000);
  EXPECT_LT(meter.error(StorageWork::kReadPast), 0.03);
  meter.set(some_rates());
  EXPECT_EQ(meter.rates(), some_rates());
  EXPECT_EQ(meter.error(StorageWork::kReadPast), StorageMeter::kProbeError);
}

TEST(StorageMeter, AnotherStorageIsSeenAtOnceAndNoiseIsNone) {
  StorageMeter meter(some_rates());
  WorkingTier tier;
  for (int i = 0; i < 500; ++i) EXPECT_FALSE(tier.work(meter, 1)) << i;
  EXPECT_FALSE(tier.work(meter, 3)) << "one look alone may be anything";
  EXPECT_TRUE(tier.work(meter, 3));
  EXPECT_NEAR(meter.rates()->time_of(StorageWork::kReadPast).at(100'000), 6e-4, 0.15 * 6e-4);
}

TEST(StorageMeter, AFewReadsTellNothing) {
  StorageMeter meter(some_rates());
  WorkingTier tier;
  for (int i = 0; i < 3; ++i) tier.work(meter, 9, 2);
  EXPECT_EQ(meter.rates(), some_rates());
  for (int i = 0; i < 20; ++i) tier.work(meter, 9, 2);
  EXPECT_NEAR(meter.rates()->time_of(StorageWork::kReadPast).at(100'000), 18e-4, 0.3 * 18e-4)
      << "several looks together do";
}

TEST(StorageRates, WhatCannotBeIsNotPossible) {
  EXPECT_TRUE(is_possible(some_rates()));
  EXPECT_FALSE(is_possible(StorageRates{})) << "nothing takes no time";
  for (const double bad : {-1e-9, 1e9, static_cast<double>(NAN), static_cast<double>(INFINITY)})
    for (std::size_t i = 0; i < kStorageWorks; ++i) {
      StorageRates rates = some_rates();
      rates.time.at(i).fixed_s = bad;
      EXPECT_FALSE(is_possible(rates)) << bad;
      rates = some_rates();
      rates.cpu.at(i).per_byte_s = bad;
      EXPECT_FALSE(is_possible(rates)) << bad;
    }
}

}  // namespace
}  // namespace carya::loader
