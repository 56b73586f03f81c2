// Storage that moves under a job or does not answer: tars without number, folders made anew, reads that hang.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <filesystem>
#include <optional>
#include <thread>

#include "job_reading.h"
#include "loader/job/job.h"
#include "loader/read/cached_reads.h"
#include "loader/read/open_sources.h"
#include "photo_folder.h"
#include "tests/io/stuck_folder.h"
#include "tests/io/tar_maker.h"
#include "tests/io/temp_dir.h"

namespace carya::loader {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using Kind = io::ReadEngineOptions::Kind;

/// Tars of one photo each.
class Tars {
 public:
  explicit Tars(int count) : photos_(6) {
    for (int i = 0; i < count; ++i) {
      char name[32];
      std::snprintf(name, sizeof name, "%04d.tar", i);
      paths_.push_back(write(name, i));
    }
  }
  std::string write(const std::string& name, int photo) const {
    io::TarMaker tar;
    tar.file("a.cls", std::to_string(photo % 2)).file("a.jpg", read_file(photos_.file(photo % 6)));
    return folder_.write(name, tar.finish());
  }
  const std::string& path(std::size_t tar) const { return paths_[tar]; }
  Opened open() const {
    std::string list;
    for (const std::string& path : paths_) list += (list.empty() ? "\"" : ",\"") + path + "\"";
    return open_source(R"({"type":"webdataset","tars":[)" + list +
                       R"(],"fields":{"image":["jpg"]},"label":["cls"]})");
  }

 private:
  PhotoFolder photos_;
  io::TempDir folder_;
  std::vector<std::string> paths_;
};

std::size_t open_tars() {
  std::size_t count = 0;
  std::error_code gone;
  for (const auto& entry : fs::directory_iterator("/proc/self/fd"))
    count += fs::read_symlink(entry, gone).extension() == ".tar";
  return count;
}

/// A limit of 512 descriptors while it lives, of which a quarter is for tars.
class FewDescriptors {
 public:
  FewDescriptors() {
    EXPECT_EQ(getrlimit(RLIMIT_NOFILE, &before_), 0);
    const rlimit few{512, before_.rlim_max};
    EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  }
  ~FewDescriptors() { setrlimit(RLIMIT_NOFILE, &before_); }
  FewDescriptors(const FewDescriptors&) = delete;
  FewDescriptors& operator=(const FewDescriptors&) = delete;

