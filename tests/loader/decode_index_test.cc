#include "loader/data/decode_index.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <thread>

#include "base/hash.h"
#include "io/store/store_list.h"
#include "loader/job/job.h"
#include "photo_folder.h"
#include "transforms/jpeg/header.h"
#include "transforms/jpeg/index.h"

namespace carya::loader {
namespace {

namespace fs = std::filesystem;
using Hashes = std::vector<std::uint64_t>;

std::vector<std::uint8_t> bytes_of_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  const std::vector<char> text((std::istreambuf_iterator<char>(file)), {});
  return {text.begin(), text.end()};
}

/// A folder of photos, a cache folder, and the stream of the photos with and without an index.
class DecodeIndexTest : public ::testing::Test {
 protected:
  DecodeIndexTest() {
    std::string name = (fs::temp_directory_path() / "carya-index-XXXXXX").string();
    cache_ = mkdtemp(name.data());
    open_again();
  }
  ~DecodeIndexTest() override {
    std::error_code ignored;
    fs::permissions(cache_, fs::perms::owner_all, ignored);
    fs::remove_all(cache_, ignored);
  }

  void open_again() {
    auto pipeline = transforms::Pipeline::parse(
        R"({"version":1,"source":{"type":"image_folder","path":")" + folder_.path().string() +
        R"("},"views":[{"view":"subset","indices":[39,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,30,31,32]}],)"
        R"("shuffle":{"seed":5},"ops":[{"op":"decode_image"},{"op":"random_resized_crop","size":[16,16]}],)"
        R"("batch":{"batch_size":4,"global_size":null,"drop_last":false,"pad_last":false}})");
    ASSERT_TRUE(pipeline) << pipeline.error().message;
    pipeline_ = *pipeline;
    auto dataset = Dataset::open(*pipeline_, {});
    ASSERT_TRUE(dataset) << dataset.error().message;
    dataset_ = *dataset;
  }

  DecodeIndexOptions index(int spacing, std::uint64_t verify_every = 1000) const {
    return {.wanted = true, .cache_dir = cache_.string(), .spacing = spacing, .verify_every = verify_every};
  }
  std::shared_ptr<Job> start(const DecodeIndexOptions& options, std::uint32_t threads = 1) const {
    auto job = Job::create(pipeline_, dataset_, {.threads = threads, .decode_index = options});
    EXPECT_TRUE(job) << (job ? "" : job.error().message);
    return *job;
  }
  /// Hashes of every tensor of every batch of some epochs.
  static Hashes drain(Job& job, int epochs = 3) {
    Hashes rows;
    for (int ended = 0; ended < epochs;) {
      Result<Batch> batch = job.next(120'000);
      EXPECT_TRUE(batch) << (batch ? "" : batch.error().message);
      if (!batch) return rows;
      for (const shm::SlotTensor& tensor : job.layout().tensors()) {
        const std::uint64_t bytes = tensor.bytes() / tensor.shape[0] * batch->rows;
        rows.push_back(hash64(std::span(batch->lease.data() + tensor.offset, bytes)));
      }
      ended += batch->last;
    }
    return rows;
  }
  Hashes without() const { return drain(*start({})); }

  fs::path store_file() const {
    const auto stores = io::list_stores(cache_.string());
    EXPECT_TRUE(stores && stores->size() == 1);
    return stores->at(0).path;
  }
  std::unique_ptr<io::RecordStore> open_store() const {
    const io::StoreIdentity identity{dataset_->fields()[0].manifest->fingerprint(), io::kDecodeIndexStore,
                                     dataset_->fields()[0].manifest->count()};
    auto store = io::RecordStore::open(store_file().string(), identity, {.replace_mismatch = false});
    EXPECT_TRUE(store) << (store ? "" : store.error().message);
    return std::move(*store);
  }
  static std::vector<std::byte> entry(const io::RecordStore& store, std::uint64_t record) {
    std::vector<std::byte> bytes(1 << 16);
    bytes.resize(store.get(record, bytes).value_or(0));
    return bytes;
  }

  PhotoFolder folder_{40};
  fs::path cache_;
  std::shared_ptr<const transforms::Pipeline> pipeline_;
  std::shared_ptr<const Dataset> dataset_;
};

