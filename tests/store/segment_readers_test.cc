// Entries that not everybody may read lie in files that not everybody may read, and are no trouble to the others.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <climits>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>

#include "io/segments/segment_store.h"
#include "tests/io/other_user.h"
#include "tests/io/temp_dir.h"

namespace carya::io {
namespace {

namespace fs = std::filesystem;

constexpr gid_t kGroup = kOtherUsersGroup, kOtherGroup = 70'002, kThirdGroup = 70'003;

/// Entry `n`, with a word in it that is nowhere else.
std::string text_of(std::uint64_t n) {
  return "<<entry " + std::to_string(n) + " of somebody>>";
}
Hash128 identity_of(std::uint64_t n) {
  return {n + 1, 7};
}
Status put(SegmentStore& store, std::uint64_t n, const Readers& readers) {
  const std::string text = text_of(n);
  return store.append(identity_of(n), std::as_bytes(std::span(text)), readers);
}
bool has(SegmentStore& store, std::uint64_t n) {
  const SegmentEntry entry = store.find(identity_of(n));
  std::string text(entry ? entry.row.bytes : 0, '\0');
  return entry && store.read(entry, std::as_writable_bytes(std::span(text))) && text == text_of(n);
}

/// A shared folder that everybody may write, and a store of it.
struct Shared {
  Shared() {
    ::umask(022);
    ::chmod(dir.path().c_str(), 0755);
    ::mkdir(options.folder.c_str(), 0700);
    ::chmod(options.folder.c_str(), 01777);
    store = open();
  }
  std::unique_ptr<SegmentStore> open() const {
    auto opened = SegmentStore::open(options);
    return opened ? std::move(*opened) : nullptr;
  }
  /// How many files have each mode and group.
  std::map<std::pair<mode_t, gid_t>, int> files() const {
    std::map<std::pair<mode_t, gid_t>, int> found;
    for (const auto& entry : fs::directory_iterator(store->folder())) {
      struct stat status;
      if (entry.path().extension() == ".segment" && ::stat(entry.path().c_str(), &status) == 0)
        ++found[{status.st_mode & 0777u, status.st_gid}];
    }
    return found;
  }

  const TempDir dir;
  const SegmentStoreOptions options{
      .folder = dir.path("tier"), .place = {3, 4}, .about = "{}", .capacity_bytes = 64 << 20};
  std::unique_ptr<SegmentStore> store;
};

/// All bytes of a folder's files that this process may read.
std::string bytes_in(const std::string& folder) {
  std::string all;
  for (const auto& entry : fs::directory_iterator(folder)) {
    std::ifstream file(entry.path(), std::ios::binary);
    all.append(std::istreambuf_iterator<char>(file), {});
  }
  return all;
}

class SegmentReaders : public ::testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root, to become another user";
  }
};

TEST(SegmentReadersHere, EntriesOfUnlikeReadersGoToFilesOfTheirOwn) {
  const Shared shared;
  for (std::uint64_t n = 0; n < 40; ++n) {
    const Readers of[] = {Readers::everybody(), {}, Readers::of_group(::getegid())};
    ASSERT_TRUE(put(*shared.store, n, of[n % 3]));
  }
  const std::map<std::pair<mode_t, gid_t>, int> expected{
      {{0644, ::getegid()}, 1}, {{0640, ::getegid()}, 1}, {{0600, ::getegid()}, 1}};
  EXPECT_EQ(shared.files(), expected);
  for (std::uint64_t n = 0; n < 40; ++n) EXPECT_TRUE(has(*shared.store, n));
  shared.store->seal();
  const auto later = shared.open();
  for (std::uint64_t n = 0; n < 40; ++n) EXPECT_TRUE(has(*later, n));
}

TEST(SegmentReadersHere, NobodyIsWhoIsNotNamed) {
  const Shared shared;
  ASSERT_TRUE(shared.store->append(identity_of(1), std::as_bytes(std::span("bytes"))));
  EXPECT_EQ(shared.files().begin()->first.first, 0600u);
}

