// Data that is written anew under a loader is the world's doing, never bad data; and data that is bad from
// the beginning: labels that are no numbers, data sets of nothing.
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <thread>

#include "job_reading.h"
#include "loader/data/sample.h"
#include "loader/job/job.h"
#include "loader/read/open_sources.h"
#include "photo_folder.h"
#include "tests/io/tar_maker.h"
#include "tests/io/temp_dir.h"

namespace carya::loader {
namespace {

namespace fs = std::filesystem;
using transforms::OnError;

constexpr OnError kPolicies[] = {OnError::kRaise, OnError::kMask, OnError::kReplace};

void set_time(const fs::path& path, std::chrono::seconds ahead) {
  fs::last_write_time(path, fs::file_time_type::clock::now() + ahead);
}

/// One tar, which can be written anew in place.
class PhotoTar {
 public:
  PhotoTar() : photos_(6) {}
  void write(int count, int first, const std::string& label = "1") const {
    io::TarMaker tar;
    for (int i = 0; i < count; ++i) {
      const std::string key = std::to_string(i);
      tar.file(key + ".cls", i == 2 ? label : "1");
      tar.file(key + ".jpg", read_file(photos_.file((first + i) % 6)));
    }
    folder_.write("t.tar", tar.finish());
  }
  std::string path() const { return folder_.path("t.tar"); }
  Opened open() const {
    return open_source(R"({"type":"webdataset","tars":[")" + path() +
                       R"("],"fields":{"image":["jpg"]},"label":["cls"]})");
  }

 private:
  PhotoFolder photos_;
  io::TempDir folder_;
};