TEST_F(DecodeIndexTest, LargeStoreIsOpenedWhileTheStreamRunsAndUsedFromThenOn) {
  const Hashes expected = without();
  drain(*start(index(8)));
  DecodeIndexOptions later = index(8);
  later.open_at_once_bytes_max = 0;
  const auto unopened = DecodeIndex::open(*dataset_, later);
  DecodeIndex::Scratch scratch;
  EXPECT_TRUE(unopened->on());
  EXPECT_TRUE(unopened->asked()) << "a thread is asked to open it";
  EXPECT_TRUE(unopened->begin(scratch, 0, 0).empty()) << "until then decoding goes on without";
  EXPECT_EQ(unopened->stats().reason, "it is being opened");
  unopened->flush();
  unopened->end(scratch, 0);  // of a run that began before
  EXPECT_FALSE(unopened->begin(scratch, 0, 0).empty());

  const auto job = start(later, 2);
  EXPECT_EQ(drain(*job), expected);
  for (int i = 0; i < 1000 && job->stats().decode_index.hits == 0; ++i) drain(*job, 1);
  EXPECT_GT(job->stats().decode_index.hits, 0u);
  EXPECT_EQ(job->stats().decode_index.reason, "");
}

TEST_F(DecodeIndexTest, StreamIsTheSameWithoutInTheFirstAndInLaterEpochs) {
  const Hashes expected = without();
  for (const int spacing : {0, 16, 8})  // each is finer: made anew, in the same file
    for (const std::uint32_t threads : {1u, 3u}) {
      const auto first = start(index(spacing), threads);
      ASSERT_EQ(drain(*first), expected) << spacing << ", " << threads << " threads";
      first->close();
      const auto later = start(index(spacing), threads);
      ASSERT_EQ(drain(*later), expected);
      const DecodeIndexStats stats = later->stats().decode_index;
      EXPECT_TRUE(stats.on);
      EXPECT_EQ(stats.spacing, spacing);
      EXPECT_EQ(stats.entries, 23u);
      EXPECT_GE(stats.hits, 3u * 23) << "prefetched rows count too";
      EXPECT_EQ(stats.refused + stats.mismatches + stats.dropped, 0u);
      EXPECT_GT(stats.points_known_share, 0.5);
      EXPECT_GT(stats.bytes, 0u);
    }
}

TEST_F(DecodeIndexTest, RecordsAreThoseBeforeTheViews) {
  drain(*start(index(0)));
  const auto store = open_store();
  EXPECT_FALSE(entry(*store, 39).empty());
  EXPECT_FALSE(entry(*store, 0).empty());
  EXPECT_TRUE(entry(*store, 25).empty()) << "not in the view";
  EXPECT_EQ(store->identity().record_count, 40u);
}

TEST_F(DecodeIndexTest, LyingEntriesAreIgnoredAndReplaced) {
  const Hashes expected = without();
  drain(*start(index(8)));
  {
    const auto store = open_store();
    std::mt19937 random(3);
    for (std::uint64_t record = 0; record < 19; ++record) {
      std::vector<std::byte> lie = entry(*store, (record + 1) % 19);  // another photo's
      if (record % 3 == 1)
        for (std::byte& byte : lie) byte = static_cast<std::byte>(random());
      if (record % 3 == 2) lie.resize(lie.size() / 2);
      ASSERT_TRUE(store->append(record, lie));
    }
    ASSERT_TRUE(store->flush());
  }
  const auto job = start(index(8));
  EXPECT_EQ(drain(*job), expected);
  EXPECT_GE(job->stats().decode_index.refused, 19u);
  job->close();
  const auto healed = start(index(8));
  EXPECT_EQ(drain(*healed), expected);
  EXPECT_EQ(healed->stats().decode_index.refused, 0u);
}

TEST_F(DecodeIndexTest, DamagedStoreFileChangesNothing) {
  const Hashes expected = without();
  drain(*start(index(8)));
  const fs::path path = store_file();
  const std::vector<std::uint8_t> whole = bytes_of_file(path);
  std::mt19937 random(4);
  for (int round = 0; round < 12; ++round) {
    std::vector<std::uint8_t> bytes = whole;
    if (round % 3 == 0) bytes.resize(random() % bytes.size());
    for (int i = 0; i < 30 && !bytes.empty(); ++i)
      bytes[random() % bytes.size()] = static_cast<std::uint8_t>(random());
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    EXPECT_EQ(drain(*start(index(8))), expected);
  }
}

