#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <map>
#include <thread>

#include "io/files/listing.h"
#include "io/manifest/manifest.h"
#include "tests/io/temp_dir.h"

namespace carya::io {
namespace {

/// Clocks of file systems tick coarsely: a manifest of a folder that changed just now is not kept.
void let_settle() {
  std::this_thread::sleep_for(std::chrono::milliseconds(80));
}

std::vector<std::string> paths_of(const Manifest& manifest) {
  std::vector<std::string> paths;
  for (std::uint64_t i = 0; i < manifest.count(); ++i) {
    paths.emplace_back(manifest.record(i).path);
    EXPECT_EQ(paths.back(), manifest.path_c_str(i));
  }
  return paths;
}

class ImageFolder : public testing::Test {
 protected:
  Result<std::shared_ptr<const Manifest>> list(ListingOptions options = {}) {
    report_ = {};
    return list_image_folder(dir_.path("data"), options, &report_);
  }
  ListingOptions cached() const { return {.cache_dir = dir_.path("cache")}; }
  std::string write(const std::string& name, const std::string& content = "x") {
    return dir_.write("data/" + name, content);
  }
  std::string data(const std::string& name) const { return dir_.path("data/" + name); }

  TempDir dir_;
  ListingReport report_;
};

TEST_F(ImageFolder, OrderAndLabelsAreTorchvisions) {
  // Order of torchvision 0.20, ImageFolder(...).samples, for this tree: class, then folder path, then file
  // name.
  for (const char* name : {"a/z.jpg", "a/b.PNG", "a/sub/deep/1.jpg", "a/sub-x/0.jpg", "a-b/q.JPEG",
                           "b/10.jpeg", "b/9.png", "B/x.jpg", "\xc3\xa9/u.png"}) {
    write(name, name);
  }
  const auto manifest = list();
  ASSERT_TRUE(manifest) << manifest.error().message;
  EXPECT_EQ((*manifest)->class_names(), (std::vector<std::string>{"B", "a", "a-b", "b", "\xc3\xa9"}));
  EXPECT_EQ(paths_of(**manifest),
            (std::vector<std::string>{"B/x.jpg", "a/b.PNG", "a/z.jpg", "a/sub-x/0.jpg", "a/sub/deep/1.jpg",
                                      "a-b/q.JPEG", "b/10.jpeg", "b/9.png", "\xc3\xa9/u.png"}));
  const std::vector<std::int64_t> labels = {0, 1, 1, 1, 1, 2, 3, 3, 4};
  for (std::uint64_t i = 0; i < labels.size(); ++i) {
    const RecordAddress record = (*manifest)->record(i);
    EXPECT_EQ(record.label, labels[i]);
    EXPECT_EQ(record.bytes, record.path.size());
    EXPECT_EQ(record.container, UINT32_MAX);
    EXPECT_TRUE(record.member.empty());
  }
  EXPECT_EQ(std::filesystem::canonical((*manifest)->root()), std::filesystem::canonical(data("")));
}

TEST_F(ImageFolder, OtherFilesAreSkippedAndNamed) {
  write("a/1.jpg");
  write("a/notes.txt");
  write("a/.DS_Store");
  write("top.jpg");
  for (int i = 0; i < 20; ++i) write(std::string("b/") + std::to_string(i) + ".npy");
  write("b/1.jpg");
  ::mkfifo(data("b/pipe.jpg").c_str(), 0600);
  ASSERT_TRUE(list());
  EXPECT_EQ(report_.skipped_count, 24u);
  EXPECT_EQ(report_.skipped_examples.size(), 8u);
  EXPECT_NE(std::ranges::find(report_.skipped_examples, "a/notes.txt"), report_.skipped_examples.end());
  EXPECT_NE(std::ranges::find(report_.skipped_examples, "top.jpg"), report_.skipped_examples.end());
}

TEST_F(ImageFolder, LinksAreFollowed) {
  dir_.write("elsewhere/1.jpg", "12345");
  dir_.write("elsewhere/deep/2.jpg", "123");
  write("a/real.jpg", "1");
  ASSERT_EQ(::symlink("../../elsewhere", data("a/linked").c_str()), 0);
  ASSERT_EQ(::symlink("../elsewhere", data("b").c_str()), 0);
  ASSERT_EQ(::symlink("../../elsewhere/1.jpg", data("a/one.jpg").c_str()), 0);
  const auto manifest = list();
  ASSERT_TRUE(manifest) << manifest.error().message;
  EXPECT_EQ(paths_of(**manifest),
            (std::vector<std::string>{"a/one.jpg", "a/real.jpg", "a/linked/1.jpg", "a/linked/deep/2.jpg",
                                      "b/1.jpg", "b/deep/2.jpg"}));
  EXPECT_EQ((*manifest)->record(0).bytes, 5u);
}

TEST_F(ImageFolder, ALoopOfLinksIsNamed) {
  write("a/1.jpg");
  ASSERT_EQ(::symlink("..", data("a/up").c_str()), 0);
  const auto manifest = list();
  ASSERT_FALSE(manifest);
  EXPECT_EQ(manifest.error().code, Code::kInvalidArgument);
  EXPECT_NE(manifest.error().message.find("a/up"), std::string::npos) << manifest.error().message;
}

TEST_F(ImageFolder, ALinkToItselfIsNamed) {
  write("a/1.jpg");
  ASSERT_EQ(::symlink("self.jpg", data("a/self.jpg").c_str()), 0);
  const auto manifest = list();
  ASSERT_FALSE(manifest);
  EXPECT_NE(manifest.error().message.find("a/self.jpg"), std::string::npos) << manifest.error().message;
}

TEST_F(ImageFolder, ADanglingLinkIsNotFound) {
  write("a/1.jpg");
  ASSERT_EQ(::symlink("gone", data("a/2.jpg").c_str()), 0);
  ASSERT_EQ(::symlink("gone", data("a/readme").c_str()), 0);
  const auto manifest = list();
  ASSERT_FALSE(manifest);
  EXPECT_EQ(manifest.error().code, Code::kNotFound);
  EXPECT_NE(manifest.error().message.find("a/2.jpg"), std::string::npos);
}

TEST_F(ImageFolder, WhatIsMissingIsNamed) {
  EXPECT_EQ(list().error().code, Code::kNotFound);
  std::filesystem::create_directories(data(""));
  EXPECT_EQ(list().error().code, Code::kNotFound);
  write("full/1.jpg");
  write("hollow/readme.txt");
  write("other/1.jpg");
  const auto manifest = list();
  ASSERT_FALSE(manifest);
  EXPECT_EQ(manifest.error().code, Code::kNotFound);
  EXPECT_NE(manifest.error().message.find("/hollow:"), std::string::npos) << manifest.error().message;
  std::filesystem::remove_all(data("other"));
  EXPECT_NE(list().error().message.find("/hollow:"), std::string::npos);
}

TEST_F(ImageFolder, ThreadsDoNotChangeTheManifest) {
  for (int i = 0; i < 300; ++i)
    write(std::string("c") + std::to_string(i % 17) + "/s" + std::to_string(i % 5) + "/" + std::to_string(i) +
          ".jpg");
  const Hash128 one = (*list({.threads = 1}))->fingerprint();
  EXPECT_EQ((*list({.threads = 2}))->fingerprint(), one);
  EXPECT_EQ((*list({.threads = 9}))->fingerprint(), one);
}

TEST_F(ImageFolder, TheFingerprintFollowsPathsSizesAndLabelsNotPlaces) {
  write("a/1.jpg", "12");
  write("b/1.jpg", "12");
  const Hash128 first = (*list())->fingerprint();
  std::filesystem::rename(data(""), dir_.path("moved"));
  EXPECT_EQ((*list_image_folder(dir_.path("moved"), {}, nullptr))->fingerprint(), first);
  std::filesystem::rename(dir_.path("moved"), dir_.path("data"));
  write("b/1.jpg", "123");
  const Hash128 larger = (*list())->fingerprint();
  EXPECT_NE(larger, first);
  write("b/1.jpg", "12");
  EXPECT_EQ((*list())->fingerprint(), first);
  std::filesystem::rename(data("b"), data("c"));
  EXPECT_NE((*list())->fingerprint(), first);
}

TEST_F(ImageFolder, TheSecondListingComesFromTheCache) {
  write("a/1.jpg", "123");
  write("b/2.jpg", "1");
  write("b/x.txt");
  let_settle();
  const auto first = list(cached());
  ASSERT_TRUE(first);
  EXPECT_FALSE(report_.from_cache);
  const auto second = list(cached());
  ASSERT_TRUE(second);
  EXPECT_TRUE(report_.from_cache);
  EXPECT_EQ(report_.skipped_count, 1u);
  EXPECT_EQ(report_.skipped_examples, (std::vector<std::string>{"b/x.txt"}));
  EXPECT_EQ((*second)->fingerprint(), (*first)->fingerprint());
  EXPECT_EQ(paths_of(**second), paths_of(**first));
  EXPECT_EQ((*second)->class_names(), (*first)->class_names());
  EXPECT_EQ((*second)->root(), (*first)->root());
}

TEST_F(ImageFolder, AnyChangeOfADirectoryIsSeen) {
  write("a/1.jpg");
  write("a/sub/1.jpg");
  write("b/1.jpg");
  const auto expect_change = [&](const char* what, auto change) {
    let_settle();
    ASSERT_TRUE(list(cached()));
    ASSERT_TRUE(list(cached()));
    ASSERT_TRUE(report_.from_cache) << what;
    const auto before = paths_of(**list(cached()));
    change();
    const auto after = list(cached());
    EXPECT_FALSE(report_.from_cache) << what;
    ASSERT_TRUE(after) << after.error().message;
    EXPECT_NE(paths_of(**after), before) << what;
  };
  expect_change("file added", [&] { write("a/2.jpg"); });
  expect_change("file added below", [&] { write("a/sub/2.jpg"); });
  expect_change("file removed", [&] { std::filesystem::remove(data("a/sub/2.jpg")); });
  expect_change("file renamed", [&] { std::filesystem::rename(data("a/2.jpg"), data("a/3.jpg")); });
  expect_change("class added", [&] { write("c/1.jpg"); });
  expect_change("class removed", [&] { std::filesystem::remove_all(data("c")); });
  expect_change("file added and the time set back", [&] {
    struct stat status;
    ASSERT_EQ(::stat(data("b").c_str(), &status), 0);
    write("b/9.jpg");
    const timespec times[2] = {status.st_atim, status.st_mtim};
    ASSERT_EQ(::utimensat(AT_FDCWD, data("b").c_str(), times, 0), 0);
  });
}

TEST(SourceStamp, OfTheCurrentTickIsNotSettled) {
  // Another change in the same tick would leave the same times.
  timespec now;
  ::clock_gettime(CLOCK_REALTIME, &now);
  const std::int64_t ns = now.tv_sec * 1'000'000'000LL + now.tv_nsec;
  EXPECT_FALSE(settled({.mtime_ns = ns + 60'000'000'000}));
  EXPECT_FALSE(settled({.mtime_ns = 1, .ctime_ns = ns + 60'000'000'000}));
  EXPECT_TRUE(settled({.mtime_ns = (now.tv_sec - 1) * 1'000'000'000LL - 7}));
  EXPECT_TRUE(settled({.mtime_ns = (now.tv_sec - 60) * 1'000'000'000LL}));
  // Whole seconds: a file system that may keep nothing finer.
  EXPECT_FALSE(settled({.mtime_ns = (now.tv_sec + 60) * 1'000'000'000LL}));
}

TEST_F(ImageFolder, VerifySeesAChangedFile) {
  write("a/1.jpg", "123");
  let_settle();
  ASSERT_TRUE(list(cached()));
  {
    const int fd = ::open(data("a/1.jpg").c_str(), O_WRONLY | O_APPEND);
    ASSERT_EQ(::write(fd, "4", 1), 1);
    ::close(fd);
  }
  EXPECT_EQ((*list(cached()))->record(0).bytes, 3u);  // by the directories' times alone nothing has changed
  EXPECT_TRUE(report_.from_cache);
  ListingOptions verify = cached();
  verify.verify = true;
  EXPECT_EQ((*list(verify))->record(0).bytes, 4u);
  EXPECT_FALSE(report_.from_cache);
  EXPECT_EQ((*list(verify))->record(0).bytes, 4u);
  EXPECT_TRUE(report_.from_cache);
}

TEST_F(ImageFolder, ADamagedCacheIsRebuilt) {
  for (int i = 0; i < 40; ++i)
    write(std::string("c") + std::to_string(i % 4) + "/" + std::to_string(i) + ".jpg",
          std::string(static_cast<std::size_t>(i), 'x'));
  let_settle();
  const Hash128 right = (*list(cached()))->fingerprint();
  const std::filesystem::path file = *std::filesystem::directory_iterator(dir_.path("cache"));
  std::string image;
  {
    std::ifstream stream(file, std::ios::binary);
    image.assign(std::istreambuf_iterator<char>(stream), {});
  }
  const auto with = [&](const std::string& content) {
    std::ofstream(file, std::ios::binary | std::ios::trunc) << content;
    const auto manifest = list(cached());
    ASSERT_TRUE(manifest) << manifest.error().message;
    EXPECT_FALSE(report_.from_cache);
    EXPECT_EQ((*manifest)->fingerprint(), right);
    ASSERT_TRUE(list(cached()));
    EXPECT_TRUE(report_.from_cache);  // written anew
  };
  with("");
  with("x");
  with(image.substr(0, image.size() - 1));
  with(image + "x");
  for (std::size_t at = 0; at < image.size(); at += 97) {
    std::string wrong = image;
    wrong[at] = static_cast<char>(wrong[at] ^ 0x40);
    with(wrong);
  }
}

TEST_F(ImageFolder, AnUnwritableCacheIsNoCache) {
  write("a/1.jpg");
  let_settle();
  dir_.write("blocked", "a file where the cache folder should be");
  ASSERT_TRUE(list({.cache_dir = dir_.path("blocked")}));
  ASSERT_TRUE(list({.cache_dir = dir_.path("blocked")}));
  EXPECT_FALSE(report_.from_cache);
}

TEST_F(ImageFolder, TwoNamesOfAFolderShareItsManifest) {
  write("a/1.jpg");
  let_settle();
  ASSERT_EQ(::symlink("data", dir_.path("alias").c_str()), 0);
  ASSERT_TRUE(list(cached()));
  ASSERT_TRUE(list_image_folder(dir_.path("alias"), cached(), &report_));
  EXPECT_TRUE(report_.from_cache);
}

TEST_F(ImageFolder, ProgressCountsAndStops) {
  for (int i = 0; i < 30; ++i) write(std::string("c") + std::to_string(i) + "/1.jpg");
  std::uint64_t seen = 0;
  ASSERT_TRUE(list({.progress = [&](std::uint64_t n) {
    EXPECT_GE(n, seen);
    seen = n;
    return true;
  }}));
  const auto stopped = list({.progress = [](std::uint64_t) { return false; }});
  ASSERT_FALSE(stopped);
  EXPECT_EQ(stopped.error().code, Code::kClosed);
}

TEST_F(ImageFolder, ListsTheRealFolders) {
  const char* data_root = std::getenv("CARYA_TEST_DATA");
  if (data_root == nullptr) GTEST_SKIP() << "CARYA_TEST_DATA is not set";
  const std::string root = std::string(data_root) + "/images";
  // The standard library's own walk, written again here, is the reference.
  std::map<std::string, std::uintmax_t> expected;
  for (const auto& item : std::filesystem::recursive_directory_iterator(
           root, std::filesystem::directory_options::follow_directory_symlink)) {
    std::string extension = item.path().extension().string();
    std::ranges::transform(extension, extension.begin(),
                           [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
    const std::string relative = item.path().lexically_relative(root).string();
    static const std::vector<std::string> kWanted = {".jpg", ".jpeg", ".png"};
    // std::filesystem sees no extension in a name that is nothing else, as ".jpg"
    if (item.is_regular_file() && relative.find('/') != std::string::npos &&
        std::ranges::find(kWanted, extension) != kWanted.end()) {
      expected[relative] = item.file_size();
    }
  }
  const auto manifest = list_image_folder(root, {}, &report_);
  ASSERT_TRUE(manifest) << manifest.error().message;
  std::map<std::string, std::uintmax_t> found;
  for (std::uint64_t i = 0; i < (*manifest)->count(); ++i) {
    const RecordAddress record = (*manifest)->record(i);
    found[std::string(record.path)] = record.bytes;
    EXPECT_EQ((*manifest)->class_names()[static_cast<std::size_t>(record.label)],
              record.path.substr(0, record.path.find('/')));
  }
  EXPECT_EQ(found, expected);
  EXPECT_GT(found.size(), 300u);
}

}  // namespace
}  // namespace carya::io
