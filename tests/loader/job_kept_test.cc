// Samples that are kept in memory for later epochs change no bit, whatever fits, and save reads and decodes.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/loader/job_reading.h"
#include "tests/loader/photo_folder.h"

namespace carya::loader {
namespace {

using Rows = std::vector<std::vector<std::uint64_t>>;
using Mode = CacheOptions::Mode;

// Tests that count hits have one thread: around the end of an epoch two may compute the same record at the same time.
constexpr int kKeptPhotos = 48, kKeptEpochs = 3;
constexpr char kRandomCrop[] =
    R"({"op":"decode_image"},{"op":"random_resized_crop","size":[16,16]},{"op":"random_horizontal_flip"})";
constexpr char kHeavy[] =
    R"({"op":"decode_image"},{"op":"resize","size":[24,24]},{"op":"grayscale","num_output_channels":3},)"
    R"({"op":"random_crop","size":[16,16]},{"op":"normalize","mean":0.5,"std":0.25})";
constexpr char kViews[] =
    R"({"op":"decode_image"},{"op":"two_views","ops":[{"op":"random_resized_crop","size":[16,16]},)"
    R"({"op":"color_jitter","hue":0.2}]})";
constexpr char kFixed[] = R"({"op":"decode_image"},{"op":"resize","size":[16,16]})";

Opened open_with(const std::filesystem::path& folder, const std::string& ops,
                 const std::string& batch = kBatch4, const std::string& views = "") {
  const std::string json = R"({"version":1,"source":{"type":"image_folder","path":")" + folder.string() +
                           R"("},"views":[)" + views + R"(],"shuffle":{"seed":5},"ops":[)" + ops +
                           R"(],"batch":)" + batch + "}";
  auto pipeline = transforms::Pipeline::parse(json);
  EXPECT_TRUE(pipeline) << (pipeline ? "" : pipeline.error().message);
  auto dataset = Dataset::open(**pipeline, {});
  EXPECT_TRUE(dataset) << (dataset ? "" : dataset.error().message);
  return {*pipeline, *dataset};
}

nlohmann::json report(const Job& job) {
  return nlohmann::json::parse(job.stats().cache);
}

CacheOptions keep(std::uint64_t bytes, const std::string& after = "") {
  return {.mode = Mode::kOn, .bytes = bytes, .after = after};
}

constexpr std::uint64_t kAll = 64 << 20;

CacheOptions keep_coefficients(std::uint64_t bytes = kAll) {
  return {.mode = Mode::kOn, .form = CacheOptions::Form::kCoefficients, .bytes = bytes};
}

/// The bytes that all samples of the folder take.
std::uint64_t bytes_of_all(const Opened& opened, const std::string& after = "") {
  const auto job = start(opened, {.threads = 2, .cache = keep(kAll, after)});
  drain(*job);
  return report(*job)["bytes"];
}

TEST(JobKept, NoBitDependsOnWhatIsKept) {
  const PhotoFolder folder(kKeptPhotos);
  for (const char* ops : {kRandomCrop, kHeavy, kViews, kFixed}) {
    const Opened opened = open_with(folder.path(), ops);
    const Rows expected = drain_epochs(*start(opened, {.threads = 2}), kKeptEpochs);
    const std::uint64_t all = bytes_of_all(opened);
    for (const std::uint64_t percent : {0, 10, 40, 100}) {
      const auto job =
          start(opened, {.epochs = kKeptEpochs, .threads = 1, .cache = keep(1 + all * percent / 100)});
      EXPECT_EQ(drain_epochs(*job, kKeptEpochs), expected) << ops << " " << percent;
      const auto said = report(*job);
      EXPECT_LE(said["bytes"], 1 + all * percent / 100);
      if (percent == 100) EXPECT_EQ(said["hits"], (kKeptEpochs - 1) * kKeptPhotos) << ops;
      if (percent == 0) EXPECT_EQ(said["hits"], 0);
    }
  }
}

