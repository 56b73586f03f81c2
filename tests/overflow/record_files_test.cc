// What a worker reads itself: the files under its roots as its host lists them, and nothing else.
#include "loader/worker/record_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <mutex>

#include "io/files/listing.h"
#include "loader/overflow/remote_executor.h"
#include "loader/wire/record_address.h"
#include "tests/overflow/photos.h"
#include "tests/overflow/worker.h"

namespace carya::loader {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class RecordFilesTest : public ::testing::Test {
 protected:
  RecordFilesTest() {
    std::string name = (fs::temp_directory_path() / "carya-root-XXXXXX").string();
    folder_ = mkdtemp(name.data());
    fs::create_directories(root() / "in");
    write(root() / "in" / "a", "0123456789");
    write(folder_ / "secret", "0123456789");
  }
  ~RecordFilesTest() override { fs::remove_all(folder_); }

  static void write(const fs::path& path, const std::string& text) {
    std::ofstream(path, std::ios::binary) << text;
  }
  fs::path root() const { return folder_ / "root"; }
  RecordFiles open(const std::string& option, std::uint64_t bytes_max = 100) const {
    auto files = RecordFiles::open({option}, bytes_max);
    EXPECT_TRUE(files) << files.error().message;
    return std::move(*files);
  }
  /// As a host lists what lies at `path`, called `name` there.
  static RemoteAddress address(const fs::path& path, const std::string& name) {
    struct stat facts{};
    EXPECT_EQ(::stat(path.c_str(), &facts), 0);
    const auto stamp = io::stamp_of(facts);
    return {.file = {name, stamp.bytes, stamp.mtime_ns}, .offset = 2, .bytes = 5};
  }
  static RemoteAddress address(const fs::path& path) { return address(path, path.string()); }
  static Code code_of(const RecordFiles& files, const RemoteAddress& address) {
    std::vector<std::byte> memory;
    const auto read = files.read(address, memory);
    EXPECT_FALSE(read);
    return read ? Code::kForked : read.error().code;
  }

