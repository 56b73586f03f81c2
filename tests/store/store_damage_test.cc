// Whatever happens to a store's bytes: never a wrong record, and every record before the damage is found.
#include <array>

#include "io/store/store_list.h"
#include "tests/store/store_fixture.h"

namespace carya::io {
namespace {

/// Record r of a small store: r = 0..4 in version 0, then 0..2 again in version 1.
struct Small {
  TempDir dir;
  std::string path = dir.path("a.store");
  std::vector<std::uint64_t> ends;  // behind each entry
  std::string bytes;

  Small() {
    const auto store = open_store(path);
    std::uint64_t end = sizeof(StoreHeader);
    for (int i = 0; i < 8; ++i) {
      const Bytes payload = payload_of(record(i), version(i), 40);
      EXPECT_TRUE(store->append(record(i), payload));
      end += entry_span(payload.size());
      ends.push_back(end);
    }
    EXPECT_TRUE(ok(store->flush()));
    bytes = slurp(path);
    EXPECT_EQ(bytes.size(), end);
  }
  static std::uint64_t record(int i) { return static_cast<std::uint64_t>(i % 5); }
  static std::uint32_t version(int i) { return static_cast<std::uint32_t>(i / 5); }

  /// Newest version of each record among the entries for which `whole` holds.
  template <typename Whole>
  std::array<int, 5> expected(Whole whole) const {
    std::array<int, 5> newest{-1, -1, -1, -1, -1};
    for (int i = 0; i < 8; ++i) {
      if (whole(i)) newest[record(i)] = static_cast<int>(version(i));
    }
    return newest;
  }
};

std::array<int, 5> versions(const RecordStore& store) {
  std::array<int, 5> found;
  for (std::uint64_t r = 0; r < 5; ++r) found[r] = version_of(store, r, 40);
  for (std::uint64_t r = 5; r < 100; ++r) EXPECT_EQ(get(store, r), std::nullopt);
  return found;
}

// The scan at opening has seen good bytes; what is read later is checked again.
TEST(StoreDamage, ABitThatFlipsAfterOpeningIsSeenByTheRead) {
  Small small;
  const auto store = open_store(small.path);
  const std::array<int, 5> all{1, 1, 1, 0, 0};
  ASSERT_EQ(versions(*store), all);
  std::string damaged = small.bytes;
  std::uint64_t failures = 0;
  for (const int i : {3, 7}) {  // the newest entries of records 3 and 2
    const std::uint64_t begin = small.ends[static_cast<std::size_t>(i) - 1] + sizeof(EntryHead);
    const std::uint64_t count = payload_of(Small::record(i), Small::version(i), 40).size();
    for (std::uint64_t at = begin; at < begin + count; ++at, ++failures) {
      damaged[at] = static_cast<char>(damaged[at] ^ 4);
      std::fstream(small.path, std::ios::binary | std::ios::in | std::ios::out)
          .write(damaged.data(), static_cast<std::streamsize>(damaged.size()));  // the same file, in place
      EXPECT_EQ(get(*store, Small::record(i)), std::nullopt) << "byte " << at - begin;
      damaged[at] = small.bytes[at];
    }
  }
  EXPECT_EQ(store->stats().get_failures, failures);
}

TEST(StoreDamage, TruncatedAtEveryByteKeepsTheWholeEntriesAndGoesOn) {
  Small small;
  for (std::size_t bytes = 0; bytes <= small.bytes.size(); ++bytes) {
    SCOPED_TRACE(bytes);
    spill(small.path, std::string_view(small.bytes).substr(0, bytes));
    const auto whole = [&](int i) {
      const std::uint64_t begin = i == 0 ? sizeof(StoreHeader) : small.ends[i - 1];
      return begin + sizeof(EntryHead) + payload_of(Small::record(i), Small::version(i), 40).size() <= bytes;
    };
    auto expected = small.expected(whole);
    const auto store = open_store(small.path);
    EXPECT_EQ(versions(*store), expected);
    // The next writer steps over the tear, and so does everybody after it.
    EXPECT_TRUE(store->append(4, payload_of(4, 9, 40)));
    EXPECT_TRUE(ok(store->flush()));
    expected[4] = 9;
    EXPECT_EQ(versions(*store), expected);
    EXPECT_EQ(versions(*open_store(small.path)), expected);
  }
}

TEST(StoreDamage, EveryFlippedByteCostsItsOwnEntryOnly) {
  Small small;
  for (std::size_t at = 0; at < small.bytes.size(); ++at) {
    SCOPED_TRACE(at);
    for (const int flip : {0x01, 0x80, 0xff}) {
      std::string bytes = small.bytes;
      bytes[at] = static_cast<char>(bytes[at] ^ flip);
      spill(small.path, bytes);
      bool padding = false;
      const auto whole = [&](int i) {
        if (at < sizeof(StoreHeader)) return false;  // the salt and the identity are gone: a new store
        const std::uint64_t begin = i == 0 ? sizeof(StoreHeader) : small.ends[i - 1];
        const std::uint64_t end =
            begin + sizeof(EntryHead) + payload_of(Small::record(i), Small::version(i), 40).size();
        padding |= at >= end && at < small.ends[i];
        return at < begin || at >= end;
      };
      const auto expected = small.expected(whole);
      const auto store = open_store(small.path);
      EXPECT_EQ(versions(*store), expected);
      EXPECT_EQ(store->stats().get_failures, 0u);
      const auto check = store->verify();
      ASSERT_TRUE(check.has_value());
      EXPECT_EQ(check->damaged_count, at < sizeof(StoreHeader) || padding ? 0u : 1u);
    }
  }
}

TEST(StoreDamage, DamageAfterTheScanIsFoundByGet) {
  Small small;
  const auto store = open_store(small.path);
  std::string bytes = small.bytes;
  for (std::size_t at = sizeof(StoreHeader); at < bytes.size(); ++at)
    bytes[at] = static_cast<char>(bytes[at] ^ 0x10);
  spill(small.path, bytes);
  EXPECT_EQ(versions(*store), (std::array<int, 5>{-1, -1, -1, -1, -1}));
  EXPECT_EQ(store->stats().get_failures, 5u);
  spill(small.path, "");
  EXPECT_EQ(versions(*store), (std::array<int, 5>{-1, -1, -1, -1, -1}));
  EXPECT_EQ(store->refresh().error().code, Code::kIo);
}

TEST(StoreDamage, EntriesOfAnotherFileDoNotCount) {
  Small small;
  Small other;
  spill(small.path, small.bytes.substr(0, sizeof(StoreHeader)) + other.bytes.substr(sizeof(StoreHeader)));
  EXPECT_EQ(versions(*open_store(small.path)), (std::array<int, 5>{-1, -1, -1, -1, -1}));
}

TEST(StoreDamage, APayloadThatLooksLikeAnEntryIsNone) {
  Small small;
  Small other;
  std::string bytes;
  {
    const auto store = open_store(small.path);
    const auto inner = std::as_bytes(std::span(other.bytes)).subspan(sizeof(StoreHeader));
    EXPECT_TRUE(store->append(50, inner));
    EXPECT_TRUE(ok(store->flush()));
    EXPECT_EQ(get(*store, 50), Bytes(inner.begin(), inner.end()));
    bytes = slurp(small.path);
  }
  bytes[small.bytes.size() + 16] = static_cast<char>(bytes[small.bytes.size() + 16] ^ 1);  // its hash
  spill(small.path, bytes);
  const auto store = open_store(small.path);
  EXPECT_EQ(get(*store, 50), std::nullopt);
  EXPECT_EQ(versions(*store), small.expected([](int) { return true; }));
}

TEST(StoreDamage, AFileMadeToWasteTimeIsGivenUpAndReplaced) {
  TempDir dir;
  const std::string path = dir.path("a.store");
  {
    open_store(path);
  }
  std::string bytes = slurp(path);
  // Heads everywhere whose lengths reach to the end: without a limit 40,000 hashes of a megabyte each.
  constexpr std::size_t kBytes = 1 << 20;
  for (std::size_t at = bytes.size(); at + sizeof(EntryHead) < kBytes; at += sizeof(EntryHead)) {
    const EntryHead head{.mark = kEntryMark,
                         .bytes = static_cast<std::uint32_t>(kBytes - at - sizeof(EntryHead)),
                         .record = 1,
                         .hash = at};
    bytes.append(reinterpret_cast<const char*>(&head), sizeof head);
  }
  bytes.resize(kBytes);
  spill(path, bytes);
  const auto refused = RecordStore::open(path, kTestIdentity, {.replace_mismatch = false});
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, Code::kCorrupt) << refused.error().message;
  const auto store = open_store(path);
  EXPECT_TRUE(put(*store, 1, 1)) << store->stats().read_only_reason;
  EXPECT_TRUE(ok(store->flush()));
  EXPECT_EQ(version_of(*open_store(path), 1), 1);
  EXPECT_LT(std::filesystem::file_size(path), 1000u);
}

TEST(StoreDamage, CompactionLeavesDamageBehind) {
  Small small;
  std::string bytes = small.bytes;
  bytes[small.ends[0] - 9] ^= 1;
  spill(small.path, bytes + noise(333, 5));
  const auto store = open_store(small.path);
  const auto before = versions(*store);
  ASSERT_TRUE(store->compact(true).has_value());
  EXPECT_EQ(versions(*store), before);
  const auto check = verify_store(small.path);
  ASSERT_TRUE(check.has_value());
  EXPECT_EQ(check->damaged_count, 0u);
  EXPECT_EQ(check->entries_valid, 5u);
}

}  // namespace
}  // namespace carya::io
