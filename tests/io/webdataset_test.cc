#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "io/manifest/manifest.h"
#include "tests/io/tar_maker.h"
#include "tests/io/temp_dir.h"

namespace carya::io {
namespace {

const std::vector<TarField> kPicture = {{{"jpg", "png"}}};

class WebDataset : public testing::Test {
 protected:
  std::string tar(const std::string& name, const TarMaker& maker) { return raw(name, maker.finish()); }
  /// Written with a time of long ago, so that its index is kept.
  std::string raw(const std::string& name, const std::string& bytes, time_t time = 1'000'000'000) {
    const std::string path = dir_.write(name, bytes);
    const timespec times[2] = {{time, 1}, {time, 1}};
    EXPECT_EQ(::utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
    return path;
  }
  /// The index is kept only when also the inode's time is past its tick.
  void let_settle() const { ::usleep(80'000); }
  std::vector<std::string> files(const std::string& folder, const std::string& ending) const {
    std::vector<std::string> names;
    if (!std::filesystem::exists(dir_.path(folder))) return names;
    for (const auto& item : std::filesystem::directory_iterator(dir_.path(folder))) {
      if (item.path().string().ends_with(ending)) names.push_back(item.path().string());
    }
    return names;
  }
  ListingOptions cached() const { return {.cache_dir = dir_.path("cache")}; }

  TempDir dir_;
};

TEST_F(WebDataset, GroupsByKeyInTarOrder) {
  TarMaker one, two;
  one.file("x/b.cls", " 7\n").file("x/b.JPG", "bbb").file("x/b.seg.png", "S").file("README", "-");
  one.file("x/a.jpg", "a").file("x/a.seg.png", "T").file("x/a.cls", "-3");
  two.file("b.png", "22").file("b.cls", "9223372036854775807").file("b.seg.png", "U");
  const std::vector<std::string> tars = {tar("s/1.tar", one), tar("s/0.tar", two)};
  const auto fields = list_webdataset(tars, {{{"jpg", "png"}}, {{"seg.png"}}}, {"cls"}, cached());
  ASSERT_TRUE(fields) << fields.error().message;
  ASSERT_EQ(fields->size(), 2u);
  const Manifest& image = *(*fields)[0];
  const Manifest& mask = *(*fields)[1];
  EXPECT_EQ(image.root(), dir_.path("s"));
  EXPECT_EQ(image.containers(), (std::vector<std::string>{"1.tar", "0.tar"}));
  ASSERT_EQ(image.count(), 3u);
  ASSERT_EQ(mask.count(), 3u);
  const std::vector<std::pair<std::string, std::int64_t>> expected = {
      {"x/b.JPG", 7}, {"x/a.jpg", -3}, {"b.png", INT64_MAX}};
  for (std::uint64_t i = 0; i < 3; ++i) {
    const RecordAddress record = image.record(i);
    EXPECT_EQ(record.member, expected[i].first);
    EXPECT_EQ(record.label, expected[i].second);
    EXPECT_EQ(mask.record(i).label, expected[i].second);
    EXPECT_EQ(record.container, i < 2 ? 0u : 1u);
    EXPECT_EQ(record.path, i < 2 ? "1.tar" : "0.tar");
    EXPECT_STREQ(image.path_c_str(i), i < 2 ? "1.tar" : "0.tar");
  }
  EXPECT_EQ(one.bytes.substr(image.record(0).offset, image.record(0).bytes), "bbb");
  EXPECT_EQ(two.bytes.substr(mask.record(2).offset, mask.record(2).bytes), "U");
  EXPECT_NE(image.fingerprint(), mask.fingerprint());
}

TEST_F(WebDataset, AKeyThatLacksSomethingIsABrokenRecord) {
  TarMaker maker;
  maker.file("a.jpg", "x").file("a.cls", "1").file("b.cls", "2").file("c.jpg", "x").file("c.cls", "3");
  maker.file("d.jpg", "x");
  const auto listed = list_webdataset({tar("t.tar", maker)}, kPicture, {"cls"}, {});
  ASSERT_TRUE(listed) << listed.error().message;
  const Manifest& image = *(*listed)[0];
  ASSERT_EQ(image.count(), 4u);
  EXPECT_EQ(image.record(1).member, "b (has no .jpg or .png)");
  EXPECT_EQ(image.record(1).bytes, 0u);
  EXPECT_EQ(image.record(1).label, 2);
  EXPECT_EQ(image.record(2).label, 3);
  EXPECT_EQ(image.record(3).member, "d.jpg");
  EXPECT_EQ(image.record(3).label, kNoNumber);
}

TEST_F(WebDataset, WhatEveryKeyLacksIsRefused) {
  TarMaker maker;
  maker.file("a.webp", "x").file("a.cls", "1").file("b.webp", "x").file("b.cls", "1");
  const std::vector<std::string> tars = {tar("t.tar", maker)};
  const auto field = list_webdataset(tars, kPicture, {}, {});
  ASSERT_FALSE(field);
  EXPECT_EQ(field.error().code, Code::kNotFound);
  EXPECT_NE(field.error().message.find("t.tar: key a has no .jpg or .png, and no other key has it"),
            std::string::npos)
      << field.error().message;
  EXPECT_FALSE(list_webdataset(tars, {{{"image", "webp"}}}, {"txt"}, {}));
  TarMaker twice;
  twice.file("a.jpg", "x").file("a.JPG", "y");
  EXPECT_EQ(list_webdataset({tar("twice.tar", twice)}, kPicture, {}, {}).error().code, Code::kCorrupt);
}

TEST_F(WebDataset, LabelThatIsNoIntegerIsKnownByItsNumber) {
  TarMaker maker;
  maker.file("a.jpg", "x").file("a.cls", "1").file("b.jpg", "x").file("b.cls", "cat");
  maker.file("c.jpg", "x").file("c.cls", "").file("d.jpg", "x").file("d.cls", "-1");
  const auto listed = list_webdataset({tar("t.tar", maker)}, kPicture, {"cls"}, {});
  ASSERT_TRUE(listed) << listed.error().message;
  std::vector<std::int64_t> labels;
  for (std::uint64_t i = 0; i < (*listed)[0]->count(); ++i) labels.push_back((*listed)[0]->record(i).label);
  EXPECT_EQ(labels, (std::vector<std::int64_t>{1, kNoNumber, kNoNumber, -1}));
}

TEST_F(WebDataset, WrongTarsAreNamed) {
  TarMaker good;
  good.file("a.jpg", "x");
  const std::string first = tar("good.tar", good);
  EXPECT_EQ(list_webdataset({}, kPicture, {}, {}).error().code, Code::kInvalidArgument);
  EXPECT_EQ(list_webdataset({first}, {}, {}, {}).error().code, Code::kInvalidArgument);
  EXPECT_EQ(list_webdataset({first, dir_.path("none.tar")}, kPicture, {}, {}).error().code, Code::kNotFound);
  EXPECT_EQ(list_webdataset({first, dir_.path()}, kPicture, {}, {}).error().code, Code::kInvalidArgument);
  EXPECT_EQ(list_webdataset({raw("empty.tar", "")}, kPicture, {}, {}).error().code, Code::kNotFound);
  const auto pointer = list_webdataset(
      {first, raw("lfs.tar", "version https://git-lfs.github.com/spec/v1\n")}, kPicture, {}, {});
  ASSERT_FALSE(pointer);
  EXPECT_EQ(pointer.error().code, Code::kCorrupt);
  EXPECT_NE(pointer.error().message.find("lfs.tar"), std::string::npos);
  EXPECT_TRUE(pointer.error().message.ends_with("copy or make it again")) << pointer.error().message;
}

TEST_F(WebDataset, TheIndexIsKeptAndFollowsTheTar) {
  TarMaker maker;
  maker.file("a.jpg", "x");
  const std::string path = tar("t.tar", maker);
  let_settle();
  ASSERT_TRUE(list_webdataset({path}, kPicture, {}, cached()));
  ASSERT_EQ(files("cache", ".manifest").size(), 1u);
  const std::string index = files("cache", ".manifest")[0];
  const auto written = std::filesystem::last_write_time(index);
  // Whether the index was used shows in what it says: damage the tar without changing size or time.
  std::string damaged = maker.finish();
  damaged[0] = 'z';
  raw("t.tar", damaged);
  auto listed = list_webdataset({path}, kPicture, {}, cached());
  ASSERT_TRUE(listed) << listed.error().message;
  EXPECT_EQ((*listed)[0]->record(0).member, "a.jpg");
  EXPECT_EQ(std::filesystem::last_write_time(index), written);
  // Another size, or another time: it is scanned anew.
  maker.file("b.jpg", "yy");
  raw("t.tar", maker.finish());
  let_settle();  // so that it is the index of these two that is kept
  EXPECT_EQ((*list_webdataset({path}, kPicture, {}, cached()))[0]->count(), 2u);
  TarMaker same_size;
  same_size.file("c.jpg", "x").file("d.jpg", "yy");
  raw("t.tar", same_size.finish(), 1'000'000'001);
  EXPECT_EQ((*list_webdataset({path}, kPicture, {}, cached()))[0]->record(0).member, "c.jpg");
}

TEST_F(WebDataset, WithoutACacheFolderTheIndexLiesBesideTheTar) {
  TarMaker maker;
  maker.file("a.jpg", "x");
  const std::string path = tar("s/t.tar", maker);
  let_settle();
  ASSERT_TRUE(list_webdataset({path}, kPicture, {}, {}));
  EXPECT_TRUE(std::filesystem::exists(path + ".carya-index"));
  ASSERT_TRUE(list_webdataset({path}, kPicture, {}, {}));
}

TEST_F(WebDataset, ADamagedIndexIsRebuilt) {
  TarMaker maker;
  for (int i = 0; i < 20; ++i)
    maker.file(std::to_string(i) + ".jpg", noise(static_cast<std::size_t>(i) * 30, 1));
  const std::string path = tar("s/t.tar", maker);
  let_settle();
  const Hash128 right = (*list_webdataset({path}, kPicture, {}, {}))[0]->fingerprint();
  const std::string index = path + ".carya-index";
  std::ifstream stream(index, std::ios::binary);
  const std::string image(std::istreambuf_iterator<char>(stream), {});
  for (std::size_t at = 0; at < image.size(); at += 41) {
    std::string wrong = image;
    wrong[at] = static_cast<char>(wrong[at] ^ 0x10);
    dir_.write("s/t.tar.carya-index", wrong);
    EXPECT_EQ((*list_webdataset({path}, kPicture, {}, {}))[0]->fingerprint(), right);
  }
  // An index of another tar with the same size and time, by a hand that copies files.
  TarMaker other;
  for (int i = 0; i < 20; ++i)
    other.file(std::to_string(i) + ".png", noise(static_cast<std::size_t>(i) * 30, 1));
  const std::string second = tar("s/u.tar", other);
  std::filesystem::copy_file(index, second + ".carya-index");
  ASSERT_TRUE(list_webdataset({second}, kPicture, {}, {}));
}

TEST_F(WebDataset, ManyTarsInParallel) {
  std::vector<std::string> tars;
  for (int t = 0; t < 40; ++t) {
    TarMaker maker;
    for (int i = 0; i < 25; ++i) {
      const std::string key = std::to_string(t * 25 + i);
      maker.file(key + ".jpg", noise(static_cast<std::size_t>(t + i), 1)).file(key + ".cls", key);
    }
    tars.push_back(tar(std::string("s/") + std::to_string(t) + ".tar", maker));
  }
  const auto one = list_webdataset(tars, kPicture, {"cls"}, {.cache_dir = dir_.path("c1"), .threads = 1});
  const auto many = list_webdataset(tars, kPicture, {"cls"}, {.cache_dir = dir_.path("c2"), .threads = 7});
  ASSERT_TRUE(one && many);
  EXPECT_EQ((*one)[0]->fingerprint(), (*many)[0]->fingerprint());
  for (std::uint64_t i = 0; i < 1000; ++i)
    EXPECT_EQ((*many)[0]->record(i).label, static_cast<std::int64_t>(i));
}

TEST_F(WebDataset, ReadsTheRealOnes) {
  const char* data = std::getenv("CARYA_TEST_DATA");
  if (data == nullptr) GTEST_SKIP() << "CARYA_TEST_DATA is not set";
  const std::string folder = std::string(data) + "/formats/webdataset/";
  const auto ten = list_webdataset({folder + "tendata.tar"}, {{{"ten"}}}, {}, cached());
  ASSERT_TRUE(ten) << ten.error().message;
  ASSERT_EQ((*ten)[0]->count(), 100u);
  std::ifstream stream(folder + "tendata.tar", std::ios::binary);
  for (std::uint64_t i = 0; i < 100; ++i) {
    stream.seekg(static_cast<std::streamoff>((*ten)[0]->record(i).offset));
    char magic[8];
    stream.read(magic, 8);
    EXPECT_EQ(std::string_view(magic, 8), "~TenBin~");
  }
  const auto packed = list_webdataset({folder + "mpdata.tar"}, {{{"mp"}}}, {}, cached());
  ASSERT_TRUE(packed) << packed.error().message;
  EXPECT_EQ((*packed)[0]->record(4).member, "000004.mp");
  const std::string gz = std::string(data) + "/formats/tar_pytorch_data/test/_fakedata/csv.tar.gz";
  EXPECT_EQ(list_webdataset({gz}, {{{"csv"}}}, {}, cached()).error().code, Code::kUnsupported);
}

}  // namespace
}  // namespace carya::io