  fs::path folder_;
};

TEST_F(RecordFilesTest, ReadsWhatTheHostSees) {
  for (const auto& [option, name] :
       {std::pair(root().string(), (root() / "in" / "a").string()),
        std::pair(root().string() + "/", (root() / "in" / "a").string()),
        std::pair("/host/data=" + root().string(), std::string("/host/data/in/a")),
        std::pair("/=" + root().string(), std::string("/in//a"))}) {
    const RecordFiles files = open(option);
    const RemoteAddress there = address(root() / "in" / "a", name);
    EXPECT_TRUE(files.check(std::span(&there.file, 1)));
    std::vector<std::byte> memory(200, std::byte{0xFF});
    const auto read = files.read(there, memory);
    ASSERT_TRUE(read) << read.error().message;
    EXPECT_EQ(std::string(reinterpret_cast<const char*>(read->data()), read->size()), "23456");
    for (std::size_t i = 0; i < kRemoteSlackBytes; ++i) EXPECT_EQ(memory[5 + i], std::byte{0});
  }
}

TEST_F(RecordFilesTest, OpensNothingOutsideOfItsRoots) {
  const RecordFiles files = open(root().string());
  const fs::path secret = folder_ / "secret";
  EXPECT_EQ(code_of(files, address(secret)), Code::kPermission);
  EXPECT_EQ(code_of(files, address(secret, (root() / ".." / "secret").string())), Code::kPermission);
  EXPECT_EQ(code_of(files, address(secret, (root() / "in/../../secret").string())), Code::kPermission);
  EXPECT_EQ(code_of(files, address(secret, root().string() + "/" + secret.string())), Code::kNotFound);
  fs::create_symlink(secret, root() / "absolute");
  fs::create_symlink("../secret", root() / "relative");
  fs::create_symlink("..", root() / "up");
  for (const char* link : {"absolute", "relative", "up/secret"})
    EXPECT_EQ(code_of(files, address(secret, (root() / link).string())), Code::kPermission) << link;
  fs::create_directories(folder_ / "root2");
  write(folder_ / "root2" / "a", "0123456789");
  EXPECT_EQ(code_of(files, address(folder_ / "root2" / "a")), Code::kPermission)
      << "a name that only begins so";
  RemoteAddress zero = address(root() / "in" / "a");
  zero.file.path += std::string("\0x", 2);
  EXPECT_EQ(code_of(files, zero), Code::kPermission);
}

TEST_F(RecordFilesTest, LinksInsideOfARootAreFollowed) {
  fs::create_symlink("in/a", root() / "link");
  std::vector<std::byte> memory;
  EXPECT_TRUE(open(root().string()).read(address(root() / "in" / "a", (root() / "link").string()), memory));
}

TEST_F(RecordFilesTest, OtherFilesAndRangesAreRefused) {
  const RecordFiles files = open(root().string());
  const RemoteAddress right = address(root() / "in" / "a");
  RemoteAddress other = right;
  other.file.mtime_ns += 1;
  EXPECT_EQ(code_of(files, other), Code::kIo);
  EXPECT_FALSE(files.check(std::span(&other.file, 1)));
  other = right;
  other.file.bytes = 11;
  EXPECT_EQ(code_of(files, other), Code::kIo);
  for (const auto& [offset, bytes] :
       {std::pair<std::uint64_t, std::uint64_t>{6, 5}, {UINT64_MAX, 2}, {0, 11}, {2, UINT64_MAX}}) {
    other = right;
    other.offset = offset;
    other.bytes = bytes;
    EXPECT_EQ(code_of(files, other), Code::kCorrupt) << offset;
  }
  EXPECT_EQ(code_of(open(root().string(), 4), right), Code::kExhausted);
  ASSERT_EQ(mkfifo((root() / "fifo").c_str(), 0600), 0);
  EXPECT_EQ(code_of(files, address(root() / "fifo")), Code::kCorrupt) << "a fifo has no bytes";
  RemoteAddress fifo = right;
  fifo.file.path = (root() / "fifo").string();
  EXPECT_EQ(code_of(files, fifo), Code::kPermission);
  fifo.file.path = (root() / "in").string();
  EXPECT_EQ(code_of(files, fifo), Code::kPermission);
  fifo.file.path = (root() / "none").string();
  EXPECT_EQ(code_of(files, fifo), Code::kNotFound);
}

TEST_F(RecordFilesTest, RootsMustBeFolders) {
  for (const std::string& option :
       std::vector<std::string>{"", "data", "/data=there", "there=" + root().string()})
    EXPECT_EQ(RecordFiles::open({option}, 1).error().code, Code::kInvalidArgument) << option;
  EXPECT_EQ(RecordFiles::open({(root() / "none").string()}, 1).error().code, Code::kNotFound);
  EXPECT_FALSE(RecordFiles::open({(root() / "in" / "a").string()}, 1));
}

// Streams whose workers read records themselves.

std::shared_ptr<RemoteExecutor> crew_at(const Opened& opened, const std::string& path,
                                        std::vector<std::string>& log, std::mutex& logging) {
  RemoteExecutorOptions options{.workers = {"unix:" + path}, .lead = 0};
  options.log = [&](const std::string& line) {
    const std::lock_guard lock(logging);
    log.push_back(line);
  };
  auto crew = RemoteExecutor::create(options);
  EXPECT_TRUE(crew) << crew.error().message;
  RemotePlan plan = remote_plan(*opened.pipeline, kAllOps);
  plan.files = source_files(*opened.dataset);
  EXPECT_FALSE(plan.files.empty());
  EXPECT_TRUE((*crew)->set_plan(plan, nullptr));
  return *crew;
}

void copy_photos(const fs::path& from, const fs::path& to) {
  fs::copy(from, to, fs::copy_options::recursive);
  for (const auto& entry : fs::recursive_directory_iterator(from))
    if (entry.is_regular_file())
      fs::last_write_time(to / fs::relative(entry.path(), from), entry.last_write_time());
}

TEST(RecordAddresses, AWorkerThatReadsRecordsGivesTheBitsOfTheHost) {
  const PhotoFolder folder(61);
  const Opened opened = open_photos(folder);
  const std::string path = folder.socket();
  const Worker worker(path, 2, {folder.path().string()});
  std::vector<std::string> log;
  std::mutex logging;
  const auto job = start(opened, {.threads = 1, .slots = 6}, crew_at(opened, path, log, logging));
  EXPECT_EQ(drain_until_remote(*job), alone(opened));
  const auto stats = job->stats().scheduler;
  EXPECT_LT(stats.remote_bytes, stats.remote_chunks * 4 * (16 * 16 * 3 * 4 + 8 + 500))
      << "addresses were sent";
  job->close();
  EXPECT_THAT(log, ::testing::Contains(HasSubstr("reads records itself")));
}

TEST(RecordAddresses, AWorkerThatSeesOtherFilesIsSentRecords) {
  const PhotoFolder folder(61);
  const Opened opened = open_photos(folder);
  const std::string path = folder.socket();
  const PhotoFolder other(61);  // of another time
  const Worker worker(path, 2, {folder.path().string() + "=" + other.path().string()});
  std::vector<std::string> log;
  std::mutex logging;
  const auto job = start(opened, {.threads = 1, .slots = 6}, crew_at(opened, path, log, logging));
  EXPECT_EQ(drain_until_remote(*job), alone(opened));
  job->close();
  EXPECT_THAT(log, ::testing::Contains(HasSubstr("it is not as the host lists it")));
}

TEST(RecordAddresses, WhatChangesOnTheWorkersSideChangesNoBit) {
  const PhotoFolder folder(61);
  const Opened opened = open_photos(folder);
  const Rows expected = alone(opened);
  const std::string path = folder.socket();
  const fs::path copy = folder.path().string() + ".copy";
  copy_photos(folder.path(), copy);
  {
    const Worker worker(path, 2, {folder.path().string() + "=" + copy.string()});
    std::vector<std::string> log;
    std::mutex logging;
    const auto job = start(opened, {.threads = 1, .slots = 6}, crew_at(opened, path, log, logging));
    EXPECT_EQ(drain_until_remote(*job), expected);
    for (const auto& entry : fs::recursive_directory_iterator(copy))
      if (entry.is_regular_file())
        fs::copy_file(folder.file(3), entry.path(), fs::copy_options::overwrite_existing);
    const auto found = [&] {
      const std::lock_guard lock(logging);
      return std::ranges::any_of(log, [](const auto& line) { return line.contains("is sent records now"); });
    };
    for (int epoch = 0; epoch < 3000 && !found(); ++epoch) {
      ASSERT_TRUE(job->seek(0, 0));
      ASSERT_EQ(drain(*job), expected);
    }
    EXPECT_TRUE(found());
    ASSERT_TRUE(job->seek(0, 0));
    EXPECT_EQ(drain(*job), expected);
  }
  fs::remove_all(copy);
}

}  // namespace
}  // namespace carya::loader