/// The error that ends the epoch, and nothing of it in the quarantine.
std::string io_error_of(Job& job, int policy) {
  Result<Batch> batch = job.next(120'000);
  while (batch && !batch->last) batch = job.next(120'000);
  EXPECT_FALSE(batch) << "policy " << policy;
  if (batch) return "";
  EXPECT_EQ(batch.error().code, Code::kIo) << "policy " << policy << ": " << batch.error().message;
  EXPECT_TRUE(job.quarantine().empty()) << "policy " << policy;
  return batch.error().message;
}

TEST(ChangedData, TarWrittenAnewInPlaceIsAnIoErrorUnderEveryPolicy) {
  for (const OnError policy : kPolicies) {
    const PhotoTar tar;
    tar.write(60, 0);
    const auto job = start(tar.open(), {.threads = 1, .slots = 2, .on_error = policy, .io_timeout_s = 0.2});
    ASSERT_TRUE(job->next(120'000));
    tar.write(100, 1);  // the same file, where the old offsets mean other bytes
    const std::string message = io_error_of(*job, static_cast<int>(policy));
    EXPECT_NE(message.find("t.tar: it changed since it was listed ("), std::string::npos) << message;
  }
}

TEST(ChangedData, MemberWrittenOverIsAnIoErrorThoughTheSizeStays) {
  const PhotoTar tar;
  tar.write(60, 0);
  const Opened opened = tar.open();
  const auto job = start(opened, {.threads = 1, .slots = 2, .on_error = OnError::kMask, .io_timeout_s = 0.2});
  ASSERT_TRUE(job->next(120'000));
  const io::RecordAddress address = opened.dataset->address(50);
  std::fstream file(tar.path(), std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(static_cast<std::streamoff>(address.offset)) << std::string(address.bytes, 'x');
  file.close();
  set_time(tar.path(), std::chrono::seconds(3600));  // clocks of file systems are coarse
  const std::string message = io_error_of(*job, 1);
  EXPECT_NE(message.find("written again with the same"), std::string::npos) << message;
  EXPECT_EQ(job->failure()->record, 50u);
}

TEST(ChangedData, TarThatStillDecodesIsLookedAtNowAndThen) {
  const PhotoTar tar;
  tar.write(200, 0);
  const auto job = start(tar.open(), {.threads = 1, .slots = 2, .io_timeout_s = 0.2});
  ASSERT_TRUE(job->next(120'000));
  tar.write(200, 0);  // every record is as good as before: only the time tells
  set_time(tar.path(), std::chrono::seconds(3600));
  std::this_thread::sleep_for(std::chrono::nanoseconds(kLookAtContainerNs));
  const std::string message = io_error_of(*job, 0);
  EXPECT_NE(message.find("it changed while it was read"), std::string::npos) << message;
}

TEST(ChangedData, TarThatChangedBeforeItWasOpenedIsAnIoError) {
  const PhotoTar tar;
  tar.write(20, 0);
  const Opened opened = tar.open();
  tar.write(20, 0);
  set_time(tar.path(), std::chrono::seconds(3600));
  const std::string message = io_error_of(*start(opened, {.threads = 1, .io_timeout_s = 0.2}), 0);
  EXPECT_NE(message.find("it changed since it was listed"), std::string::npos) << message;
}

TEST(ChangedData, FileWrittenAnewWithItsSizeIsAnIoErrorUnderEveryPolicy) {
  for (const bool by_name : {false, true}) {
    for (const OnError policy : kPolicies) {
      const PhotoFolder folder(12);
      std::string list;
      for (int i = 0; i < 12; ++i) list += (i == 0 ? "\"" : ",\"") + folder.file(i).string() + "\"";
      const Opened opened = by_name ? open_source(R"({"type":"files","paths":[)" + list + "]}")
                                    : open_folder(folder.path(), kBatch4);
      folder.spoil(7);
      set_time(folder.file(7), std::chrono::seconds(3600));
      const auto job = start(opened, {.threads = 1, .on_error = policy, .io_timeout_s = 0.2});
      const std::string message = io_error_of(*job, static_cast<int>(policy));
      EXPECT_NE(message.find("0007.jpg: it changed since it was listed"), std::string::npos) << message;
      const auto plan = transforms::Plan::compile(opened.pipeline, {.seed = 0});
      EXPECT_EQ(compute_sample(**plan, *opened.dataset, 7, 0).error().code, Code::kIo);
    }
  }
}

TEST(ChangedData, BrokenRecordIsJudgedOnceItsFileIsAsItWasListed) {
  const PhotoFolder folder(12);
  folder.spoil(7);
  const auto listed = fs::last_write_time(folder.file(7));
  const Opened opened = open_folder(folder.path(), kBatch4);
  set_time(folder.file(7), std::chrono::seconds(3600));
  const auto job = start(opened, {.threads = 1, .on_error = OnError::kMask, .io_timeout_s = 60});
  ASSERT_TRUE(job->next(120'000));
  while (job->stats().scheduler.read_retries < 2) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  fs::last_write_time(folder.file(7), listed);  // storage showed another file for a moment
  EXPECT_EQ(drain(*job).size(), 8u);
  ASSERT_EQ(job->quarantine().size(), 1u);
  EXPECT_EQ(job->quarantine()[0].record, 7u);
}

TEST(ChangedData, LabelThatIsNoIntegerIsABrokenRecord) {
  const PhotoTar tar;
  tar.write(8, 0, "cat");
  const Opened opened = tar.open();
  const auto job = start(opened, {.threads = 1, .on_error = OnError::kMask});
  EXPECT_EQ(drain(*job).size(), 8u);
  ASSERT_EQ(job->quarantine().size(), 1u);
  const RecordError entry = job->quarantine()[0];
  EXPECT_EQ(entry.record, 2u);
  EXPECT_EQ(entry.path, tar.path());
  EXPECT_EQ(entry.member, "2.jpg");
  EXPECT_EQ(entry.stage, "label");
  EXPECT_TRUE(entry.reason.starts_with("label is not an integer")) << entry.reason;
  EXPECT_EQ(opened.dataset->label(2), -1);
  const auto raising = start(opened, {.threads = 1});
  EXPECT_EQ(raising->next(120'000).error().code, Code::kCorrupt);
  const auto plan = transforms::Plan::compile(opened.pipeline, {.seed = 0});
  EXPECT_EQ(compute_sample(**plan, *opened.dataset, 2, 0).error().code, Code::kCorrupt);
}

TEST(ChangedData, NothingIsNoDataset) {
  const auto pipeline =
      transforms::Pipeline::parse(R"({"version":1,"source":{"type":"arrays","count":0,"arrays":)"
                                  R"({"x":{"dtype":"float64","shape":[3],"fingerprint":"00"}}},)"
                                  R"("views":[],"shuffle":null,"ops":[],"batch":)" +
                                  std::string(kBatch4) + "}");
  ASSERT_TRUE(pipeline) << pipeline.error().message;
  const auto dataset = Dataset::open(**pipeline, {.arrays = {{"x", {nullptr, 0, 0}}}});
  ASSERT_FALSE(dataset);
  EXPECT_EQ(dataset.error().message, "arrays: the dataset is empty; give it one record or more");
}

}  // namespace
}  // namespace carya::loader