TEST(JobKept, CoefficientsGiveTheSameBits) {
  const PhotoFolder folder(kKeptPhotos);
  for (const char* ops : {kRandomCrop, kHeavy, kViews, kFixed}) {
    const Opened opened = open_with(folder.path(), ops);
    const Rows expected = drain_epochs(*start(opened, {.threads = 2}), kKeptEpochs);
    std::uint64_t all = 0;
    for (const std::uint64_t percent : {100, 40}) {
      const std::uint64_t room = percent == 100 ? kAll : all * percent / 100;
      const auto job = start(opened, {.epochs = kKeptEpochs, .threads = 1, .cache = keep_coefficients(room)});
      EXPECT_EQ(drain_epochs(*job, kKeptEpochs), expected) << ops << " " << percent;
      const auto said = report(*job);
      EXPECT_EQ(said["after"], "reading");
      EXPECT_EQ(said["form"], "coefficients");
      EXPECT_EQ(said["damaged_records"], 0);
      EXPECT_LE(said["bytes"], room);
      if (percent < 100) continue;
      all = said["bytes"];
      EXPECT_EQ(said["hits"], (kKeptEpochs - 1) * kKeptPhotos) << ops;
      const auto decodes = job->stats().scheduler.decodes;
      EXPECT_GT(decodes.packed, decodes.own);
    }
  }
}

TEST(JobKept, PipelinesWithOtherOpsShareCoefficients) {
  const PhotoFolder folder(kKeptPhotos);
  const Opened crop = open_with(folder.path(), kRandomCrop);
  const Opened heavy{open_with(folder.path(), kHeavy).pipeline, crop.dataset};
  const Rows expected = drain_epochs(*start(heavy, {.threads = 2}), 1);
  const auto first = start(crop, {.threads = 2, .cache = keep_coefficients()});
  drain(*first);
  const auto second = start(heavy, {.threads = 2, .cache = keep_coefficients()});
  EXPECT_EQ(drain_epochs(*second, 1), expected);
  EXPECT_GE(report(*second)["hits"], kKeptPhotos) << "from its first epoch on";
}

TEST(JobKept, CoefficientsAreRefusedWhereNothingIsDecodedFromThem) {
  const PhotoFolder folder(2);
  const Opened opened = open_with(folder.path(), kRandomCrop);
  CacheOptions named = keep_coefficients();
  named.after = "decode_image";
  const auto both = LocalStream::create(opened.pipeline, opened.dataset, {.cache = named});
  ASSERT_FALSE(both);
  EXPECT_NE(both.error().message.find("give one of the two"), std::string::npos) << both.error().message;
  const auto unfused =
      LocalStream::create(opened.pipeline, opened.dataset, {.fuse = false, .cache = keep_coefficients()});
  ASSERT_FALSE(unfused);
  EXPECT_NE(unfused.error().message.find("give \"raw\""), std::string::npos) << unfused.error().message;
}

TEST(JobKept, EveryPlaceGivesTheSameBits) {
  const PhotoFolder folder(kKeptPhotos);
  const Opened opened = open_with(folder.path(), kHeavy);
  const Rows expected = drain_epochs(*start(opened, {.threads = 2}), kKeptEpochs);
  for (const char* after : {"decode_image", "resize", "grayscale"}) {
    for (const bool fuse : {true, false}) {
      const auto job =
          start(opened, {.epochs = kKeptEpochs, .threads = 1, .fuse = fuse, .cache = keep(kAll, after)});
      EXPECT_EQ(drain_epochs(*job, kKeptEpochs), expected) << after << fuse;
      EXPECT_EQ(report(*job)["after"], after);
      EXPECT_EQ(report(*job)["hits"], (kKeptEpochs - 1) * kKeptPhotos);
    }
  }
}

