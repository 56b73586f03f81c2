// Reading what is in memory, and nothing else.
#include "io/files/cached_read.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "io/files/source_folder.h"
#include "tests/io/temp_dir.h"

namespace carya::io {
namespace {

/// A folder on a file system that is on the list; the tests' own temporary folder may be on any.
class CachedRead : public testing::Test {
 protected:
  void SetUp() override {
    how = cached_reading(folder.path());
    if (how == CachedReading::kNever)
      GTEST_SKIP() << folder.path() << " lies on a file system that is not known";
    root = UniqueFd(::open(folder.path().c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    ASSERT_TRUE(root);
  }
  bool named(const std::string& name, std::uint64_t length, std::uint64_t resolve = 0) {
    bytes.assign(length + 1, std::byte{0xee});
    return read_named_cached(how, root.get(), name.c_str(), resolve, length, bytes.data());
  }
  std::string read(std::uint64_t length) const {
    return {reinterpret_cast<const char*>(bytes.data()), length};
  }

  TempDir folder;
  CachedReading how = CachedReading::kNever;
  UniqueFd root;
  std::vector<std::byte> bytes;
};

TEST_F(CachedRead, GivesAFileOfTheExpectedLength) {
  for (const std::uint64_t length : {0, 1, 4095, 4096, 4097, 3 * 4096, 110'000}) {
    const std::string content(length, 'a');
    folder.write("a", content);
    ASSERT_TRUE(named("a", length)) << length;
    EXPECT_EQ(read(length), content);
  }
}

TEST_F(CachedRead, RefusesAFileOfAnotherLengthAlsoAtAPageEnd) {
  for (const std::uint64_t length : {100, 4096, 8192}) {
    folder.write("a", std::string(length + 1, 'a'));
    EXPECT_FALSE(named("a", length)) << "it has grown past " << length;
    folder.write("a", std::string(length - 1, 'a'));
    EXPECT_FALSE(named("a", length)) << "it is shorter than " << length;
  }
}

TEST_F(CachedRead, RefusesWhatIsNoFileOrNotThere) {
  EXPECT_FALSE(named("missing", 1));
  ASSERT_EQ(::mkfifo(folder.path("fifo").c_str(), 0600), 0);
  EXPECT_FALSE(named("fifo", 1));
  EXPECT_FALSE(named(".", 1));
}

TEST_F(CachedRead, FollowsALinkOnThisFileSystemOnly) {
  folder.write("a", "content");
  std::filesystem::create_symlink("a", folder.path("link"));
  EXPECT_TRUE(named("link", 7));
  std::filesystem::create_symlink("/proc/version", folder.path("out"));
  struct stat status{};
  ASSERT_EQ(::stat(folder.path("out").c_str(), &status), 0);
  EXPECT_FALSE(open_cached(root.get(), "out", 0)) << "another mount may be one that does not answer";
  std::filesystem::create_symlink(folder.path("a"), folder.path("absolute"));
  EXPECT_FALSE(named("absolute", 7, beneath_flags())) << "it leads through the root";
}

TEST_F(CachedRead, SaysWhatIsNotInThePageCache) {
  if (how != CachedReading::kNoWait) GTEST_SKIP() << "a file system in memory";
  constexpr std::uint64_t kBytes = 64 << 20;  // so much is not read back by chance
  folder.write("a", std::string(kBytes, 'a'));
  const UniqueFd file(::open(folder.path("a").c_str(), O_RDONLY | O_CLOEXEC));
  ASSERT_EQ(::fsync(file.get()), 0);
  ASSERT_EQ(::posix_fadvise(file.get(), 0, 0, POSIX_FADV_DONTNEED), 0);
  EXPECT_FALSE(named("a", kBytes));
  bytes.resize(kBytes);
  EXPECT_FALSE(read_range_cached(how, file.get(), kBytes / 2, 4096, bytes.data()));
}

TEST_F(CachedRead, ReadsRangesAndNothingPastTheEnd) {
  folder.write("a", "0123456789");
  const UniqueFd file = open_cached(root.get(), "a", 0);
  ASSERT_TRUE(file);
  bytes.assign(16, std::byte{0});
  ASSERT_TRUE(read_range_cached(how, file.get(), 3, 4, bytes.data()));
  EXPECT_EQ(read(4), "3456");
  EXPECT_FALSE(read_range_cached(how, file.get(), 8, 3, bytes.data()));
}

TEST(CachedReading, KnowsNoFileSystemThatAsksOthers) {
  EXPECT_EQ(cached_reading("/proc"), CachedReading::kNever);
  EXPECT_EQ(cached_reading(""), CachedReading::kNever);
  EXPECT_EQ(cached_reading("/nowhere/at/all"), CachedReading::kNever);
}

}  // namespace
}  // namespace carya::io
