// Stores shared by processes that end in every way. Children leave by _exit: they must not run the parent's
// clean-up.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <thread>

#include "io/store/store_list.h"
#include "tests/store/store_fixture.h"

namespace carya::io {
namespace {

constexpr std::uint64_t kPerWriter = 25;

pid_t in_child(const std::function<int()>& work) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(work());
  return child;
}

int wait_for(pid_t child) {
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/// Writes versions 0..rounds-1 of its own records, with a flush per round.
int write_rounds(const std::string& path, std::uint64_t first_record, std::uint32_t rounds, bool compacts) {
  auto store = RecordStore::open(path, kTestIdentity);
  if (!store || !(*store)->stats().read_only_reason.empty()) return 1;
  for (std::uint32_t round = 0; round < rounds; ++round) {
    for (std::uint64_t i = 0; i < kPerWriter; ++i) {
      if (!put(**store, first_record + i, round)) return 2;
    }
    if (!(*store)->flush()) return 3;
    if (compacts && round % 8 == 7 && !(*store)->compact(true)) return 4;
    for (std::uint64_t i = 0; i < kPerWriter; ++i) {
      if (version_of(**store, first_record + i) != static_cast<int>(round)) return 5;
    }
  }
  return ::testing::Test::HasFailure() ? 6 : 0;
}

TEST(StoreProcesses, WritersAndCompactorsShareAFile) {
  TempDir dir;
  const std::string path = dir.path("a.store");
  constexpr std::uint32_t kRounds = 40;
  std::vector<pid_t> children;
  for (std::uint64_t writer = 0; writer < 4; ++writer) {
    children.push_back(
        in_child([&, writer] { return write_rounds(path, writer * kPerWriter, kRounds, writer % 2 == 1); }));
  }
  const auto reader = open_store(path);
  for (int i = 0; i < 50; ++i) {
    EXPECT_TRUE(ok(reader->refresh()));
    for (std::uint64_t record = 0; record < 100; ++record) version_of(*reader, record);
  }
  for (const pid_t child : children) EXPECT_EQ(wait_for(child), 0);
  EXPECT_TRUE(ok(reader->refresh()));
  const auto fresh = open_store(path);
  for (std::uint64_t record = 0; record < 100; ++record) {
    EXPECT_EQ(version_of(*reader, record), static_cast<int>(kRounds) - 1) << record;
    EXPECT_EQ(version_of(*fresh, record), static_cast<int>(kRounds) - 1) << record;
  }
  const auto check = verify_store(path);
  ASSERT_TRUE(check.has_value());
  EXPECT_EQ(check->damaged_count, 0u);
  EXPECT_FALSE(std::filesystem::exists(path + ".new"));
}

TEST(StoreProcesses, KilledWritersLoseOnlyWhatTheyHadNotWritten) {
  TempDir dir;
  const std::string path = dir.path("a.store");
  std::mt19937 draw(7);
  std::uint32_t version = 0;
  for (int round = 0; round < 40; ++round) {
    int acknowledged[2];
    ASSERT_EQ(::pipe(acknowledged), 0);
    // The child says which version it has flushed for all records; it is killed at any point between.
    const pid_t child = in_child([&] {
      auto store = RecordStore::open(path, kTestIdentity);
      if (!store) return 1;
      for (std::uint32_t v = version;; ++v) {
        for (std::uint64_t record = 0; record < 100; ++record) {
          if (!put(**store, record, v)) return 2;
        }
        if (!(*store)->flush()) return 3;
        if (::write(acknowledged[1], &v, sizeof v) != sizeof v) return 4;
        if (v % 16 == 5 && !(*store)->compact(true)) return 5;
      }
    });
    ::close(acknowledged[1]);
    std::uint32_t first = 0;
    EXPECT_EQ(::read(acknowledged[0], &first, sizeof first), ssize_t{sizeof first})
        << "the child never wrote";
    std::this_thread::sleep_for(std::chrono::microseconds(draw() % 8000));
    ::kill(child, SIGKILL);
    EXPECT_EQ(wait_for(child), 128 + SIGKILL);
    int last = static_cast<int>(first);
    for (std::uint32_t v = 0; ::read(acknowledged[0], &v, sizeof v) == sizeof v;) last = static_cast<int>(v);
    ::close(acknowledged[0]);
    const auto store = open_store(path);
    EXPECT_EQ(store->stats().read_only_reason, "");
    for (std::uint64_t record = 0; record < 100; ++record) {
      const int found = version_of(*store, record);
      EXPECT_GE(found, last) << "record " << record << " was flushed";
      EXPECT_LE(found, last + 1) << "record " << record << " was never written";
    }
    version = static_cast<std::uint32_t>(last) + 2;
    for (std::uint64_t record = 0; record < 100; ++record) put(*store, record, version - 1);
    EXPECT_TRUE(ok(store->flush()));
    if (::testing::Test::HasFailure()) return;
  }
}

TEST(StoreProcesses, AForkedChildIsRefusedAndTheParentGoesOn) {
  TempDir dir;
  const auto store = open_store(dir.path("a.store"));
  put(*store, 1, 0);
  EXPECT_EQ(wait_for(in_child([&] {
              const auto forked = [](const auto& result) {
                return !result && result.error().code == Code::kForked;
              };
              return forked(store->flush()) && forked(store->refresh()) && forked(store->compact()) ? 0 : 1;
            })),
            0);
  EXPECT_TRUE(ok(store->flush()));
  EXPECT_EQ(version_of(*store, 1), 0);
}

}  // namespace
}  // namespace carya::io