TEST(JobKept, TheOrderOfAnotherStreamWithOtherBitsIsNotTaken) {
  const PhotoFolder folder(kKeptPhotos);
  const Opened opened =
      open_with(folder.path(), R"({"op":"decode_image"},{"op":"to_dtype","dtype":"float32"},)"
                               R"({"op":"resize","size":[24,24]},{"op":"random_crop","size":[16,16]})");
  const Rows expected = drain_epochs(*start(opened, {.threads = 2}), kKeptEpochs);
  JobOptions other{.threads = 2, .cache_dir = folder.path() / "cache", .reorder = autotune::Sense::kRounding};
  other.order = {0, 2, 1, 3};  // the cast behind the resize
  EXPECT_NE(drain_epochs(*start(opened, other), 8).front(), expected.front());
  const auto job = start(opened, {.threads = 2, .cache_dir = other.cache_dir, .cache = keep(kAll)});
  EXPECT_EQ(drain_epochs(*job, kKeptEpochs), expected);
}

TEST(JobKept, TheSameRecordsHitInEachEpoch) {
  const PhotoFolder folder(kKeptPhotos);
  const Opened opened = open_with(folder.path(), kRandomCrop);
  const std::uint64_t all = bytes_of_all(opened);
  const auto job =
      start(opened, {.threads = 1, .slots = 2, .prefetch_epochs = false, .cache = keep(all * 4 / 10)});
  drain(*job);
  std::uint64_t before = report(*job)["hits"];
  EXPECT_EQ(before, 0);
  std::vector<std::uint64_t> hits;
  for (std::uint64_t epoch = 1; epoch < 5; ++epoch) {
    ASSERT_TRUE(job->seek(epoch, 0));
    drain(*job);
    const std::uint64_t now = report(*job)["hits"];
    hits.push_back(now - before);
    before = now;
  }
  EXPECT_EQ(hits, std::vector<std::uint64_t>(4, hits.front()));
  EXPECT_NEAR(static_cast<double>(hits.front()) / kKeptPhotos, 0.4, 0.12);  // photos of unlike sizes
}

TEST(JobKept, WhatIsKeptIsNotRead) {
  const PhotoFolder folder(kKeptPhotos);
  const Opened opened = open_with(folder.path(), kRandomCrop);
  const auto job = start(opened, {.threads = 2, .prefetch_epochs = false, .cache = keep(kAll)});
  const auto first = drain(*job);
  const std::uint64_t reads = job->stats().scheduler.reads;
  EXPECT_GE(reads, kKeptPhotos);
  for (int record = 0; record < kKeptPhotos; ++record) folder.remove(record);
  ASSERT_TRUE(job->seek(1, 0));
  EXPECT_EQ(drain(*job).size(), first.size());
  EXPECT_EQ(job->stats().scheduler.reads, reads);
}

TEST(JobKept, NothingIsKeptInTheLastEpoch) {
  const PhotoFolder folder(kKeptPhotos);
  const Opened opened = open_with(folder.path(), kRandomCrop);
  const auto one = start(opened, {.epochs = 1, .threads = 2, .cache = keep(kAll)});
  drain(*one);
  EXPECT_EQ(report(*one)["filled"], 0);
  const auto two = start(opened, {.epochs = 2, .threads = 2, .cache = keep(kAll)});
  drain_epochs(*two, 2);
  EXPECT_EQ(report(*two)["filled"], kKeptPhotos);
}

TEST(JobKept, RanksAndResumesAreTheSameStream) {
  const PhotoFolder folder(kKeptPhotos);
  const std::string batch = R"({"batch_size":null,"global_size":8,"drop_last":false,"pad_last":false})";
  const Opened opened = open_with(folder.path(), kHeavy, batch);
  const std::uint64_t all = bytes_of_all(opened);
  for (const std::uint64_t world : {1, 2, 4})
    for (std::uint64_t rank = 0; rank < world; ++rank) {
      JobOptions options{.rank = rank, .world_size = world, .threads = 2};
      const Rows expected = drain_epochs(*start(opened, options), kKeptEpochs);
      options.cache = keep(all * 6 / 10);
      EXPECT_EQ(drain_epochs(*start(opened, options), kKeptEpochs), expected) << world << rank;
      options.epoch = 1;
      options.position = 16;
      const auto rest = drain_epochs(*start(opened, options), 2);
      EXPECT_TRUE(std::ranges::equal(rest[0], std::span(expected[1]).last(rest[0].size())));
      EXPECT_EQ(rest[1], expected[2]);
    }
}

