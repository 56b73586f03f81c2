#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>
#include <new>

#include "io/store/store_file.h"
#include "tests/store/store_fixture.h"

namespace {
thread_local std::size_t allocation_count = 0;
}

// GCC inlines the two and then misses that both are ours.
#pragma GCC diagnostic ignored "-Wmismatched-new-delete"

#ifndef CARYA_SANITIZED
// Counts the allocations of this program's thread.
void* operator new(std::size_t bytes) {
  ++allocation_count;
  if (void* memory = std::malloc(bytes == 0 ? 1 : bytes)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
#endif

namespace carya::io {
namespace {

int status_of_child(const std::function<int()>& work) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(work());
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

TEST(StoreTrouble, GetAndAppendAllocateNothing) {
#ifdef CARYA_SANITIZED
  GTEST_SKIP() << "the heap belongs to a sanitizer";
#endif
  TempDir dir;
  const auto store = open_store(dir.path("a.store"));
  const Bytes payload = payload_of(1, 0);
  Bytes out(4096);
  store->append(1, payload);
  EXPECT_TRUE(ok(store->flush()));
  const std::size_t before = allocation_count;
  bool right = true;
  for (std::uint64_t i = 0; i < 100; ++i) {
    right &= store->append(i, payload);
    right &=
        store->get(1, out) == payload.size() && !store->get(2, out) && store->bytes_of(1) == payload.size();
  }
  EXPECT_EQ(allocation_count, before);
  EXPECT_TRUE(right);
}

TEST(StoreTrouble, TheQuotaRefusesAndCompactionMakesRoom) {
  TempDir dir;
  const auto store = open_store(dir.path("a.store"), {.bytes_max = 1000});
  const Bytes payload(200);  // 224 with its head
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(store->append(static_cast<std::uint64_t>(i % 2), payload));
  EXPECT_FALSE(store->append(5, payload)) << "960 are taken";
  EXPECT_TRUE(ok(store->flush()));
  StoreStats stats = store->stats();
  EXPECT_TRUE(stats.quota_reached);
  EXPECT_EQ(stats.refused_count, 1u);
  EXPECT_EQ(stats.read_only_reason, "");
  EXPECT_LE(std::filesystem::file_size(store->path()), 1000u);
  ASSERT_TRUE(store->compact(true).has_value());
  EXPECT_TRUE(store->append(5, payload));
  EXPECT_TRUE(ok(store->flush()));
  EXPECT_EQ(store->bytes_of(5), 200u);
}

TEST(StoreTrouble, TheQuotaHoldsForWritersThatDoNotKnowOfEachOther) {
  TempDir dir;
  const auto a = open_store(dir.path("a.store"), {.bytes_max = 1000});
  const auto b = open_store(dir.path("a.store"), {.bytes_max = 1000});
  for (std::uint64_t i = 0; i < 3; ++i)
    EXPECT_TRUE(a->append(i, Bytes(200)) && b->append(10 + i, Bytes(200)));
  EXPECT_TRUE(ok(a->flush()));
  EXPECT_EQ(b->flush().error().code, Code::kExhausted);
  EXPECT_EQ(b->stats().refused_count, 2u);
  EXPECT_TRUE(b->stats().quota_reached);
  EXPECT_EQ(b->bytes_of(10), 200u) << "what fits is kept";
  EXPECT_EQ(b->bytes_of(11), std::nullopt);
  EXPECT_LE(std::filesystem::file_size(b->path()), 1000u);
}

/// Fault loop: the file may have one more byte each time, until all is well. SIGXFSZ would end the test.
TEST(StoreTrouble, EveryShortWriteKeepsTheWholeEntries) {
  TempDir dir;
  rlimit unlimited;
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &unlimited), 0);
  std::uint64_t end = sizeof(StoreHeader);
  for (std::uint64_t i = 0; i < 4; ++i) end += entry_span(payload_of(i, 0, 40).size());
  for (std::uint64_t allowed = 0; allowed <= end; ++allowed) {
    SCOPED_TRACE(allowed);
    const std::string path = dir.path(std::to_string(allowed) + ".store");
    rlimit limit{.rlim_cur = allowed, .rlim_max = unlimited.rlim_max};
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
    const auto store = open_store(path);
    for (std::uint64_t i = 0; i < 4; ++i) store->append(i, payload_of(i, 0, 40));
    const Status flushed = store->flush();
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &unlimited), 0);
    const std::string reason = store->stats().read_only_reason;
    EXPECT_EQ(reason.empty(), allowed == end) << reason;
    if (allowed >= sizeof(StoreHeader)) {
      EXPECT_EQ(flushed.has_value(), allowed == end);
    }
    if (allowed < sizeof(StoreHeader)) {
      EXPECT_FALSE(std::filesystem::exists(path));
    }
    EXPECT_EQ(store->append(9, Bytes(1)), allowed == end);
    const auto again = open_store(path);
    std::uint64_t entry_end = sizeof(StoreHeader);
    std::uint64_t kept = 0;
    for (std::uint64_t i = 0; i < 4; ++i) {
      entry_end += entry_span(payload_of(i, 0, 40).size());
      const int expected = entry_end <= allowed ? 0 : -1;
      kept += expected == 0;
      EXPECT_EQ(version_of(*store, i, 40), expected);
      // A reopened store may find one more: whole but for its padding.
      EXPECT_GE(version_of(*again, i, 40), expected);
    }
    EXPECT_EQ(store->stats().entries, kept);
    EXPECT_TRUE(again->append(50, payload_of(50, 1, 40)));
    EXPECT_TRUE(ok(again->flush()));
    EXPECT_EQ(version_of(*open_store(path), 50, 40), 1);
    EXPECT_FALSE(std::filesystem::exists(path + ".new"));
  }
  std::size_t names = 0;
  for (const auto& entry : std::filesystem::directory_iterator(dir.path()))
    names += entry.path().extension() != ".store";
  EXPECT_EQ(names, 0u) << "temporary files are left";
}

