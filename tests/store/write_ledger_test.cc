// The bytes that were written within a day, in a file: they outlive processes, and no file makes more of a limit.
#include "io/segments/write_ledger.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "tests/io/temp_dir.h"
#include "tests/store/answered_calls.h"

namespace carya::io {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kHour = 3600, kNow = 500'000 * kHour + 100;

WriteLedger open_ledger(const TempDir& dir) {
  auto ledger = WriteLedger::open(dir.path());
  EXPECT_TRUE(ledger) << (ledger ? "" : ledger.error().message);
  return std::move(*ledger);
}

std::string file_in(const TempDir& dir) {
  return dir.path("written-" + std::to_string(::geteuid()));
}

bool adds(WriteLedger& ledger, std::uint64_t bytes, std::uint64_t limit, std::int64_t now_s) {
  const Status added = ledger.add(bytes, limit, now_s);
  if (!added) EXPECT_EQ(added.error().code, Code::kExhausted) << added.error().message;
  return added.has_value();
}

std::uint64_t written(WriteLedger& ledger, std::int64_t now_s) {
  const auto hours = ledger.read(now_s);
  EXPECT_TRUE(hours) << (hours ? "" : hours.error().message);
  return sum_of(*hours);
}

TEST(WriteLedger, WhatWasWrittenOutlivesWhoWroteItForADay) {
  const TempDir dir;
  {
    WriteLedger ledger = open_ledger(dir);
    EXPECT_TRUE(adds(ledger, 60, 100, kNow));
    EXPECT_TRUE(adds(ledger, 30, 100, kNow + 5 * kHour));
    EXPECT_FALSE(adds(ledger, 11, 100, kNow + 5 * kHour));
  }
  WriteLedger ledger = open_ledger(dir);
  EXPECT_FALSE(adds(ledger, 11, 100, kNow + 6 * kHour));
  EXPECT_EQ(written(ledger, kNow + 24 * kHour), 90);
  EXPECT_EQ(written(ledger, kNow + 25 * kHour), 30);
  EXPECT_TRUE(adds(ledger, 70, 100, kNow + 25 * kHour));
  EXPECT_TRUE(ledger.give_back(50, kNow + 25 * kHour));
  EXPECT_EQ(written(ledger, kNow + 25 * kHour), 50);
}

TEST(WriteLedger, AClockThatIsSetBackMakesNothingYoungerNorForgetsIt) {
  const TempDir dir;
  WriteLedger ledger = open_ledger(dir);
  EXPECT_TRUE(adds(ledger, 90, 100, kNow));
  for (const std::int64_t now_s : {kNow - kHour, kNow - 1000 * kHour, std::int64_t{0}, std::int64_t{-5}})
    EXPECT_FALSE(adds(ledger, 11, 100, now_s)) << now_s;
  // It counts for a day from then on, and not until the clock is where it once was.
  EXPECT_EQ(written(ledger, 24 * kHour), 90);
  EXPECT_EQ(written(ledger, 25 * kHour), 0);
}

TEST(WriteLedger, HoursThatDifferByOneDoNotMakeAnythingOlder) {
  const TempDir dir;
  WriteLedger ledger = open_ledger(dir);
  EXPECT_TRUE(adds(ledger, 90, 100, kNow));
  for (int i = 0; i < 100; ++i) EXPECT_FALSE(adds(ledger, 11, 100, kNow + (i % 2) * kHour)) << i;
}

TEST(WriteLedger, ManyProcessesTogetherWriteNoMoreThanTheLimit) {
  const TempDir dir;
  constexpr int kProcesses = 4, kTries = 3'000;
  constexpr std::uint64_t kLimit = 10'000;
  int begin[2];
  ASSERT_EQ(::pipe(begin), 0);
  std::vector<pid_t> children;
  for (int child = 0; child < kProcesses; ++child) {
    children.push_back(::fork());
    if (children.back() == 0) {
      auto ledger = WriteLedger::open(dir.path());
      std::uint64_t added = 0;
      char ignored = 0;
      ::close(begin[1]);
      static_cast<void>(!::read(begin[0], &ignored, 1));  // until all are there
      for (int i = 0; ledger && i < kTries; ++i) added += ledger->add(1, kLimit, kNow) ? 1 : 0;
      std::ofstream(dir.path("added-" + std::to_string(child))) << added << std::flush;
      ::_exit(0);
    }
  }
  ::close(begin[0]);
  ::close(begin[1]);
  std::uint64_t all = 0;
  for (int child = 0; child < kProcesses; ++child) {
    int status = 0;
    ::waitpid(children[static_cast<std::size_t>(child)], &status, 0);
    ASSERT_TRUE(WIFEXITED(status));
    std::uint64_t added = 0;
    std::ifstream(dir.path("added-" + std::to_string(child))) >> added;
    all += added;
  }
  WriteLedger ledger = open_ledger(dir);
  EXPECT_EQ(written(ledger, kNow), all) << "none was lost";
  EXPECT_LE(all, kLimit);
  EXPECT_GT(all, kLimit / 2);
}

/// Absolute and as a plain array, since a handler of signals may allocate nothing.
std::array<char, PATH_MAX> watched{};

/// Called in the place of a write: ends the process with 1 if the watched file is locked then, with 2 if it is not.
void look_at_lock(int) {
  const int other = ::open(watched.data(), O_RDWR | O_CLOEXEC);
  struct flock whole{.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 0, .l_pid = 0};
  ::_exit(other >= 0 && ::fcntl(other, F_OFD_SETLK, &whole) != 0 && (errno == EAGAIN || errno == EACCES) ? 1
                                                                                                         : 2);
}

TEST(WriteLedger, IsLockedWhileItIsWritten) {
  const TempDir dir;
  WriteLedger ledger = open_ledger(dir);
  ASSERT_TRUE(adds(ledger, 1, 100, kNow));
  ASSERT_LT(file_in(dir).copy(watched.data(), watched.size() - 1), watched.size() - 1);
  const pid_t child = ::fork();
  if (child == 0) {
    std::signal(SIGSYS, look_at_lock);
    if (!answer_calls(SYS_pwrite64, SECCOMP_RET_TRAP)) ::_exit(3);
    static_cast<void>(ledger.add(1, 100, kNow));
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == 3) GTEST_SKIP() << "needs seccomp";
  EXPECT_EQ(WEXITSTATUS(status), 1)
      << "0: nothing was written; 2: another process could have written between";
  EXPECT_EQ(written(ledger, kNow), 1);
}

TEST(WriteLedger, EveryFlippedBitAndEveryCutIsAnEmptyOneOrHarmless) {
  const TempDir dir;
  {
    WriteLedger ledger = open_ledger(dir);
    EXPECT_TRUE(adds(ledger, 60, 100, kNow));
  }
  std::ifstream whole(file_in(dir), std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(whole), {}};
  ASSERT_EQ(bytes.size(), 232);
  const auto sum_with = [&](const std::string& image) {
    std::ofstream(file_in(dir), std::ios::binary | std::ios::trunc) << image;
    WriteLedger ledger = open_ledger(dir);
    return written(ledger, kNow);
  };
  EXPECT_EQ(sum_with(bytes), 60);
  EXPECT_EQ(sum_with(bytes + "more"), 60);
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    EXPECT_EQ(sum_with(bytes.substr(0, at)), 0) << at;
    std::string flipped = bytes;
    flipped[at] = static_cast<char>(flipped[at] ^ (1 << at % 8));
    EXPECT_EQ(sum_with(flipped), 0) << at;
  }
}

TEST(WriteLedger, WhatIsNoFileOfOurKindUnderItsNameIsRefused) {
  const TempDir dir;
  ASSERT_EQ(::mkfifo(file_in(dir).c_str(), 0600), 0);
  EXPECT_FALSE(WriteLedger::open(dir.path()));
  fs::remove(file_in(dir));
  std::ofstream(dir.path("elsewhere")) << "mine";
  fs::create_symlink(dir.path("elsewhere"), file_in(dir));
  EXPECT_FALSE(WriteLedger::open(dir.path()));
  EXPECT_EQ(fs::file_size(dir.path("elsewhere")), 4);
}

TEST(WriteLedger, SumsDoNotWrap) {
  HourlyBytes hours{};
  hours[0] = hours[1] = UINT64_MAX - 1;
  EXPECT_EQ(sum_of(hours), UINT64_MAX);
  age(hours, 24);
  EXPECT_EQ(hours[24], UINT64_MAX - 1);
  age(hours, UINT64_MAX);
  EXPECT_EQ(sum_of(hours), 0);
}

}  // namespace
}  // namespace carya::io