TEST_F(DecodeIndexTest, ForgedEntriesAreFoundByVerification) {
  const Hashes expected = without();
  drain(*start(index(0)), 20);
  {
    const auto store = open_store();
    for (std::uint64_t record = 0; record < 19; ++record) {
      const auto bytes = entry(*store, record);
      jpeg::Index honest(0);
      ASSERT_TRUE(honest.read({reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()}));
      const auto file = bytes_of_file(folder_.file(static_cast<int>(record)));
      jpeg::Header header;
      ASSERT_EQ(jpeg::read_header(file, header), jpeg::Ordinary::kOrdinary);
      jpeg::Index forged(0);
      forged.bind(header, file.size(), hash64(std::as_bytes(std::span(file))));
      for (jpeg::IndexPoint point : honest.points()) {
        if (forged.points().size() == 1) point.dc[0] = static_cast<std::int16_t>(point.dc[0] + 30);
        forged.append(point);
      }
      std::vector<std::uint8_t> lie;
      forged.write(lie);
      ASSERT_TRUE(store->append(record, std::as_bytes(std::span(lie))));
    }
    ASSERT_TRUE(store->flush());
  }
  const auto job = start(index(0, 1));
  EXPECT_EQ(drain(*job), expected);
  const DecodeIndexStats stats = job->stats().decode_index;
  EXPECT_GT(stats.mismatches, 0u);
  EXPECT_GE(stats.mismatch_record, 0);
  EXPECT_LT(stats.mismatch_record, 19);
}

TEST_F(DecodeIndexTest, ReplacedFilesOfTheSameSizeAreDecodedAsTheyAre) {
  drain(*start(index(0)));
  for (int record = 0; record < 10; ++record) {
    auto bytes = bytes_of_file(folder_.file(record));
    jpeg::Header header;
    ASSERT_EQ(jpeg::read_header(bytes, header), jpeg::Ordinary::kOrdinary);
    bool changed = false;
    for (std::size_t i = 2; i + 40 < bytes.size() && !changed; ++i) {
      if (bytes[i] != 0xFF || bytes[i + 1] != 0xDB) continue;
      for (int k = 5; k < 40; ++k)
        bytes[i + k] = static_cast<std::uint8_t>(bytes[i + k] + 9);  // coarser steps
      changed = true;
    }
    ASSERT_TRUE(changed);
    std::ofstream(folder_.file(record), std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  }
  const Hashes expected = without();
  const auto job = start(index(0));
  EXPECT_EQ(drain(*job), expected);
  EXPECT_GE(job->stats().decode_index.refused, 10u);
}

TEST_F(DecodeIndexTest, JobsAtOnceShareTheStore) {
  const Hashes expected = without();
  std::vector<std::thread> readers;
  for (int i = 0; i < 4; ++i)
    readers.emplace_back([&, i] { EXPECT_EQ(drain(*start(index(i % 2 == 0 ? 0 : 8), 2)), expected); });
  for (std::thread& reader : readers) reader.join();
  const auto after = start(index(0));
  EXPECT_EQ(drain(*after), expected);
  EXPECT_EQ(after->stats().decode_index.entries, 23u);
}

TEST_F(DecodeIndexTest, TroubleWithTheCacheFolderIsNoTroubleOfTheStream) {
  const Hashes expected = without();
  DecodeIndexOptions options = index(0);
  std::ofstream(cache_ / "file") << "no folder";
  for (const std::string& place :
       {std::string(), (cache_ / "file" / "below").string(), std::string("/proc/none")}) {
    options.cache_dir = place;
    const auto job = start(options);
    EXPECT_EQ(drain(*job), expected);
    EXPECT_NE(job->stats().decode_index.reason, "");
    EXPECT_EQ(job->stats().decode_index.entries, 0u);
  }
}

TEST_F(DecodeIndexTest, AutomaticChoiceKeepsTheBudget) {
  EXPECT_EQ(spacing_for(106'151, 0.02), 8);
  EXPECT_EQ(spacing_for(106'151, 0.015), 16);
  EXPECT_EQ(spacing_for(106'151, 0.005), 0);
  EXPECT_EQ(spacing_for(106'151, 0.001), std::nullopt);
  EXPECT_EQ(spacing_for(2'000, 0.02), std::nullopt);
  EXPECT_EQ(spacing_for(0, 0.02), std::nullopt);
  DecodeIndexOptions options = index(0);
  options.spacing = std::nullopt;  // photos of 1 KB
  const auto job = start(options);
  EXPECT_EQ(drain(*job), without());
  EXPECT_FALSE(job->stats().decode_index.on);
  EXPECT_NE(job->stats().decode_index.reason.find("too small"), std::string::npos);
}

}  // namespace
}  // namespace carya::loader
