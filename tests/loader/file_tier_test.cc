// Samples in files: what a stream takes from them is what it would have computed, and storage that hangs stops nothing.
#include "loader/cache/file_tier.h"

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

#include "io/segments/segment_folder.h"
#include "tests/loader/job_reading.h"
#include "tests/loader/photo_folder.h"

namespace carya::loader {
namespace {

using namespace std::chrono_literals;
using Rows = std::vector<std::vector<std::uint64_t>>;

constexpr int kTierPhotos = 24;
constexpr char kTierOps[] = R"({"op":"decode_image"},{"op":"random_resized_crop","size":[16,16]})";

Opened open_long_unchanged(const PhotoFolder& folder, const std::string& ops = kTierOps) {
  const auto long_ago = std::filesystem::file_time_type::clock::now() - 1h;
  for (int record = 0; record < kTierPhotos; ++record)
    std::filesystem::last_write_time(folder.file(record), long_ago);
  const std::string json = R"({"version":1,"source":{"type":"image_folder","path":")" +
                           folder.path().string() + R"("},"views":[],"shuffle":{"seed":5},"ops":[)" + ops +
                           R"(],"batch":)" + kBatch4 + "}";
  auto pipeline = transforms::Pipeline::parse(json);
  EXPECT_TRUE(pipeline) << (pipeline ? "" : pipeline.error().message);
  auto dataset = Dataset::open(**pipeline, {});
  EXPECT_TRUE(dataset) << (dataset ? "" : dataset.error().message);
  return {*pipeline, *dataset};
}

/// A folder of its own, removed at the end.
struct TierFolder {
  TierFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "carya_tier_XXXXXX").string();
    EXPECT_NE(::mkdtemp(name.data()), nullptr);
    path = name;
  }
  ~TierFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
  std::string path;
};

JobOptions on_disk(const TierFolder& folder, std::uint32_t threads = 1) {
  return {.threads = threads,
          .cache = {.mode = CacheOptions::Mode::kOn, .share = 0, .disk = {folder.path, 64 << 20}}};
}

nlohmann::json tier_of(const Job& job) {
  return nlohmann::json::parse(job.stats().cache)["files"][0];
}

/// Wait for what another thread does.
template <typename Condition>
bool eventually(Condition holds) {
  for (int i = 0; i < 3000 && !holds(); ++i) std::this_thread::sleep_for(10ms);
  return holds();
}

TEST(FileTier, SamplesServeLaterStreamsWithTheSameBits) {
  const PhotoFolder photos(kTierPhotos);
  const TierFolder folder;
  const Opened opened = open_long_unchanged(photos);
  const Rows expected = drain_epochs(*start(opened, {.threads = 2}), 2);
  EXPECT_EQ(drain_epochs(*start(opened, on_disk(folder)), 2), expected);
  const auto job = start(opened, on_disk(folder, 2));
  EXPECT_EQ(drain_epochs(*job, 2), expected);
  EXPECT_GE(tier_of(*job)["hits"], 2 * kTierPhotos);
  EXPECT_EQ(tier_of(*job)["written"], 0);
}

TEST(FileTier, ALaterStreamTakesThePlaceThatAnEarlierOneHasFilled) {
  const PhotoFolder photos(kTierPhotos);
  const Opened opened = open_long_unchanged(photos, R"({"op":"decode_image"},{"op":"resize","size":[24,24]},)"
                                                    R"({"op":"grayscale","num_output_channels":3})");
  for (const std::string marked : {"decode_image", "resize", "grayscale"}) {
    const TierFolder folder;
    JobOptions first = on_disk(folder);
    first.cache.after = marked;
    drain_epochs(*start(opened, first), 2);
    JobOptions second = on_disk(folder);
    second.epochs = 2;
    const auto job = start(opened, second);
    EXPECT_EQ(nlohmann::json::parse(job->stats().cache)["after"], marked);
    EXPECT_EQ(nlohmann::json::parse(job->stats().cache)["found_share"], 1);
    drain_epochs(*job, 1);
    EXPECT_EQ(tier_of(*job)["written"], 0);
  }
}