TEST_F(SegmentReaders, AnotherUserReadsNoByteOfWhatIsNotForThemAndAllThatIs) {
  const Shared shared;
  ASSERT_TRUE(put(*shared.store, 0, Readers::everybody()));
  ASSERT_TRUE(put(*shared.store, 1, {}));
  ASSERT_TRUE(put(*shared.store, 2, Readers::of_group(kGroup)));
  ASSERT_TRUE(put(*shared.store, 3, Readers::of_group(kOtherGroup)));
  shared.store->seal();
  EXPECT_TRUE(as_other([&] {
    const std::string bytes = bytes_in(shared.store->folder());
    bool good = true;
    for (const std::uint64_t n : {0, 1, 2, 3})
      good = good && bytes.contains(text_of(n)) == (n == 0 || n == 2);
    const auto theirs = shared.open();
    for (const std::uint64_t n : {0, 1, 2, 3}) good = good && has(*theirs, n) == (n == 0 || n == 2);
    return good && theirs->refresh() && theirs->stats().damaged == 0;
  }));
}

TEST_F(SegmentReaders, AFurtherGroupsEntriesAreThisUsersAlone) {
  const Shared shared;
  for (const gid_t group : {kGroup, kOtherGroup, kThirdGroup})
    for (std::uint64_t n = 0; n < 3; ++n)
      ASSERT_TRUE(put(*shared.store, 10 * group + n, Readers::of_group(group)));
  const std::map<std::pair<mode_t, gid_t>, int> expected{
      {{0640, kGroup}, 1}, {{0640, kOtherGroup}, 1}, {{0600, ::getegid()}, 1}};
  EXPECT_EQ(shared.files(), expected);
}

TEST_F(SegmentReaders, AFileIsKeptFromOthersOnceItsEntriesAre) {
  const Shared shared;
  ASSERT_TRUE(put(*shared.store, 0, Readers::everybody()));
  const SegmentEntry entry = shared.store->find(identity_of(0));
  ASSERT_TRUE(entry.segment->is_for_others());
  // What another user writes and reads meanwhile is theirs.
  EXPECT_TRUE(as_other([&] {
    const auto theirs = shared.open();
    const SegmentEntry found = theirs->find(identity_of(0));
    return has(*theirs, 0) && !found.segment->is_for_others() && found.segment->keep_from_others({});
  }));
  EXPECT_EQ(shared.files().begin()->first.first, 0644u);
  ASSERT_TRUE(entry.segment->keep_from_others(Readers::everybody()));
  EXPECT_EQ(shared.files().begin()->first.first, 0644u);
  ASSERT_TRUE(entry.segment->keep_from_others({}));
  EXPECT_EQ(shared.files().begin()->first.first, 0600u);
  EXPECT_FALSE(entry.segment->is_for_others());
  EXPECT_TRUE(has(*shared.store, 0));
  ASSERT_TRUE(put(*shared.store, 1, Readers::everybody()));
  EXPECT_TRUE(as_other([&] {
    const auto theirs = shared.open();
    return !has(*theirs, 0) && !has(*theirs, 1) && !bytes_in(shared.store->folder()).contains("somebody");
  })) << "what comes later goes to the same file";
}

TEST_F(SegmentReaders, WhatMayNoLongerBeReadIsForgotten) {
  const Shared shared;
  ASSERT_TRUE(put(*shared.store, 0, Readers::everybody()));
  ASSERT_TRUE(put(*shared.store, 1, Readers::everybody()));
  const pid_t child = ::fork();
  if (child == 0) {
    ::close_range(3, UINT_MAX, 0);
    const rlimit few{7, 7};  // so that segments are opened for each read
    ::setrlimit(RLIMIT_NOFILE, &few);
    bool good = ::seteuid(70'000) == 0;
    const auto theirs = shared.open();
    good = good && has(*theirs, 0) && ::seteuid(0) == 0;
    for (const auto& entry : fs::directory_iterator(shared.store->folder()))
      ::chmod(entry.path().c_str(), 0600);
    good = good && ::seteuid(70'000) == 0 && theirs->find(identity_of(0)) && !has(*theirs, 0);
    good = good && !theirs->find(identity_of(0)) && theirs->stats().damaged == 0;
    ::_exit(good && theirs->refresh() && !theirs->find(identity_of(1)) ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST_F(SegmentReaders, AllWhoMayKeepSamplesInAFolderMayKeepThemInEachPlace) {
  const Shared shared;
  ASSERT_TRUE(put(*shared.store, 0, {}));
  EXPECT_TRUE(as_other([&] {
    const auto theirs = shared.open();
    return put(*theirs, 0, {}) && has(*theirs, 0) && ::rmdir(shared.store->folder().c_str()) != 0;
  }));
  EXPECT_EQ(static_cast<unsigned>(fs::status(shared.store->folder()).permissions()), 01777u);
}

}  // namespace
}  // namespace carya::io