TEST(StoreTrouble, AFullFileSystemMakesItReadOnly) {
  TempDir dir;
  const int result = status_of_child([&] {
    const std::string map = "0 " + std::to_string(::geteuid()) + " 1";
    if (::unshare(CLONE_NEWNS) != 0) {
      if (::unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return 77;
      std::ofstream("/proc/self/uid_map") << map;
    }
    if (::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return 77;
    if (::mount("tmpfs", dir.path().c_str(), "tmpfs", 0, "size=64k") != 0) return 77;
    const auto store = open_store(dir.path("a.store"));
    for (std::uint64_t i = 0; i < 40; ++i) store->append(i, payload_of(i, 0, 8000));
    const Status flushed = store->flush();
    if (flushed || flushed.error().sys_errno != ENOSPC) return 1;
    if (store->stats().read_only_reason.empty() || put(*store, 1, 1)) return 2;
    std::uint64_t kept = 0;
    Bytes out(8000);
    for (std::uint64_t i = 0; i < 40; ++i) kept += store->get(i, out).has_value();
    if (kept == 0 || kept == 40 || kept + store->stats().refused_count != 41) return 3;
    if (store->compact(true).has_value()) return 4;
    const auto again = open_store(dir.path("a.store"));
    if (again->stats().entries != kept) return 5;
    return again->compact(true).has_value() || std::filesystem::exists(dir.path("a.store.new")) ? 6 : 0;
  });
  if (result == 77)
    GTEST_SKIP() << "no private tmpfs here; EveryShortWriteKeepsTheWholeEntries covers the rest";
  EXPECT_EQ(result, 0);
}

TEST(StoreTrouble, AnUnwritablePlaceIsAnEmptyStoreWithAReason) {
  TempDir dir;
  dir.write("file", "x");
  std::filesystem::create_directory(dir.path("folder.store"));
  ASSERT_EQ(::mkfifo(dir.path("fifo.store").c_str(), 0600), 0);
  for (const char* name : {"file/a.store", "folder.store", "fifo.store"}) {
    SCOPED_TRACE(name);
    const auto store = open_store(dir.path(name));
    EXPECT_NE(store->stats().read_only_reason, "");
    EXPECT_FALSE(put(*store, 1, 0));
    EXPECT_EQ(store->stats().refused_count, 1u);
    EXPECT_EQ(get(*store, 1), std::nullopt);
    EXPECT_EQ(store->bytes_of(1), std::nullopt);
    EXPECT_TRUE(ok(store->flush()));
    EXPECT_TRUE(ok(store->refresh()));
    EXPECT_FALSE(store->compact(true).has_value());
    EXPECT_FALSE(store->verify().has_value());
  }
}

TEST(StoreTrouble, AReadOnlyFileIsReadAndFollowed) {
  TempDir dir;
  const std::string path = dir.path("a.store");
  const auto writer = open_store(path);
  put(*writer, 1, 0);
  EXPECT_TRUE(ok(writer->flush()));
  ::chmod(path.c_str(), 0444);
  ::chmod(dir.path().c_str(), 0555);
  EXPECT_EQ(status_of_child([&] {
              if (::geteuid() == 0 && ::setresuid(65534, 65534, 65534) != 0) return 1;
              const auto store = open_store(path);
              if (store->stats().read_only_reason.find("Permission denied") == std::string::npos) return 2;
              if (version_of(*store, 1) != 0 || put(*store, 1, 1) || store->compact(true)) return 3;
              return store->refresh() ? 0 : 4;
            }),
            0);
  ::chmod(dir.path().c_str(), 0755);
  const auto reader = open_store(path, {.read_only = true});
  EXPECT_EQ(version_of(*reader, 1), 0);
  EXPECT_FALSE(put(*reader, 1, 1));
  put(*writer, 1, 2);
  EXPECT_TRUE(ok(writer->flush()));
  EXPECT_TRUE(ok(reader->refresh()));
  EXPECT_EQ(version_of(*reader, 1), 2);
  ASSERT_TRUE(writer->compact(true).has_value());
  put(*writer, 1, 3);
  EXPECT_TRUE(ok(writer->flush()));
  EXPECT_TRUE(ok(reader->refresh()));
  EXPECT_EQ(version_of(*reader, 1), 3);
}

TEST(StoreTrouble, AHeldLockTimesOutAndKeepsTheEntries) {
  TempDir dir;
  const auto store = open_store(dir.path("a.store"), {.lock_wait_ms = 5});
  put(*store, 1, 0);
  {
    const UniqueFd other(::open(store->path().c_str(), O_RDWR));
    const auto lock = FileLock::acquire(other.get(), 0, store->path());
    ASSERT_TRUE(lock.has_value());
    EXPECT_EQ(store->flush().error().code, Code::kTimeout);
    EXPECT_TRUE(put(*store, 2, 0));
    EXPECT_EQ(store->flush().error().code, Code::kTimeout);
    EXPECT_EQ(store->compact(true).error().code, Code::kTimeout);
  }
  EXPECT_TRUE(ok(store->flush()));
  EXPECT_EQ(version_of(*store, 1), 0);
  EXPECT_EQ(version_of(*store, 2), 0);
  EXPECT_EQ(store->stats().read_only_reason, "");
}

}  // namespace
}  // namespace carya::io
