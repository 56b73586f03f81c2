#include <sys/stat.h>
#include <unistd.h>

#include <thread>

#include "tests/store/store_fixture.h"

namespace carya::io {
namespace {

TEST(RecordStore, KeepsTheNewestEntryAcrossReopening) {
  TempDir dir;
  const std::string path = dir.path("deep/folder/a.store");
  {
    const auto store = open_store(path);
    EXPECT_TRUE(put(*store, 3, 0));
    EXPECT_TRUE(put(*store, 99, 0));
    EXPECT_TRUE(put(*store, 3, 1));
    EXPECT_EQ(version_of(*store, 3), -1) << "not flushed yet";
    EXPECT_GT(store->stats().pending_bytes, 0u);
    EXPECT_TRUE(ok(store->flush()));
    EXPECT_EQ(store->stats().pending_bytes, 0u);
    EXPECT_EQ(version_of(*store, 3), 1);
    EXPECT_EQ(version_of(*store, 99), 0);
    EXPECT_EQ(version_of(*store, 4), -1);
  }
  const auto store = open_store(path);
  EXPECT_EQ(version_of(*store, 3), 1);
  EXPECT_EQ(version_of(*store, 99), 0);
  const StoreStats stats = store->stats();
  EXPECT_EQ(stats.entries, 2u);
  EXPECT_EQ(stats.live_bytes, payload_of(3, 1).size() + payload_of(99, 0).size());
  EXPECT_EQ(stats.file_bytes, std::filesystem::file_size(path));
  EXPECT_EQ(stats.garbage_bytes, entry_span(payload_of(3, 0).size()));
  EXPECT_EQ(stats.damaged_count, 0u);
  EXPECT_EQ(stats.read_only_reason, "");
}

TEST(RecordStore, DropsWhatWasNotFlushed) {
  TempDir dir;
  put(*open_store(dir.path("a.store")), 1, 0);
  EXPECT_EQ(version_of(*open_store(dir.path("a.store")), 1), -1);
}

TEST(RecordStore, TellsTheSizeAndLeavesASmallBufferAlone) {
  TempDir dir;
  const auto store = open_store(dir.path("a.store"));
  put(*store, 1, 0);
  store->append(2, {});
  EXPECT_TRUE(ok(store->flush()));
  const std::size_t bytes = payload_of(1, 0).size();
  EXPECT_EQ(store->bytes_of(1), bytes);
  EXPECT_EQ(store->bytes_of(0), std::nullopt);
  EXPECT_EQ(store->bytes_of(100), std::nullopt);
  EXPECT_EQ(store->bytes_of(UINT64_MAX), std::nullopt);
  Bytes small(bytes - 1, std::byte{7});
  EXPECT_EQ(store->get(1, small), bytes);
  EXPECT_EQ(small, Bytes(bytes - 1, std::byte{7}));
  EXPECT_EQ(store->get(2, {}), 0u) << "an entry may be empty";
  Bytes exact(bytes);
  EXPECT_EQ(store->get(1, exact), bytes);
  EXPECT_EQ(exact, payload_of(1, 0));
}

TEST(RecordStore, RefusesWhatIsOutOfRangeOrTooMuchAndCountsIt) {
  TempDir dir;
  const auto store = open_store(dir.path("a.store"), {.entry_bytes_max = 300, .pending_bytes_max = 1024});
  EXPECT_FALSE(put(*store, 100, 0));
  EXPECT_FALSE(put(*store, UINT64_MAX, 0));
  EXPECT_FALSE(store->append(1, Bytes(301)));
  EXPECT_TRUE(store->append(1, Bytes(300)));
  EXPECT_TRUE(store->append(2, Bytes(300)));
  EXPECT_TRUE(store->append(3, Bytes(300)));
  EXPECT_FALSE(store->append(4, Bytes(300))) << "the buffer is full";
  EXPECT_EQ(store->stats().refused_count, 4u);
  EXPECT_TRUE(ok(store->flush()));
  EXPECT_TRUE(store->append(4, Bytes(300)));
  EXPECT_EQ(store->bytes_of(3), 300u);
}

TEST(RecordStore, LimitsAreChecked) {
  TempDir dir;
  StoreIdentity identity = kTestIdentity;
  identity.record_count = kStoreRecordsMax + 1;
  EXPECT_EQ(RecordStore::open(dir.path("a.store"), identity).error().code, Code::kInvalidArgument);
  EXPECT_EQ(
      RecordStore::open(dir.path("a.store"), kTestIdentity, {.bytes_max = kStoreBytesMax + 1}).error().code,
      Code::kInvalidArgument);
  EXPECT_EQ(
      RecordStore::open(dir.path("a.store"), kTestIdentity, {.entry_bytes_max = kStoreEntryBytesMax + 1})
          .error()
          .code,
      Code::kInvalidArgument);
  EXPECT_FALSE(std::filesystem::exists(dir.path("a.store")));
}

TEST(RecordStore, AnotherIdentityIsReplacedOrRefused) {
  TempDir dir;
  const std::string path = dir.path("a.store");
  const auto first = open_store(path);
  put(*first, 1, 0);
  EXPECT_TRUE(ok(first->flush()));
  for (int field = 0; field < 3; ++field) {
    StoreIdentity other = kTestIdentity;
    if (field == 0) other.dataset.low ^= 1;
    if (field == 1) other.kind = 2;
    if (field == 2) other.record_count = 101;
    const auto refused = RecordStore::open(path, other, {.replace_mismatch = false});
    ASSERT_FALSE(refused.has_value());
    EXPECT_EQ(refused.error().code, Code::kInvalidArgument) << refused.error().message;
  }
  StoreIdentity other = kTestIdentity;
  other.dataset.high ^= 1;
  const auto second = RecordStore::open(path, other);
  ASSERT_TRUE(second.has_value());
  EXPECT_EQ(get(**second, 1), std::nullopt);
  EXPECT_EQ((*second)->stats().read_only_reason, "");
  EXPECT_EQ(version_of(*first, 1), 0) << "the old file lives as long as it is open";
  EXPECT_FALSE(std::filesystem::exists(path + ".new"));
}

TEST(RecordStore, ABrokenHeaderIsReplacedOrRefused) {
  TempDir dir;
  const std::string path = dir.path("a.store");
  for (const std::string& content : {std::string(), std::string("CARYASTO"), noise(500, 1)}) {
    spill(path, content);
    EXPECT_EQ(RecordStore::open(path, kTestIdentity, {.replace_mismatch = false}).error().code,
              Code::kCorrupt);
    EXPECT_EQ(slurp(path), content);
    const auto store = open_store(path);
    EXPECT_TRUE(put(*store, 1, 0));
    EXPECT_TRUE(ok(store->flush()));
    EXPECT_EQ(version_of(*open_store(path), 1), 0);
  }
}

TEST(RecordStore, AForeignFileUnderAForeignNameIsLeftAlone) {
  TempDir dir;
  const std::string path = dir.write("thesis.txt", noise(5000, 1));
  const auto store = open_store(path);
  EXPECT_NE(store->stats().read_only_reason, "");
  EXPECT_FALSE(put(*store, 1, 0));
  EXPECT_EQ(slurp(path), noise(5000, 1));
}

TEST(RecordStore, OthersSeeWhatWasAppendedAfterRefresh) {
  TempDir dir;
  const auto a = open_store(dir.path("a.store"));
  const auto b = open_store(dir.path("a.store"));
  put(*a, 1, 0);
  EXPECT_TRUE(ok(a->flush()));
  EXPECT_EQ(version_of(*b, 1), -1);
  EXPECT_TRUE(ok(b->refresh()));
  EXPECT_EQ(version_of(*b, 1), 0);
  put(*b, 1, 1);
  EXPECT_TRUE(ok(b->flush()));
  put(*a, 2, 0);
  EXPECT_TRUE(ok(a->flush()));
  EXPECT_EQ(version_of(*a, 1), 1) << "a flush reads what others wrote";
}

TEST(RecordStore, CompactionKeepsTheLiveEntriesAndOpenReadersGoOn) {
  TempDir dir;
  const std::string path = dir.path("a.store");
  const auto writer = open_store(path);
  const auto reader = open_store(path);
  for (std::uint32_t version = 0; version < 3; ++version) {
    for (std::uint64_t record = 0; record < 50; ++record) put(*writer, record, version);
    EXPECT_TRUE(ok(writer->flush()));
    if (version == 0) {
      const auto early = writer->compact();
      ASSERT_TRUE(early.has_value());
      EXPECT_FALSE(*early) << "nothing to gain";
    }
  }
  ::chmod(path.c_str(), 0600);
  EXPECT_TRUE(ok(reader->refresh()));
  const std::uint64_t before = std::filesystem::file_size(path);
  const auto done = writer->compact();
  ASSERT_TRUE(done.has_value()) << done.error().message;
  EXPECT_TRUE(*done);
  EXPECT_LT(std::filesystem::file_size(path), before / 2);
  EXPECT_EQ(std::filesystem::status(path).permissions(), std::filesystem::perms(0600));
  EXPECT_EQ(writer->stats().garbage_bytes, 0u);
  for (std::uint64_t record = 0; record < 50; ++record) {
    EXPECT_EQ(version_of(*writer, record), 2);
    EXPECT_EQ(version_of(*reader, record), 2) << "from the old file";
  }
  put(*reader, 60, 5);
  EXPECT_TRUE(ok(reader->flush())) << "goes to the new file";
  EXPECT_TRUE(ok(writer->refresh()));
  EXPECT_EQ(version_of(*writer, 60), 5);
  EXPECT_EQ(version_of(*reader, 7), 2);
  EXPECT_EQ(version_of(*open_store(path), 60), 5);
  const auto check = writer->verify();
  ASSERT_TRUE(check.has_value());
  EXPECT_EQ(check->records, 51u);
  EXPECT_EQ(check->entries_valid, 51u);
  EXPECT_EQ(check->damaged_count, 0u);
}

TEST(RecordStore, ADeletedFileIsBegunAnewAtTheNextFlush) {
  TempDir dir;
  const std::string path = dir.path("a.store");
  const auto store = open_store(path);
  put(*store, 1, 0);
  EXPECT_TRUE(ok(store->flush()));
  std::filesystem::remove(path);
  EXPECT_TRUE(ok(store->refresh()));
  EXPECT_EQ(version_of(*store, 1), 0);
  put(*store, 2, 0);
  EXPECT_TRUE(ok(store->flush()));
  EXPECT_EQ(version_of(*open_store(path), 2), 0);
}

TEST(RecordStore, ManyThreadsReadWhileOneWritesAndCompacts) {
  TempDir dir;
  const auto store = open_store(dir.path("a.store"));
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t) {
    threads.emplace_back([&, t] {
      std::uint64_t found = 0;
      for (std::uint64_t i = t; !stop || found == 0; ++i) found += version_of(*store, i % 100) >= 0;
    });
  }
  threads.emplace_back([&] {
    for (std::uint32_t i = 0; !stop; ++i) put(*store, i % 100, 1000 + i % 50);
  });
  for (std::uint32_t round = 0; round < 60; ++round) {
    put(*store, round, round);
    EXPECT_TRUE(ok(store->flush()));
    EXPECT_TRUE(ok(store->refresh()));
    if (round % 10 == 9) {
      EXPECT_TRUE(store->compact(true).has_value());
    }
    static_cast<void>(store->stats());
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(store->stats().get_failures, 0u);
}

}  // namespace
}  // namespace carya::io