TEST(JobKept, SeeksMayComeAtAnyTime) {
  const PhotoFolder folder(kKeptPhotos);
  const Opened opened = open_with(folder.path(), kRandomCrop);
  const Rows expected = drain_epochs(*start(opened, {.threads = 2}), kKeptEpochs);
  const auto job = start(opened, {.threads = 2, .cache = keep(kAll / 64)});
  for (int round = 0; round < 12; ++round) {
    const std::uint64_t epoch = static_cast<std::uint64_t>(round) % 3;
    const std::uint64_t position = static_cast<std::uint64_t>(round * 8) % kKeptPhotos;
    ASSERT_TRUE(job->seek(epoch, position));
    const auto batch = job->next(60'000);
    ASSERT_TRUE(batch);
    const auto rows = row_hashes(*job, *batch);
    EXPECT_TRUE(std::ranges::equal(rows, std::span(expected[epoch]).subspan(position, rows.size()))) << round;
  }
}

TEST(JobKept, BrokenRecordsFareAlike) {
  const PhotoFolder folder(kKeptPhotos);
  for (const int record : {3, 17, 40}) folder.spoil(record);
  std::filesystem::resize_file(folder.file(21), std::filesystem::file_size(folder.file(21)) / 2);
  const Opened opened = open_with(folder.path(), kRandomCrop);
  using transforms::OnError;
  for (const OnError policy : {OnError::kMask, OnError::kReplace}) {
    const auto plain = start(opened, {.threads = 2, .on_error = policy});
    const Rows expected = drain_epochs(*plain, kKeptEpochs);
    for (const CacheOptions& cache : {keep(kAll), keep_coefficients()}) {
      const auto kept = start(opened, {.threads = 2, .on_error = policy, .cache = cache});
      EXPECT_EQ(drain_epochs(*kept, kKeptEpochs), expected);
      ASSERT_EQ(kept->quarantine().size(), plain->quarantine().size());
      for (std::size_t i = 0; i < kept->quarantine().size(); ++i) {
        EXPECT_EQ(kept->quarantine()[i].record, plain->quarantine()[i].record);
        EXPECT_EQ(kept->quarantine()[i].reason, plain->quarantine()[i].reason);
        EXPECT_EQ(kept->quarantine()[i].substitute, plain->quarantine()[i].substitute);
      }
    }
  }
}

TEST(JobKept, AViewKeepsByTheRecordsOfItsSource) {
  const PhotoFolder folder(kKeptPhotos);
  const Opened opened =
      open_with(folder.path(), kRandomCrop, kBatch4, R"({"view":"subset","indices":[5,5,9,30,31,2]})");
  const Rows expected = drain_epochs(*start(opened, {.threads = 2}), kKeptEpochs);
  const auto job = start(opened, {.threads = 2, .cache = keep(kAll)});
  EXPECT_EQ(drain_epochs(*job, kKeptEpochs), expected);
  EXPECT_EQ(report(*job)["records"], 5) << "one of the six is there twice";
}

TEST(JobKept, StreamsOfTheSameRecordsShareWhatTheyKeep) {
  const PhotoFolder folder(kKeptPhotos);
  const Opened opened = open_with(folder.path(), kRandomCrop);
  const JobOptions options{.threads = 2, .seed = 8};
  const Rows expected = drain_epochs(*start(opened, options), 1);
  const auto first = start(opened, {.threads = 2, .cache = keep(kAll)});
  drain(*first);
  JobOptions other = options;  // another seed, the same ops before the place
  other.cache = keep(kAll);
  const auto second = start(opened, other);
  EXPECT_EQ(drain_epochs(*second, 1), expected);
  EXPECT_GE(report(*second)["hits"], kKeptPhotos) << "from its first epoch on";
  EXPECT_EQ(report(*second)["records"], kKeptPhotos);
  const Opened again = open_with(folder.path(), kRandomCrop);  // opened anew, it may be another state
  const auto apart = start(again, other);
  drain(*apart);
  EXPECT_LT(report(*apart)["hits"], kKeptPhotos);
}

TEST(JobKept, ABudgetBoundsWhatIsKept) {
  const PhotoFolder folder(kKeptPhotos);
  const Opened opened = open_with(folder.path(), kRandomCrop);
  const std::uint64_t all = bytes_of_all(opened);
  const auto budget = SharedBudget::create(all / 2);
  const JobOptions options{.threads = 2, .cache = keep(kAll)};
  const auto made = LocalStream::create(opened.pipeline, opened.dataset, options, {.cache_budget = budget});
  ASSERT_TRUE(made);
  EXPECT_EQ(budget->left(), 0);
  EXPECT_EQ(nlohmann::json::parse((*made)->stats()->cache)["capacity_bytes"], all / 2);
  const Opened others = open_with(folder.path(), kFixed);
  const auto none = LocalStream::create(others.pipeline, others.dataset, options, {.cache_budget = budget});
  ASSERT_TRUE(none) << "without room nothing is kept";
  EXPECT_EQ(nlohmann::json::parse((*none)->stats()->cache)["capacity_bytes"], 0);
}

TEST(JobKept, ALaterStreamWithoutRoomOfItsOwnKeepsWhereTheFirstDoes) {
  const PhotoFolder folder(kKeptPhotos);
  const Opened opened = open_with(folder.path(), kHeavy);
  const auto budget = SharedBudget::create(1 << 20);
  const auto after = [&](const CacheOptions& cache, std::shared_ptr<LocalStream>& stream) {
    auto made = LocalStream::create(opened.pipeline, opened.dataset, {.threads = 2, .cache = cache},
                                    {.cache_budget = budget});
    EXPECT_TRUE(made) << (made ? "" : made.error().message);
    stream = std::move(*made);
    return nlohmann::json::parse(stream->stats()->cache)["after"].get<std::string>();
  };
  for (const std::string marked : {"decode_image", "resize", "grayscale"}) {
    std::shared_ptr<LocalStream> first, second;
    EXPECT_EQ(after(keep(kAll, marked), first), marked);
    EXPECT_EQ(after(keep(kAll), second), marked) << "elsewhere nothing is left";
    EXPECT_EQ(nlohmann::json::parse(second->stats()->cache)["capacity_bytes"], 1 << 20);
  }
}

TEST(JobKept, AutoKeepsNothingThatWasNotMeasured) {
  const PhotoFolder folder(kKeptPhotos);
  const Opened opened = open_with(folder.path(), kRandomCrop);
  const Rows expected = drain_epochs(*start(opened, {.threads = 2}), kKeptEpochs);
  const auto job = start(opened, {.threads = 2, .cache = {.mode = Mode::kAuto}});
  EXPECT_EQ(drain_epochs(*job, kKeptEpochs), expected);
  EXPECT_EQ(report(*job)["mode"], "auto");
}

TEST(JobKept, APlaceThatCannotBeIsRefusedWithTheReason) {
  const PhotoFolder folder(2);
  const auto refused = [&](const char* ops, const std::string& after) {
    const Opened opened = open_with(folder.path(), ops);
    const auto made = LocalStream::create(opened.pipeline, opened.dataset, {.cache = keep(kAll, after)});
    EXPECT_FALSE(made);
    return made ? std::string() : made.error().message;
  };
  const std::string random = refused(kRandomCrop, "random_horizontal_flip");
  EXPECT_NE(random.find("random_horizontal_flip"), std::string::npos) << random;
  EXPECT_NE(random.find("give \"decode_image\""), std::string::npos) << random;
  EXPECT_NE(refused(kHeavy, "no_such_op").find("\"resize\""), std::string::npos);
}

}  // namespace
}  // namespace carya::loader
