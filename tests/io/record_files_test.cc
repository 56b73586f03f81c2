#include "io/sources/record_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>

#include "tests/io/example_writer.h"
#include "tests/io/temp_dir.h"

namespace carya::io {
namespace {

using Kind = RecordField::Kind;

const RecordSpec kSpec{
    .fields = {{.name = "image", .key = "img"}, {.kind = Kind::kLabel, .name = "label", .key = "cls"}}};

std::string record(std::int64_t label, const std::string& image) {
  return framed(example(entry("cls", int64_feature({label})) + entry("img", bytes_feature({image}))));
}

class RecordFiles : public testing::Test {
 protected:
  std::string write(const std::string& name, const std::string& bytes, time_t time = 1'000'000'000) {
    const std::string path = dir_.write(name, bytes);
    const timespec times[2] = {{time, 1}, {time, 1}};
    EXPECT_EQ(::utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
    return path;
  }
  std::vector<std::filesystem::path> kept() const {
    std::vector<std::filesystem::path> found;
    if (std::filesystem::exists(dir_.path("cache")))
      for (const auto& item : std::filesystem::directory_iterator(dir_.path("cache"))) found.push_back(item);
    return found;
  }
  ListingOptions cached() const { return {.cache_dir = dir_.path("cache")}; }
  void let_settle() const { ::usleep(80'000); }

  TempDir dir_;
};

TEST_F(RecordFiles, FilesAreInTheOrderGiven) {
  const std::string b = write("s/b.tfrecord", record(1, "one") + record(2, "two") + "cut");
  const std::string a = write("s/a.tfrecord", record(3, "three"));
  const std::string empty = write("s/empty.tfrecord", "");
  const auto source = list_records({b, empty, a}, kSpec, cached());
  ASSERT_TRUE(source) << source.error().message;
  const Manifest& image = *(*source)->manifest(0);
  EXPECT_EQ(image.root(), dir_.path("s"));
  EXPECT_EQ(image.containers(), (std::vector<std::string>{"b.tfrecord", "empty.tfrecord", "a.tfrecord"}));
  ASSERT_EQ(image.count(), 4u);
  EXPECT_EQ(image.record(1).member, "#1");
  EXPECT_EQ(image.record(1).label, 2);
  EXPECT_EQ(image.record(2).bytes, 0u);
  EXPECT_EQ(image.record(3).path, "a.tfrecord");
  EXPECT_EQ(image.record(3).member, "#0");
  EXPECT_EQ(image.record(3).bytes, 5u);
  EXPECT_TRUE((*source)->check(0));
  EXPECT_TRUE((*source)->check(3));
  const Status broken = (*source)->check(2);
  ASSERT_FALSE(broken);
  EXPECT_EQ(broken.error().code, Code::kCorrupt);
  EXPECT_EQ(broken.error().message,
            "tfrecord: the file ends 9 B before the record does; copy the file again, or write it anew");
  EXPECT_EQ((*source)->records(), (*source)->manifest(0));
}

TEST_F(RecordFiles, IndexesAreKeptAndFollowTheirFiles) {
  const std::string path = write("a.tfrecord", record(1, "one"));
  let_settle();
  ListingReport report;
  ASSERT_TRUE(list_records({path}, kSpec, cached(), &report));
  EXPECT_FALSE(report.from_cache);
  ASSERT_EQ(kept().size(), 1u);
  // Whether the index was used shows in what it says: damage the file without changing size or time.
  std::string damaged = record(1, "one");
  damaged[0] ^= 1;
  write("a.tfrecord", damaged);
  ASSERT_TRUE(list_records({path}, kSpec, cached(), &report));
  EXPECT_TRUE(report.from_cache);
  ListingOptions verify = cached();
  verify.verify = true;
  EXPECT_FALSE(list_records({path}, kSpec, verify));
  // Other fields are another index; another size or time is another file.
  RecordSpec other = kSpec;
  other.fields.pop_back();
  write("a.tfrecord", record(1, "one"));
  let_settle();
  ASSERT_TRUE(list_records({path}, other, cached(), &report));
  EXPECT_FALSE(report.from_cache);
  EXPECT_EQ(kept().size(), 2u);
  write("a.tfrecord", record(1, "two"), 1'000'000'001);
  let_settle();
  ASSERT_TRUE(list_records({path}, kSpec, cached(), &report));
  EXPECT_FALSE(report.from_cache);
}

TEST_F(RecordFiles, ADamagedIndexIsMadeAnew) {
  const std::string path = write("a.tfrecord", record(1, "one") + record(2, "two"));
  let_settle();
  const Hash128 right = (*list_records({path}, kSpec, cached()))->records()->fingerprint();
  const std::string index = kept().at(0);
  std::ifstream stream(index, std::ios::binary);
  const std::string image(std::istreambuf_iterator<char>(stream), {});
  for (std::size_t at = 0; at < image.size(); at += 7) {
    std::string wrong = image;
    wrong[at] = static_cast<char>(wrong[at] ^ 0x10);
    std::ofstream(index, std::ios::binary) << wrong;
    EXPECT_EQ((*list_records({path}, kSpec, cached()))->records()->fingerprint(), right);
  }
}

TEST_F(RecordFiles, ThreadsAndKeptIndexesChangeNothing) {
  std::vector<std::string> paths;
  for (int f = 0; f < 20; ++f) {
    std::string file;
    for (int i = 0; i < f; ++i)
      file += record(f * 100 + i, std::string(static_cast<std::size_t>(i * f), 'x'));
    paths.push_back(write(std::to_string(f) + ".tfrecord", file + (f % 3 == 0 && f > 0 ? "tail" : "")));
  }
  let_settle();
  const auto one = list_records(paths, kSpec, {.threads = 1});
  const auto many = list_records(paths, kSpec, {.cache_dir = dir_.path("cache"), .threads = 7});
  ListingReport report;
  const auto again = list_records(paths, kSpec, cached(), &report);
  ASSERT_TRUE(one && many && again);
  EXPECT_TRUE(report.from_cache);
  EXPECT_EQ((*one)->broken_count(), 6u);
  for (const auto& other : {*many, *again}) {
    EXPECT_EQ(other->records()->fingerprint(), (*one)->records()->fingerprint());
    EXPECT_EQ(other->broken_count(), 6u);
  }
}

TEST_F(RecordFiles, TensorsAloneHaveWholeRecords) {
  const RecordSpec spec{
      .fields = {{.kind = Kind::kTensor, .name = "x", .key = "x", .dtype = DType::kInt64, .values = 1}}};
  const std::string one = framed(example(entry("x", int64_feature({5}))));
  const std::string bad = framed(example(entry("x", int64_feature({5, 6}))));
  const auto source = list_records({write("a", one + bad), write("b", one)}, spec, {});
  ASSERT_TRUE(source) << source.error().message;
  EXPECT_EQ((*source)->manifest(0), nullptr);
  EXPECT_EQ((*source)->column(0).size(), 24u);
  EXPECT_EQ((*source)->records()->count(), 3u);
  EXPECT_EQ((*source)->records()->record(0).bytes, one.size() - 16);
  EXPECT_EQ((*source)->records()->record(1).bytes, 0u);
  EXPECT_FALSE((*source)->check(1));
}

TEST_F(RecordFiles, WhatIsWrongIsNamed) {
  const std::string good = write("good", record(1, "x"));
  EXPECT_EQ(list_records({}, kSpec, {}).error().code, Code::kNotFound);
  EXPECT_EQ(list_records({good, dir_.path("none")}, kSpec, {}).error().code, Code::kNotFound);
  EXPECT_EQ(list_records({good, dir_.path()}, kSpec, {}).error().code, Code::kInvalidArgument);
  EXPECT_EQ(list_records({write("empty", "")}, kSpec, {}).error().code, Code::kNotFound);
  RecordSpec other = kSpec;
  other.fields[0].key = "jpeg";
  const auto missing = list_records({write("empty", ""), good}, other, {});
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, Code::kNotFound);
  EXPECT_EQ(missing.error().message, "tfrecord: image: no record has jpeg; the first of " + good +
                                         " has: cls (1 int64), img (1 bytes)");
}

TEST_F(RecordFiles, ReadsTheRealOnes) {
  const char* data = std::getenv("CARYA_TEST_DATA");
  if (data == nullptr) GTEST_SKIP() << "CARYA_TEST_DATA is not set";
  const std::string folder = std::string(data) + "/formats/";
  const RecordSpec raccoon{.fields = {{.name = "image", .key = "image/encoded"},
                                      {.kind = Kind::kTensor,
                                       .name = "height",
                                       .key = "image/height",
                                       .dtype = DType::kInt64,
                                       .values = 1}}};
  const auto source = list_records({folder + "tfrecord_raccoon/test.record"}, raccoon, {});
  ASSERT_TRUE(source) << source.error().message;
  EXPECT_EQ((*source)->broken_count(), 0u);
  std::ifstream stream(folder + "tfrecord_raccoon/test.record", std::ios::binary);
  for (std::uint64_t i = 0; i < (*source)->records()->count(); ++i) {
    stream.seekg(static_cast<std::streamoff>((*source)->records()->record(i).offset));
    char magic[3];
    stream.read(magic, 3);
    EXPECT_EQ(std::string_view(magic, 3), "\xff\xd8\xff");
  }
  const RecordSpec whole{.fields = {{.name = "record", .key = std::nullopt}}};
  EXPECT_EQ((*list_records({folder + "tfrecord_grain/morris_sequence_first_5.tfrecord"}, whole, {}))
                ->records()
                ->count(),
            5u);
  EXPECT_TRUE(list_records({folder + "tfrecord_pytorch_data/example.tfrecord"}, whole, {}));
}

}  // namespace
}  // namespace carya::io