 private:
  rlimit before_{};
};

TEST(JobStorage, ManyTarsAreReadWithFewOpen) {
  const FewDescriptors few;
  const Tars tars(300);
  const Opened opened = tars.open();
  for (const Kind kind : {Kind::kUring, Kind::kPread}) {
    const auto job = start(opened, {.threads = 2, .io_engine = kind});
    const auto first = drain(*job);
    EXPECT_EQ(first.size(), 300u);
    EXPECT_LE(open_tars(), open_containers_max() + cached_containers_max());
    EXPECT_GT(open_tars(), 0u);
    job->close();
    for (int i = 0; i < 1000 && open_tars() > 0; ++i) std::this_thread::sleep_for(milliseconds(10));
    EXPECT_EQ(open_tars(), 0u) << "a job that was closed keeps none open";
  }
}

// However many reads are in flight: what they are from is bounded, and some of it is left to other jobs.
TEST(JobStorage, JobReadsFromAsManyContainersAsLeavesSomeToOthers) {
  const FewDescriptors few;
  const Tars tars(300);
  const Opened opened = tars.open();
  const auto engine = io::ReadEngine::create({.kind = Kind::kPread}).value();
  OpenSources sources(*engine);
  std::vector<ReadOp> reads(1200);
  std::array<std::size_t, 4> places{};
  for (std::size_t i = 0; i < reads.size(); ++i) {
    ReadOp& read = reads[i];
    read.job = i / 300;
    read.manifest = opened.dataset->fields()[0].manifest.get();
    read.container = static_cast<std::uint32_t>(i % 300);
    places[read.job] += sources.reserve(read);
  }
  EXPECT_EQ(places, (std::array<std::size_t, 4>{96, 24, 6, 2})) << "of 128, three for each free one";
  ReadOp again = reads[95], other = reads[96];
  EXPECT_TRUE(sources.reserve(again)) << "from a container that is being read there is always one more read";
  EXPECT_FALSE(sources.reserve(other));
  ReadOp fifth = reads[96];
  fifth.job = 5;
  EXPECT_TRUE(sources.reserve(fifth)) << "a job's first container always has a place";
  for (std::size_t i = 300; i < reads.size(); ++i) sources.leave(reads[i]);
  EXPECT_FALSE(sources.reserve(other)) << "96 of 97 are the job's";
  sources.leave(reads[95]);
  EXPECT_FALSE(sources.reserve(other)) << "two reads are from that container";
  sources.leave(again);
  EXPECT_TRUE(sources.reserve(other)) << "a container that is not read any more is a place";
}

TEST(JobStorage, ManyTarsAreReadWithFewDescriptors) {
  const Tars tars(300);
  const Opened opened = tars.open();
  const auto expected = drain(*start(opened, {.epochs = 1, .threads = 1}));
  const pid_t child = fork();
  if (child == 0) {
    alarm(300);
    const int first_free = dup(0);
    const rlimit limit{static_cast<rlim_t>(first_free) + 90, static_cast<rlim_t>(first_free) + 90};
    setrlimit(RLIMIT_NOFILE, &limit);
    const auto job = Job::create(opened.pipeline, opened.dataset, {.threads = 2, .io_timeout_s = 60});
    _exit(job && drain(**job) == expected ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

TEST(JobStorage, TarThatWasReplacedMeanwhileIsAnIoError) {
  const FewDescriptors few;
  const Tars tars(300);
  const Opened opened = tars.open();
  // Nothing is read ahead, and nothing by who computes: who reads must have opened the tar before, and closed it.
  const auto job = start(opened, {.threads = 1, .slots = 2, .read_ahead_bytes = 1, .io_timeout_s = 0.2});
  for (int step = 0; step < 60; ++step) ASSERT_TRUE(job->next(120'000));  // the first tars are closed again
  fs::remove(tars.path(0));
  tars.write("0000.tar", 3);  // where the old offsets mean other bytes
  Result<Batch> batch = job->next(120'000);
  while (batch && batch->epoch == 0) batch = job->next(120'000);
  ASSERT_FALSE(batch);
  EXPECT_EQ(batch.error().code, Code::kIo);
  EXPECT_NE(job->failure()->reason.find("another file"), std::string::npos) << job->failure()->reason;
}

TEST(JobStorage, FolderMadeAnewIsReadAnewWhileAnOlderJobLives) {
  const PhotoFolder folder(8);
  const PhotoFolder other(16);
  const Opened old = open_folder(folder.path(), kBatch4);
  const auto older = start(old, {.threads = 1});
  const auto expected = drain(*older);
  const fs::path aside = folder.path().string() + "-aside";
  fs::rename(folder.path(), aside);
  fs::copy(other.path(), folder.path(), fs::copy_options::recursive);
  const Opened fresh = open_folder(folder.path(), kBatch4);
  EXPECT_EQ(drain(*start(fresh, {.threads = 1, .io_timeout_s = 1})).size(), 16u);
  EXPECT_EQ(drain(*older).size(), 8u) << "who has the old folder reads on in it";
  fs::remove_all(folder.path());
  fs::rename(aside, folder.path());
}

/// Photos, and one more that storage does not answer for.
struct Hanging {
  PhotoFolder photos{8};
  io::StuckFolder stuck{read_file(photos.file(0))};

  Opened open() const {
    std::string list;
    for (int i = 0; i < 8; ++i) list += "\"" + photos.file(i).string() + "\",";
    return open_source(R"({"type":"files","paths":[)" + list + "\"" + stuck.file() + "\"]}");
  }
};

TEST(JobStorage, ThreadsReadWhereAnotherProcessAnswers) {
  const PhotoFolder photos(1);
  io::StuckFolder remote(read_file(photos.file(0)));
  if (!remote.mounted()) GTEST_SKIP() << "the system lets us mount nothing";
  remote.release();
  const auto list = [](const std::string& path) {
    return open_source(R"x({"type":"files","paths":[")x" + path + R"x("]})x");
  };
  const auto job = start(list(remote.file()), {.threads = 1});
  EXPECT_EQ(job->stats().io_engine, "pread");
  EXPECT_EQ(drain(*job), drain(*start(list(photos.file(0).string()), {.threads = 1})));
  const auto asked = start(list(remote.file()), {.threads = 1, .io_engine = Kind::kUring});
  EXPECT_EQ(asked->stats().io_engine, "io_uring");
  EXPECT_EQ(drain(*asked).size(), 1u);
}

class JobStorageHangs : public testing::TestWithParam<Kind> {};

TEST_P(JobStorageHangs, ReadWithoutAnswerIsAnIoErrorUnderEveryPolicyAndItsLateAnswerIsThrownAway) {
  Hanging hanging;
  if (!hanging.stuck.mounted()) GTEST_SKIP() << "the system lets us mount nothing";
  const Opened opened = hanging.open();
  const auto job = start(
      opened,
      {.threads = 1, .on_error = transforms::OnError::kMask, .io_timeout_s = 1, .io_engine = GetParam()});
  Result<Batch> batch = job->next(120'000);
  while (batch && !batch->last) batch = job->next(120'000);
  ASSERT_FALSE(batch);
  EXPECT_EQ(batch.error().code, Code::kIo);
  const RecordError failure = job->failure().value();
  EXPECT_EQ(failure.record, 8u);
  EXPECT_EQ(failure.path, hanging.stuck.file());
  EXPECT_NE(failure.reason.find("no answer for 1 s"), std::string::npos) << failure.reason;

  hanging.stuck.release();
  ASSERT_TRUE(job->seek(0, 0));
  EXPECT_EQ(drain(*job).size(), 9u) << "answered at last, the stream goes on";
}

TEST_P(JobStorageHangs, JobEndsWhileItsReadHangsAndNobodyElseIsHeldUp) {
  Hanging hanging;
  if (!hanging.stuck.mounted()) GTEST_SKIP() << "the system lets us mount nothing";
  const Opened opened = hanging.open();
  const Opened healthy = open_folder(hanging.photos.path(), kBatch4);
  const auto lives = start(healthy, {.threads = 1, .io_engine = GetParam()});  // and with it the engine
  const auto expected = drain(*lives);
  for (int round = 0; round < 6; ++round) {  // more than the pool has threads
    auto job = start(opened, {.threads = 1, .io_timeout_s = 0.1, .io_engine = GetParam()});
    Result<Batch> batch = job->next(120'000);
    while (batch && !batch->last) batch = job->next(120'000);
    ASSERT_FALSE(batch);
    EXPECT_EQ(batch.error().code, Code::kIo);
    EXPECT_EQ(drain(*start(healthy, {.threads = 1, .io_engine = GetParam()})), expected);
    job->close();
  }
  EXPECT_EQ(drain(*lives).size(), expected.size());
}

// More reads hang than there ever were places for, of two jobs; the others do not notice.
TEST_P(JobStorageHangs, AJobWhoseMountIsDeadTakesNoOtherJobsPlaces) {
  const PhotoFolder photos(40);
  io::StuckFolder stuck(read_file(photos.file(0)));
  if (!stuck.mounted()) GTEST_SKIP() << "the system lets us mount nothing";
  std::string list;
  for (int i = 0; i < 3000; ++i)
    list += (i > 0 ? ",\"" : "\"") + stuck.path() + "/" + std::to_string(i) + ".jpg\"";
  const Opened dead = open_source(R"({"type":"files","paths":[)" + list + "]}");
  const Opened healthy = open_folder(photos.path(), kBatch4);
  const auto expected = drain(*start(healthy, {.threads = 1, .io_engine = GetParam()}));
  const JobOptions hanging{.threads = 64, .slots = 64, .io_timeout_s = 1e6, .io_engine = GetParam()};
  const auto first = start(dead, hanging), second = start(dead, hanging);
  stuck.wait_for_read();
  for (int round = 0; round < 3; ++round) {
    const auto job = start(healthy, {.threads = 1, .io_timeout_s = 60, .io_engine = GetParam()});
    EXPECT_EQ(drain(*job), expected);
  }
  stuck.release();
}

TEST_P(JobStorageHangs, ClosingBeforeTheTimeOutWaitsForNothing) {
  Hanging hanging;
  if (!hanging.stuck.mounted()) GTEST_SKIP() << "the system lets us mount nothing";
  auto job = start(hanging.open(), {.threads = 1, .io_timeout_s = 1e6, .io_engine = GetParam()});
  hanging.stuck.wait_for_read();
  job->close();
  job.reset();  // returns, though the read has not
}

INSTANTIATE_TEST_SUITE_P(Engines, JobStorageHangs, testing::Values(Kind::kUring, Kind::kPread),
                         [](const auto& given) { return given.param == Kind::kUring ? "uring" : "pread"; });

}  // namespace
}  // namespace carya::loader