TEST(FileTier, OfAnotherDatasetNothingIsThere) {
  const PhotoFolder photos(kTierPhotos), others(kTierPhotos);
  const TierFolder folder;
  drain_epochs(*start(open_long_unchanged(photos), on_disk(folder)), 2);
  const auto job = start(open_long_unchanged(others), on_disk(folder));
  EXPECT_EQ(nlohmann::json::parse(job->stats().cache)["found_share"], 0) << "its records are others";
}

TEST(FileTier, SeeksMayComeWhileSamplesAreOnTheirWay) {
  const PhotoFolder photos(kTierPhotos);
  const TierFolder folder;
  const Opened opened = open_long_unchanged(photos);
  const Rows expected = drain_epochs(*start(opened, {.threads = 2}), 2);
  drain_epochs(*start(opened, on_disk(folder)), 2);
  const auto job = start(opened, on_disk(folder, 2));
  for (std::uint64_t round = 0; round < 30; ++round) {
    const std::uint64_t epoch = round % 2, position = round * 4 % kTierPhotos;
    ASSERT_TRUE(job->seek(epoch, position));
    const auto batch = job->next(60'000);
    ASSERT_TRUE(batch);
    const auto rows = row_hashes(*job, *batch);
    EXPECT_TRUE(std::ranges::equal(rows, std::span(expected[epoch]).subspan(position, rows.size()))) << round;
  }
}

/// Put other bytes, with right checksums, in the place of every entry below the folder.
template <typename Forge>
void forge(const std::string& folder, Forge change) {
  const auto places = io::list_places(folder);
  ASSERT_TRUE(places);
  for (const io::PlaceInfo& place : *places) {
    const auto segments = io::list_segments(place.path);
    ASSERT_TRUE(segments);
    for (const io::SegmentName& segment : *segments) {
      const std::string path = place.path + "/" + segment.name,
                        hex = place.path.substr(place.path.size() - 32);
      const Hash128 key{std::stoull(hex.substr(0, 16), nullptr, 16),
                        std::stoull(hex.substr(16), nullptr, 16)};
      auto reader = io::SegmentReader::open(path, key);
      ASSERT_TRUE(reader);
      std::vector<io::SegmentRow> rows;
      ASSERT_TRUE((*reader)->look(rows));
      auto writer = io::SegmentWriter::create(place.path, key, 1024, 32 << 20, {});
      ASSERT_TRUE(writer);
      for (const io::SegmentRow& row : rows) {
        std::vector<std::byte> bytes(row.bytes);
        ASSERT_TRUE((*reader)->read(row, bytes));
        change(bytes);
        ASSERT_TRUE(writer->append(row.identity(), bytes));
      }
      writer->seal();
      std::filesystem::remove(path);
    }
  }
}

TEST(FileTier, ForgedSamplesWithRightChecksumsTouchNothingOutside) {
  const PhotoFolder photos(kTierPhotos);
  const Opened opened = open_long_unchanged(photos);
  const Rows expected = drain_epochs(*start(opened, {.threads = 2}), 2);
  const auto with_side = [](std::size_t at, std::int64_t side) {
    return [=](std::vector<std::byte>& bytes) { std::memcpy(bytes.data() + at, &side, 8); };
  };
  int number = 0;
  for (const std::function<void(std::vector<std::byte>&)>& change :
       {std::function<void(std::vector<std::byte>&)>(with_side(0, INT64_MAX)),
        {with_side(0, -1)},
        {with_side(8, 0)},
        {with_side(0, std::int64_t{1} << 32)},
        {with_side(8, 100'000)},
        {[](std::vector<std::byte>& bytes) { bytes.resize(1); }},
        {[](std::vector<std::byte>& bytes) { bytes.resize(bytes.size() / 2); }},
        {[](std::vector<std::byte>& bytes) { bytes.resize(2 * bytes.size()); }}}) {
    const TierFolder folder;
    drain_epochs(*start(opened, on_disk(folder)), 2);
    forge(folder.path, change);
    EXPECT_EQ(drain_epochs(*start(opened, on_disk(folder, 2)), 2), expected) << number;
    ++number;
  }
}

TEST(FileTier, CoefficientsThatAreNotWholeAreComputedFromTheirRecordsAndCounted) {
  const PhotoFolder photos(kTierPhotos);
  const Opened opened = open_long_unchanged(photos);
  const Rows expected = drain_epochs(*start(opened, {.threads = 2}), 2);
  constexpr std::size_t kEntryAt = 32;  // transforms/plan/source_parts.h
  const auto flip = [](std::size_t at) {
    return [=](std::vector<std::byte>& bytes) { bytes[at] ^= std::byte{0xFF}; };
  };
  int number = 0;
  for (const auto& [change, is_entry] :
       std::vector<std::pair<std::function<void(std::vector<std::byte>&)>, bool>>{
           {[](std::vector<std::byte>&) {}, true},
           {flip(kEntryAt), true},               // its magic
           {[](std::vector<std::byte>& bytes) {  // its directory: where rows begin
              std::fill(bytes.begin() + kEntryAt + 24 + 128, bytes.begin() + kEntryAt + 24 + 148,
                        std::byte{0x7F});
            },
            true},
           {flip(0), false},
           {flip(9), false},
           {flip(24), false}}) {
    const TierFolder folder;
    JobOptions options = on_disk(folder);
    options.cache.form = CacheOptions::Form::kCoefficients;
    drain_epochs(*start(opened, options), 2);
    forge(folder.path, change);
    options.threads = 2;
    options.prefetch_epochs = false;
    const auto job = start(opened, options);
    EXPECT_EQ(drain(*job), expected[0]) << number;
    ASSERT_TRUE(job->seek(1, 0));
    EXPECT_EQ(drain(*job), expected[1]) << number;
    const auto said = nlohmann::json::parse(job->stats().cache);
    EXPECT_EQ(said["damaged_records"] > 0, number > 0 && is_entry) << number;
    if (number > 0) {
      EXPECT_EQ(said["damaged_records"], tier_of(*job)["hits"]) << "each was taken once";
    }
    EXPECT_EQ(tier_of(*job)["hits"] > 0, is_entry) << number;
    ++number;
  }
}

TEST(FileTier, ARowThatIsBrokenBesideOneThatIsNotWholeIsBrokenOnce) {
  const PhotoFolder photos(kTierPhotos);
  for (int record = 0; record < kTierPhotos; record += 2) photos.spoil(record);
  const Opened opened = open_long_unchanged(photos);
  auto job = start(opened, {.threads = 1, .on_error = transforms::OnError::kMask});
  const Rows expected = drain_epochs(*job, 2);
  const std::size_t broken = job->quarantine().size();
  job.reset();
  const TierFolder folder;
  JobOptions options = on_disk(folder);
  options.cache.form = CacheOptions::Form::kCoefficients;
  options.on_error = transforms::OnError::kMask;
  job = start(opened, options);
  drain_epochs(*job, 2);
  ASSERT_TRUE(eventually([&] { return tier_of(*job)["written"] == kTierPhotos / 2; }));
  job.reset();
  forge(folder.path, [](std::vector<std::byte>& bytes) { bytes[32] ^= std::byte{0xFF}; });
  job = start(opened, options);
  EXPECT_EQ(drain_epochs(*job, 2), expected);
  EXPECT_GT(nlohmann::json::parse(job->stats().cache)["damaged_records"], 0);
  EXPECT_EQ(job->quarantine().size(), broken);
}

/// Facts of records of which `as_listed` says whether their files are.
std::shared_ptr<const RecordFacts> facts_of(const std::function<bool()>& as_listed) {
  const auto asks = [as_listed](std::uint64_t) { return as_listed(); };
  return std::make_shared<const RecordFacts>(RecordFacts{.may_take = asks, .may_keep = asks});
}

/// A check that waits until it is let go, as a stat() does whose storage hangs.
struct Stuck {
  std::mutex mutex;
  std::condition_variable changed;
  bool free = false;
  void let_go() {
    const std::lock_guard lock(mutex);
    free = true;
    changed.notify_all();
  }
  std::shared_ptr<const RecordFacts> facts() {
    return facts_of([this] {
      std::unique_lock lock(mutex);
      changed.wait(lock, [this] { return free; });
      return true;
    });
  }
};

TEST(FileTier, WhatStorageDoesNotAnswerIsGivenUpAndItIsLeftAlone) {
  const TierFolder folder;
  const auto yes = facts_of([] { return true; });
  Stuck stuck;
  const auto bell = *FetchBell::create();
  const auto memory = std::make_shared<std::vector<std::byte>>(4096);
  const Hash128 identity{1, 2};
  {
    const auto tier = FileTier::open({.folder = folder.path, .capacity_bytes = 1 << 20, .place = {3, 4}});
    ASSERT_TRUE(eventually([&] { return tier->stats().is_open; }));
    ASSERT_TRUE(tier->wants(0, identity));
    tier->offer({.identity = identity, .owner = memory, .bytes = *memory, .facts = yes});
    ASSERT_TRUE(eventually([&] { return static_cast<bool>(tier->find(identity)); }));
    EXPECT_FALSE(tier->wants(0, identity));
    const auto fetch = [&](const std::shared_ptr<const RecordFacts>& facts) {
      auto group = std::make_shared<FetchGroup>(1, bell);
      tier->fetch({.entry = tier->find(identity),
                   .dest = memory->data(),
                   .lent = memory,
                   .group = group,
                   .facts = facts});
      return group;
    };
    const auto good = fetch(yes);
    EXPECT_TRUE(eventually([&] { return good->is_settled(); }));
    EXPECT_TRUE(good->is_there(0));
    const auto hung = fetch(stuck.facts());
    EXPECT_TRUE(eventually([&] {
      tier->look();
      return hung->is_settled();
    }));
    EXPECT_FALSE(hung->is_there(0));
    EXPECT_FALSE(tier->find(identity)) << "nothing is asked for a while";
    EXPECT_NE(tier->stats().trouble.find("hangs"), std::string::npos);
    EXPECT_EQ(tier->stats().troubles, 1);
  }  // the tier ends while its thread is stuck
  EXPECT_GT(memory.use_count(), 1) << "the memory stays as long as it may be written";
  stuck.let_go();
  EXPECT_TRUE(eventually([&] { return memory.use_count() == 1; }));
}

TEST(FileTier, SamplesThatMemoryHasNoRoomForAreReadPastThePageCache) {
  const TierFolder folder;
  const auto yes = facts_of([] { return true; });
  const auto bell = *FetchBell::create();
  const auto sample = std::make_shared<std::vector<std::byte>>(10'000, std::byte{7});
  const Hash128 identity{1, 2};
  FileTierOptions options{.folder = folder.path, .capacity_bytes = 1 << 20, .place = {3, 4}};
  for (const std::uint64_t free_bytes : {UINT64_MAX, std::uint64_t{10'000}, std::uint64_t{9'999}}) {
    options.page_cache_bytes = free_bytes;
    const auto tier = FileTier::open(options);
    ASSERT_TRUE(eventually([&] { return tier->stats().is_open; }));
    if (free_bytes == UINT64_MAX)
      tier->offer({.identity = identity, .owner = sample, .bytes = *sample, .facts = yes});
    ASSERT_TRUE(eventually([&] { return static_cast<bool>(tier->find(identity)); }));
    EXPECT_EQ(tier->stats().past_page_cache, free_bytes < sample->size());
    const auto into = std::make_shared<std::vector<std::byte>>(sample->size());
    const auto group = std::make_shared<FetchGroup>(1, bell);
    tier->fetch(
        {.entry = tier->find(identity), .dest = into->data(), .lent = into, .group = group, .facts = yes});
    ASSERT_TRUE(eventually([&] { return group->is_settled(); }));
    EXPECT_TRUE(group->is_there(0));
    EXPECT_EQ(*into, *sample);
  }
}

}  // namespace
}  // namespace carya::loader
