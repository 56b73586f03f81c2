// Entries by identity in files that several writers fill: what is read is what was written, whatever happens to the files.
#include "io/segments/segment_store.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>

#include "base/hash.h"
#include "base/unique_fd.h"
#include "io/segments/segment_folder.h"
#include "tests/io/temp_dir.h"
#include "tests/store/answered_calls.h"

namespace carya::io {
namespace {

namespace fs = std::filesystem;

constexpr Hash128 kPlace{0x0102030405060708, 0x090a0b0c0d0e0f10};

/// The bytes of entry `n`, of unlike lengths.
std::vector<std::byte> bytes_of(std::uint64_t n) {
  std::vector<std::byte> bytes(100 + n * 37 % 3000);
  std::mt19937_64 random(n);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

Hash128 identity_of(std::uint64_t n) {
  return {hash64(std::as_bytes(std::span(&n, 1)), 1), hash64(std::as_bytes(std::span(&n, 1)), 2)};
}

SegmentStoreOptions options_in(const TempDir& dir, std::uint64_t capacity = 64 << 20) {
  return {
      .folder = dir.path("tier"), .place = kPlace, .about = R"({"after":"x"})", .capacity_bytes = capacity};
}

std::unique_ptr<SegmentStore> open_segments(const SegmentStoreOptions& options) {
  auto store = SegmentStore::open(options);
  EXPECT_TRUE(store) << (store ? "" : store.error().message);
  return store ? std::move(*store) : nullptr;
}

/// Reads entry `n`. Returns whether it is there; its bytes are then the right ones.
bool has(SegmentStore& store, std::uint64_t n) {
  const SegmentEntry entry = store.find(identity_of(n));
  if (!entry) return false;
  std::vector<std::byte> bytes(entry.row.bytes);
  if (!store.read(entry, bytes)) return false;
  EXPECT_EQ(bytes, bytes_of(n)) << n;
  return true;
}

std::uint64_t count(SegmentStore& store, std::uint64_t entries) {
  std::uint64_t found = 0;
  for (std::uint64_t n = 0; n < entries; ++n) found += has(store, n) ? 1 : 0;
  return found;
}

std::uint64_t bytes_below(const std::string& folder) {
  std::uint64_t bytes = 0;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (entry.path().extension() == ".segment") bytes += entry.file_size();
  return bytes;
}

std::vector<fs::path> segments_below(const std::string& folder) {
  std::vector<fs::path> found;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (entry.path().extension() == ".segment") found.push_back(entry.path());
  return found;
}

std::string contents(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void replace(const fs::path& path, std::string_view text) {
  std::ofstream(path, std::ios::binary | std::ios::trunc)
      .write(text.data(), static_cast<std::streamsize>(text.size()));
}

/// Pages of a file that are in the page cache.
std::size_t pages_cached(const fs::path& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  const std::size_t bytes = fs::file_size(path);
  void* const memory = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, fd.get(), 0);
  EXPECT_NE(memory, MAP_FAILED);
  std::vector<unsigned char> pages((bytes + 4095) / 4096);
  EXPECT_EQ(::mincore(memory, bytes, pages.data()), 0);
  ::munmap(memory, bytes);
  return static_cast<std::size_t>(std::ranges::count_if(pages, [](unsigned char page) { return page & 1; }));
}

TEST(SegmentStore, PastThePageCacheTheSameBytesAreReadAndStayOutOfIt) {
  const TempDir dir;
  const std::vector<std::size_t> sizes{(3 << 20) + 5, 1 << 20, (1 << 20) - 64, 4097, 4096, 4095, 63, 1};
  const auto bytes_of = [](std::size_t size) {
    std::vector<std::byte> bytes(size);
    std::mt19937_64 random(size);
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
    return bytes;
  };
  {
    const auto store = open_segments(options_in(dir));
    for (const std::size_t size : sizes) ASSERT_TRUE(store->append({size, 1}, bytes_of(size)));
  }
  const auto store = open_segments(options_in(dir));
  const auto segments = segments_below(dir.path("tier"));
  for (const auto& segment : segments) {
    const UniqueFd fd(::open(segment.c_str(), O_RDONLY | O_CLOEXEC));
    ASSERT_EQ(::fdatasync(fd.get()), 0);
    ASSERT_EQ(::posix_fadvise(fd.get(), 0, 0, POSIX_FADV_DONTNEED), 0);
  }
  const bool can = UniqueFd(::open(segments[0].c_str(), O_RDONLY | O_CLOEXEC | O_DIRECT)) &&
                   pages_cached(segments[0]) == 0;  // not in memory anyway
  BlockBuffer blocks;
  for (const std::size_t size : sizes) {
    const SegmentEntry entry = store->find({size, 1});
    ASSERT_TRUE(entry);
    std::vector<std::byte> bytes(size);
    ASSERT_TRUE(store->read(entry, bytes, &blocks)) << size;
    EXPECT_EQ(bytes, bytes_of(size)) << size;
  }
  for (const auto& segment : segments)
    if (can) EXPECT_EQ(pages_cached(segment), 0) << segment;
  // What is cut is found there too.
  const SegmentEntry entry = store->find({(3 << 20) + 5, 1});
  fs::resize_file(entry.segment->path(), entry.row.offset + entry.row.bytes - 1);
  std::vector<std::byte> bytes(entry.row.bytes);
  const Status cut = store->read(entry, bytes, &blocks);
  ASSERT_FALSE(cut);
  EXPECT_EQ(cut.error().code, Code::kCorrupt);
}

TEST(SegmentStore, OwnFilesAreReadByNobodyElseAndStopNobodyElse) {
  for (const bool own_only : {true, false}) {
    const TempDir dir;
    SegmentStoreOptions options = options_in(dir);
    options.own_only = own_only;
    const auto store = open_segments(options);
    ASSERT_TRUE(store->append(identity_of(1), bytes_of(1), Readers::everybody()));
    for (const auto& entry : fs::recursive_directory_iterator(options.folder))
      if (entry.is_regular_file())
        EXPECT_EQ(entry.status().permissions(), own_only ? fs::perms{0600} : fs::perms{0644});
    if (::geteuid() != 0) continue;  // only root can be another user too
    for (const std::string& folder : {dir.path(""), options.folder, store->folder()})
      fs::permissions(folder, fs::perms::all);
    const pid_t child = ::fork();
    if (child == 0) {
      if (::setresuid(65534, 65534, 65534) != 0) ::_exit(2);
      const auto theirs = SegmentStore::open(options);
      const bool read = theirs && has(**theirs, 1) != own_only && (*theirs)->refresh();
      ::_exit(read && (*theirs)->append(identity_of(2), bytes_of(2)) && has(**theirs, 2) ? 0 : 1);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
}

TEST(SegmentStore, WhatWasWrittenIsThereAtOnceAndForOthersAndLater) {
  const TempDir dir;
  const auto one = open_segments(options_in(dir)), other = open_segments(options_in(dir));
  for (std::uint64_t n = 0; n < 50; ++n) ASSERT_TRUE(one->append(identity_of(n), bytes_of(n)));
  EXPECT_EQ(count(*one, 50), 50);
  EXPECT_EQ(count(*other, 50), 0);
  ASSERT_TRUE(other->refresh());
  EXPECT_EQ(count(*other, 50), 50) << "while the first still writes";
  one->seal();
  const auto later = open_segments(options_in(dir));
  EXPECT_EQ(count(*later, 50), 50);
  EXPECT_EQ(later->stats().segments, 1);
}

TEST(SegmentStore, AnEntryIsWrittenOnce) {
  const TempDir dir;
  const auto store = open_segments(options_in(dir));
  for (int round = 0; round < 3; ++round) ASSERT_TRUE(store->append(identity_of(1), bytes_of(1)));
  EXPECT_EQ(store->stats().written, 1);
}

TEST(SegmentStore, AnotherPlaceHasOtherEntries) {
  const TempDir dir;
  const auto one = open_segments(options_in(dir));
  ASSERT_TRUE(one->append(identity_of(1), bytes_of(1)));
  SegmentStoreOptions options = options_in(dir);
  options.place.low ^= 1;
  const auto other = open_segments(options);
  EXPECT_FALSE(has(*other, 1));
  EXPECT_GT(other->stats().other_bytes, 0);
  // Not even where its file lies in the other's folder.
  one->seal();
  fs::copy(segments_below(one->folder()).front(), other->folder());
  ASSERT_TRUE(other->refresh());
  EXPECT_FALSE(has(*other, 1));
}

TEST(SegmentStore, TheCapacityIsKeptByAllWritersTogether) {
  const TempDir dir;
  constexpr std::uint64_t kCapacity = 1 << 20;
  std::vector<std::unique_ptr<SegmentStore>> stores;
  for (int i = 0; i < 3; ++i) stores.push_back(open_segments(options_in(dir, kCapacity)));
  std::uint64_t refused = 0;
  for (std::uint64_t n = 0; n < 3000; ++n) {
    refused += stores[n % 3]->append(identity_of(n), bytes_of(n)) ? 0 : 1;
    if (n % 50 == 0) ASSERT_LE(bytes_below(dir.path("tier")), kCapacity);
  }
  EXPECT_GT(refused, 0);
  for (const auto& store : stores) store->seal();
  EXPECT_LE(bytes_below(dir.path("tier")), kCapacity);
  const auto all = open_segments(options_in(dir, kCapacity));
  EXPECT_GT(all->stats().entry_bytes, kCapacity / 2);
}

TEST(SegmentStore, AUserWhoFillsACommonFolderLeavesTheOthersTheirParts) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root makes files of other users";
  const TempDir dir;
  constexpr std::uint64_t kCapacity = 3 << 20;
  const auto fill = [](SegmentStore& store, std::uint64_t from) {
    std::uint64_t n = from;
    while (n < from + 5000 && store.append(identity_of(n), bytes_of(n))) ++n;
    store.seal();
    return n - from;
  };
  // Two others have taken all of it, in this place and in another one.
  SegmentStoreOptions elsewhere = options_in(dir, kCapacity);
  elsewhere.place.low ^= 1;
  uid_t user = 54320;
  for (const SegmentStoreOptions& options : {options_in(dir, kCapacity / 3), elsewhere}) {
    const auto greedy = open_segments(options);
    EXPECT_GT(fill(*greedy, 100'000), 100);
    ++user;
    for (const fs::path& file : segments_below(greedy->folder()))
      ASSERT_EQ(::chown(file.c_str(), user, user), 0);
  }
  const std::uint64_t taken = bytes_below(dir.path("tier"));
  ASSERT_GT(taken, kCapacity * 9 / 10);

  const auto store = open_segments(options_in(dir, kCapacity));
  EXPECT_GE(store->stats().room_bytes, kCapacity / 3);
  EXPECT_GT(fill(*store, 0), 100);
  const std::uint64_t own = bytes_below(dir.path("tier")) - taken;
  EXPECT_GT(own, kCapacity / 4);
  EXPECT_LE(own, kCapacity / 3) << "and no more than that";
  ASSERT_TRUE(store->refresh());
  EXPECT_EQ(fill(*store, 200'000), 0);
}

TEST(SegmentStore, APlaceThatNobodyUsesGivesWay) {
  const TempDir dir;
  constexpr std::uint64_t kCapacity = 512 << 10;
  SegmentStoreOptions options = options_in(dir, kCapacity);
  options.place.low ^= 1;
  const std::string old = [&] {
    const auto store = open_segments(options);
    for (std::uint64_t n = 0; n < 2000 && store->append(identity_of(n), bytes_of(n)); ++n) {
    }
    return store->folder();
  }();
  const auto store = open_segments(options_in(dir, kCapacity));
  EXPECT_FALSE(store->append(identity_of(1), bytes_of(1))) << "it was used just now";
  const timespec hours_ago[2] = {{.tv_sec = ::time(nullptr) - 7200, .tv_nsec = 0},
                                 {.tv_sec = ::time(nullptr) - 7200, .tv_nsec = 0}};
  ASSERT_EQ(::utimensat(AT_FDCWD, (old + "/about.json").c_str(), hours_ago, 0), 0);
  EXPECT_TRUE(store->append(identity_of(1), bytes_of(1)));
  EXPECT_FALSE(fs::exists(old));
}

TEST(SegmentStore, AKilledWriterLosesNothingThatItHadWrittenAndNoRoom) {
  const TempDir dir;
  std::mt19937_64 random(7);
  std::uint64_t before = 0;
  for (std::uint64_t round = 0; round < 20; ++round) {
    int pipe[2];
    ASSERT_EQ(::pipe(pipe), 0);
    const pid_t child = ::fork();
    if (child == 0) {
      auto store = SegmentStore::open(options_in(dir));
      for (std::uint64_t n = round * 1000; store; ++n)
        if (!(*store)->append(identity_of(n), bytes_of(n)) || ::write(pipe[1], &n, 8) != 8) ::_exit(1);
      ::_exit(1);
    }
    ::close(pipe[1]);
    std::uint64_t wanted = random() % 60, last = 0, told = 0;
    while (told < wanted && ::read(pipe[0], &last, 8) == 8) ++told;
    ::kill(child, SIGKILL);
    while (::read(pipe[0], &last, 8) == 8) ++told;
    ::close(pipe[0]);
    ::waitpid(child, nullptr, 0);
    const auto store = open_segments(options_in(dir));
    for (std::uint64_t n = round * 1000; n < round * 1000 + told; ++n) ASSERT_TRUE(has(*store, n)) << n;
    EXPECT_GE(store->stats().entries, before + told);
    before = store->stats().entries;
  }
  // What was promised to the dead is cut off, once their files are not of this moment.
  for (const fs::path& path : segments_below(dir.path("tier"))) {
    const timespec old[2] = {{.tv_sec = ::time(nullptr) - 60, .tv_nsec = 0},
                             {.tv_sec = ::time(nullptr) - 60, .tv_nsec = 0}};
    ASSERT_EQ(::utimensat(AT_FDCWD, path.c_str(), old, 0), 0);
    ASSERT_TRUE(cut_abandoned(path, true, 600, static_cast<double>(::time(nullptr))));
  }
  const auto store = open_segments(options_in(dir));
  EXPECT_EQ(store->stats().entries, before);
  EXPECT_LE(bytes_below(dir.path("tier")), store->stats().entry_bytes + 20 * segment_overhead(4096) * 8);
}

TEST(SegmentStore, AWriterThatLivesIsNotCut) {
  const TempDir dir;
  const auto store = open_segments(options_in(dir));
  ASSERT_TRUE(store->append(identity_of(1), bytes_of(1)));
  const fs::path path = segments_below(dir.path("tier")).front();
  const std::uint64_t bytes = fs::file_size(path);
  const auto cut = cut_abandoned(path, true, 0, static_cast<double>(::time(nullptr)) + 1e6);
  ASSERT_TRUE(cut);
  EXPECT_EQ(*cut, 0);
  EXPECT_EQ(fs::file_size(path), bytes);
}

TEST(SegmentDamage, EveryFlippedByteAndEveryCutIsFoundOrHarmless) {
  const TempDir dir;
  constexpr std::uint64_t kEntries = 12;
  {
    const auto store = open_segments(options_in(dir));
    for (std::uint64_t n = 0; n < kEntries; ++n) ASSERT_TRUE(store->append(identity_of(n), bytes_of(n)));
  }
  const fs::path path = segments_below(dir.path("tier")).front();
  const std::string whole = contents(path);
  std::mt19937_64 random(3);
  std::uint64_t lost = 0;
  const auto look = [&](const std::string& what) {
    auto store = SegmentStore::open(options_in(dir));
    ASSERT_TRUE(store) << what;
    const std::uint64_t found = count(**store, kEntries);  // compares the bytes of each that is there
    lost += kEntries - found;
    // What was lost is written again.
    if (found == kEntries) return;
    for (std::uint64_t n = 0; n < kEntries; ++n) ASSERT_TRUE((*store)->append(identity_of(n), bytes_of(n)));
    EXPECT_EQ(count(**store, kEntries), kEntries) << what;
    const std::string own = (*store)->folder();
    store->reset();
    for (const fs::path& other : segments_below(own))
      if (other != path) fs::remove(other);
  };
  const std::size_t used = 64 + kEntries * 48;
  for (std::size_t i = 0; i < 1200; ++i) {
    // Header and rows byte by byte, payloads at random.
    const std::size_t at = i < used ? i : random() % whole.size();
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ (1 << random() % 8));
    replace(path, damaged);
    look("flipped " + std::to_string(at));
  }
  EXPECT_GT(lost, used / 2) << "damage was found";
  for (int i = 0; i < 300; ++i) {
    const std::size_t at = i < 100 ? static_cast<std::size_t>(i) * 7 : random() % whole.size();
    replace(path, std::string_view(whole).substr(0, at));
    look("cut at " + std::to_string(at));
  }
  replace(path, whole);
  const auto store = open_segments(options_in(dir));
  EXPECT_EQ(count(*store, kEntries), kEntries);
}

TEST(SegmentDamage, AFileThatChangesWhileItIsOpenIsFound) {
  const TempDir dir;
  const auto writer = open_segments(options_in(dir)), reader = open_segments(options_in(dir));
  for (std::uint64_t n = 0; n < 8; ++n) ASSERT_TRUE(writer->append(identity_of(n), bytes_of(n)));
  writer->seal();
  ASSERT_TRUE(reader->refresh());
  const fs::path path = segments_below(dir.path("tier")).front();
  const SegmentEntry entry = reader->find(identity_of(3));
  ASSERT_TRUE(entry);
  std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
  file.seekp(static_cast<std::streamoff>(entry.row.offset));
  file.put(static_cast<char>(~std::to_integer<int>(bytes_of(3)[0])));
  file.close();
  EXPECT_FALSE(has(*reader, 3));
  EXPECT_EQ(reader->stats().damaged, 1);
  EXPECT_FALSE(reader->find(identity_of(3))) << "it is made again";
  EXPECT_EQ(count(*reader, 8), 7);
  fs::resize_file(path, entry.row.offset);
  EXPECT_EQ(count(*reader, 8), 3);
}

TEST(SegmentTrouble, AFolderThatVanishesIsMadeAnew) {
  const TempDir dir;
  const auto store = open_segments(options_in(dir));
  ASSERT_TRUE(store->append(identity_of(1), bytes_of(1)));
  fs::remove_all(dir.path("tier"));
  EXPECT_FALSE(store->refresh());
  static_cast<void>(store->append(identity_of(2), bytes_of(2)));
  store->seal();
  ASSERT_TRUE(store->append(identity_of(3), bytes_of(3)));
  EXPECT_TRUE(has(*store, 3));
}

TEST(SegmentTrouble, AFolderThatCannotBeMadeIsAnError) {
  const TempDir dir;
  SegmentStoreOptions options = options_in(dir);
  options.folder = dir.write("file", "x") + "/tier";
  EXPECT_FALSE(SegmentStore::open(options));
  options.capacity_bytes = 0;
  EXPECT_FALSE(SegmentStore::open(options));
}

TEST(SegmentTrouble, ASegmentThatCannotBeReadIsSaidAndTriedAgain) {
  const TempDir dir;
  const auto reader = open_segments(options_in(dir)), writer = open_segments(options_in(dir));
  ASSERT_TRUE(writer->append(identity_of(1), bytes_of(1)));
  writer->seal();
  const pid_t child = ::fork();
  if (child == 0) {
    if (!answer_calls(SYS_pread64, SECCOMP_RET_ERRNO | EIO)) ::_exit(3);
    const Status looked = reader->refresh();
    ::_exit(!looked && looked.error().sys_errno == EIO ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == 3) GTEST_SKIP() << "needs seccomp";
  EXPECT_EQ(WEXITSTATUS(status), 0);
  ASSERT_TRUE(reader->refresh());
  EXPECT_TRUE(has(*reader, 1)) << "where reads work it is there";
}

TEST(SegmentTrouble, WhatIsNoSegmentIsLeftAlone) {
  const TempDir dir;
  const auto store = open_segments(options_in(dir));
  ASSERT_TRUE(store->append(identity_of(1), bytes_of(1)));
  store->seal();
  for (const char* name : {"short.segment", "readme.txt"}) replace(store->folder() + "/" + name, "not ours");
  ASSERT_EQ(::mkfifo((store->folder() + "/fifo.segment").c_str(), 0600), 0);
  ASSERT_TRUE(store->refresh());
  EXPECT_TRUE(has(*open_segments(options_in(dir)), 1));
}

TEST(SegmentFolder, PlacesAreListedCheckedAndRemoved) {
  const TempDir dir;
  EXPECT_TRUE(list_places(dir.path("none"))->empty());
  {
    const auto store = open_segments(options_in(dir));
    for (std::uint64_t n = 0; n < 5; ++n) ASSERT_TRUE(store->append(identity_of(n), bytes_of(n)));
  }
  const auto places = list_places(dir.path("tier"));
  ASSERT_TRUE(places);
  ASSERT_EQ(places->size(), 1);
  EXPECT_EQ(places->front().about, R"({"after":"x"})");
  EXPECT_EQ(places->front().bytes, bytes_below(dir.path("tier")));
  auto check = verify_place(places->front().path);
  ASSERT_TRUE(check);
  EXPECT_EQ(check->entries, 5);
  EXPECT_EQ(check->damaged, 0);
  const fs::path path = segments_below(dir.path("tier")).front();
  std::string text = contents(path);
  text.back() = static_cast<char>(text.back() ^ 1);
  replace(path, text);
  check = verify_place(places->front().path);
  EXPECT_EQ(check->entries, 4);
  EXPECT_EQ(check->damaged, 1);
  std::vector<std::uint64_t> told;
  check = verify_place(places->front().path, [&](std::uint64_t bytes) {
    told.push_back(bytes);
    return false;
  });
  EXPECT_EQ(told, std::vector<std::uint64_t>{0});
  EXPECT_EQ(check->entries + check->damaged, 0) << "it was ended";
  EXPECT_FALSE(remove_place(dir.path("tier"))) << "not a place";
  ASSERT_TRUE(remove_place(places->front().path));
  EXPECT_TRUE(list_places(dir.path("tier"))->empty());
}

TEST(SegmentFolder, WhatThisUserMayNotReadIsNotDamaged) {
  const TempDir dir;
  for (std::uint64_t n = 0; n < 2; ++n) {
    const auto store = open_segments(options_in(dir));
    ASSERT_TRUE(store->append(identity_of(n), bytes_of(n), Readers::everybody()));
  }
  const std::string place = list_places(dir.path("tier"))->front().path;
  fs::permissions(segments_below(dir.path("tier")).front(), fs::perms::none);
  for (const std::string& folder : {dir.path(""), dir.path("tier"), place})
    fs::permissions(folder, fs::perms::all);
  const uid_t self = ::geteuid();
  if (self == 0) ASSERT_EQ(::seteuid(65534), 0);  // root may read everything
  const auto check = verify_place(place);
  if (self == 0) ASSERT_EQ(::seteuid(0), 0);
  ASSERT_TRUE(check);
  EXPECT_EQ(check->damaged, 0);
  EXPECT_EQ(check->others, 1);
  EXPECT_EQ(check->entries, 1);
}

TEST(SegmentFormat, BytesOfTheDocument) {
  const SegmentHeader header = make_segment_header(kPlace, 4, 0x1122334455667788);
  EXPECT_TRUE(segment_header_valid(header));
  const std::string_view text(reinterpret_cast<const char*>(&header), sizeof header);
  EXPECT_EQ(text.substr(0, 8), "CARYASEG");
  EXPECT_EQ(segment_data_offset(4), 4096);
  EXPECT_EQ(segment_row_offset(3), 64 + 3 * 48);
  const auto payload = std::as_bytes(std::span(std::string_view("hello")));
  const SegmentRow row =
      make_segment_row({1, 2}, 4096, 5, segment_payload_hash(payload, {1, 2}, header.salt), header.salt, 0);
  EXPECT_TRUE(segment_row_valid(row, header, 0));
  EXPECT_FALSE(segment_row_valid(row, header, 1)) << "rows do not move";
}

}  // namespace
}  // namespace carya::io
