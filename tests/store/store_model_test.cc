#include <array>

#include "tests/store/store_fixture.h"

namespace carya::io {
namespace {

constexpr std::uint64_t kRecords = 12;

/// Two stores on one file against a map, by random steps.
class Model {
 public:
  explicit Model(std::uint32_t seed) : draw_(seed) {
    newest_.fill(-1);
    for (auto& store : stores_) store = open_store(path_, options_);
  }

  void step() {
    const std::size_t who = below(2);
    RecordStore& store = *stores_[who];
    const std::uint32_t kind = below(100);
    if (kind < 60) {
      const std::uint64_t record = below(kRecords);
      const std::uint32_t version = ++next_version_;
      if (store.append(record, payload_of(record, version))) pending_[who].emplace_back(record, version);
    } else if (kind < 75) {
      EXPECT_TRUE(ok(store.flush()));
      const bool wrote = !pending_[who].empty();
      for (const auto& [record, version] : pending_[who]) newest_[record] = static_cast<int>(version);
      pending_[who].clear();
      if (wrote) expect_newest(store);  // else it did not look at the file
    } else if (kind < 85) {
      EXPECT_TRUE(ok(store.refresh()));
      expect_newest(store);
    } else if (kind < 90) {
      const auto done = store.compact(below(2) == 0);
      EXPECT_TRUE(done.has_value()) << (done ? "" : done.error().message);
      expect_newest(store);
    } else if (kind < 95) {
      tear();
    } else {
      stores_[who] = open_store(path_, options_);
      pending_[who].clear();
      expect_newest(*stores_[who]);
    }
    EXPECT_EQ(stores_[who]->stats().read_only_reason, "");
  }

 private:
  std::uint32_t below(std::uint32_t bound) { return static_cast<std::uint32_t>(draw_() % bound); }

  /// What a killed writer leaves: the front of an entry, or a few odd bytes.
  void tear() {
    const std::string bytes = slurp(path_);
    const std::size_t length = below(60);
    std::string torn = noise(length, static_cast<unsigned>(draw_()));
    if (below(2) == 0 && bytes.size() > 200) torn = bytes.substr(sizeof(StoreHeader), length / 2);
    std::ofstream(path_, std::ios::binary | std::ios::app) << torn;
  }

  void expect_newest(const RecordStore& store) {
    std::uint64_t live = 0;
    for (std::uint64_t record = 0; record < kRecords; ++record) {
      EXPECT_EQ(version_of(store, record), newest_[record]) << "record " << record;
      live += newest_[record] >= 0;
    }
    EXPECT_EQ(store.stats().entries, live);
    EXPECT_EQ(store.stats().get_failures, 0u);
  }

  std::mt19937 draw_;
  TempDir dir_;
  std::string path_ = dir_.path("model.store");
  StoreOptions options_{.entry_bytes_max = 1000, .pending_bytes_max = 2000};
  std::array<std::unique_ptr<RecordStore>, 2> stores_;
  std::array<int, kRecords> newest_;
  std::array<std::vector<std::pair<std::uint64_t, std::uint32_t>>, 2> pending_;
  std::uint32_t next_version_ = 0;
};

TEST(StoreModel, AgreesWithAMap) {
  for (std::uint32_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Model model(seed);
    for (int i = 0; i < 250 && !::testing::Test::HasFailure(); ++i) model.step();
    if (::testing::Test::HasFailure()) return;
  }
}

}  // namespace
}  // namespace carya::io
