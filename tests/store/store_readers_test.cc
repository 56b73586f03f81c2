// Who may read a store's file: never more than may read all that it has entries of, through compactions and processes.
#include <sys/stat.h>
#include <unistd.h>

#include "tests/store/store_fixture.h"

namespace carya::io {
namespace {

class StoreReaders : public ::testing::Test {
 protected:
  void SetUp() override { before_ = ::umask(022); }
  void TearDown() override { ::umask(before_); }
  unsigned mode() const { return static_cast<unsigned>(std::filesystem::status(path_).permissions()); }

  const TempDir dir_;
  const std::string path_ = dir_.path("a.store");

 private:
  mode_t before_ = 0;
};

TEST_F(StoreReaders, AFileIsMadeForThem) {
  open_store(path_);
  EXPECT_EQ(mode(), 0644u);
  std::filesystem::remove(path_);
  open_store(path_, {.readers = {}});
  EXPECT_EQ(mode(), 0600u);
}

TEST_F(StoreReaders, OneThatIsThereIsClosedAtTheOpening) {
  put(*open_store(path_), 1, 0);
  const auto store = open_store(path_, {.readers = {}});
  EXPECT_EQ(mode(), 0600u);
  open_store(path_, {.readers = Readers::everybody()});
  EXPECT_EQ(mode(), 0600u) << "nobody gets a right";
}

TEST_F(StoreReaders, AFileIsClosedBeforeAnEntryThatOthersMayNotReadIsInIt) {
  const auto store = open_store(path_);
  put(*store, 1, 0);
  EXPECT_TRUE(ok(store->flush()));
  EXPECT_EQ(mode(), 0644u);
  store->keep_from_others(Readers::of_group(::getegid()));
  put(*store, 2, 0);
  EXPECT_TRUE(ok(store->flush()));
  EXPECT_EQ(mode(), 0640u);
  store->keep_from_others({});
  store->keep_from_others(Readers::everybody());
  put(*store, 3, 0);
  EXPECT_TRUE(ok(store->flush()));
  EXPECT_EQ(mode(), 0600u);
  for (const std::uint64_t record : {1, 2, 3}) EXPECT_EQ(version_of(*store, record), 0);
}

TEST_F(StoreReaders, ACompactedFileAndOneThatAnotherProcessMadeAreClosedToo) {
  const auto one = open_store(path_), other = open_store(path_);
  put(*one, 1, 0);
  EXPECT_TRUE(ok(one->flush()));
  EXPECT_TRUE(other->compact(true).has_value());
  EXPECT_EQ(mode(), 0644u);
  one->keep_from_others({});
  put(*one, 2, 0);
  EXPECT_TRUE(ok(one->flush())) << "goes to the new file";
  EXPECT_EQ(mode(), 0600u);
  EXPECT_TRUE(ok(other->refresh()));
  EXPECT_TRUE(other->compact(true).has_value());
  EXPECT_EQ(mode(), 0600u);
  EXPECT_EQ(version_of(*other, 2), 0);
}

}  // namespace
}  // namespace carya::io
