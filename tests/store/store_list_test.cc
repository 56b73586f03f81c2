#include "io/store/store_list.h"

#include "tests/store/store_fixture.h"

namespace carya::io {
namespace {

TEST(StoreList, ListsChecksAndRemovesStoresOnly) {
  TempDir dir;
  StoreIdentity other = kTestIdentity;
  other.kind = 77;
  const std::string first = store_path(dir.path(), kTestIdentity);
  const std::string second = store_path(dir.path(), other);
  EXPECT_EQ(first, dir.path("index-0123456789abcdeffedcba9876543210.store"));
  EXPECT_EQ(second, dir.path("kind77-0123456789abcdeffedcba9876543210.store"));
  {
    const auto store = open_store(first);
    put(*store, 1, 0);
    put(*store, 1, 1);
    EXPECT_TRUE(ok(store->flush()));
    ASSERT_TRUE(RecordStore::open(second, other).has_value());
  }
  dir.write("note.txt", "x");
  dir.write("empty.store", "");
  dir.write("sub/x.store", slurp(first));
  std::string broken = slurp(first);
  broken[20] ^= 1;
  dir.write("z.store", broken);

  const auto stores = list_stores(dir.path());
  ASSERT_TRUE(stores.has_value());
  ASSERT_EQ(stores->size(), 3u);
  EXPECT_EQ((*stores)[0].path, first);
  EXPECT_EQ((*stores)[0].identity, kTestIdentity);
  EXPECT_EQ((*stores)[0].file_bytes, std::filesystem::file_size(first));
  EXPECT_TRUE((*stores)[0].header_valid);
  EXPECT_EQ((*stores)[1].identity, other);
  EXPECT_EQ((*stores)[2].path, dir.path("z.store"));
  EXPECT_FALSE((*stores)[2].header_valid);

  const auto check = verify_store(first);
  ASSERT_TRUE(check.has_value());
  EXPECT_EQ(check->entries_valid, 2u);
  EXPECT_EQ(check->records, 1u);
  EXPECT_EQ(check->damaged_count, 0u);
  EXPECT_EQ(check->identity, kTestIdentity);
  EXPECT_EQ(verify_store(dir.path("z.store")).error().code, Code::kCorrupt);
  EXPECT_EQ(verify_store(dir.path("none.store")).error().code, Code::kNotFound);

  EXPECT_EQ(remove_store(dir.path("note.txt")).error().code, Code::kInvalidArgument);
  EXPECT_TRUE(std::filesystem::exists(dir.path("note.txt")));
  EXPECT_EQ(remove_store(dir.path("none.store")).error().code, Code::kNotFound);
  EXPECT_TRUE(ok(remove_store(dir.path("z.store"))));
  EXPECT_TRUE(ok(remove_store(first)));
  EXPECT_EQ(list_stores(dir.path())->size(), 1u);
}

TEST(StoreList, AMissingFolderIsAnError) {
  TempDir dir;
  EXPECT_EQ(list_stores(dir.path("none")).error().code, Code::kNotFound);
}

TEST(StoreList, VerifyCountsDamageAndTheTail) {
  TempDir dir;
  const std::string path = dir.path("a.store");
  {
    const auto store = open_store(path);
    for (std::uint64_t i = 0; i < 5; ++i) put(*store, i, 0);
    EXPECT_TRUE(ok(store->flush()));
  }
  std::string bytes = slurp(path);
  bytes[sizeof(StoreHeader) + 30] ^= 1;
  spill(path, bytes + "torn");
  const auto check = verify_store(path);
  ASSERT_TRUE(check.has_value());
  EXPECT_EQ(check->entries_valid, 4u);
  EXPECT_EQ(check->damaged_count, 2u);
  EXPECT_EQ(check->damaged_bytes, entry_span(payload_of(0, 0).size()) + 4);
}

}  // namespace
}  // namespace carya::io
