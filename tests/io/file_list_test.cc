#include "io/files/common_folder.h"
#include "io/manifest/manifest.h"
#include "tests/io/temp_dir.h"

namespace carya::io {
namespace {

TEST(FileList, KeepsTheOrderGiven) {
  const TempDir dir;
  const std::vector<std::string> paths = {dir.write("b/2.jpg", "12"), dir.write("a/1.jpg", "1"),
                                          dir.write("b/2.jpg", "12"), dir.write("c", "")};
  const auto manifest = list_files(paths, {5, -7, 5, 0}, {});
  ASSERT_TRUE(manifest) << manifest.error().message;
  EXPECT_EQ((*manifest)->root(), dir.path());
  ASSERT_EQ((*manifest)->count(), 4u);
  EXPECT_EQ((*manifest)->record(0).path, "b/2.jpg");
  EXPECT_EQ((*manifest)->record(0).bytes, 2u);
  EXPECT_EQ((*manifest)->record(1).label, -7);
  EXPECT_EQ((*manifest)->record(2).path, "b/2.jpg");
  EXPECT_EQ((*manifest)->record(3).bytes, 0u);
  EXPECT_STREQ((*manifest)->path_c_str(3), "c");
}

TEST(FileList, NamesTheFirstMissingFile) {
  const TempDir dir;
  const std::string there = dir.write("there", "x");
  std::vector<std::string> paths(5000, there);
  paths[2001] = dir.path("missing-first");
  paths[2002] = paths[4999] = dir.path("missing-later");
  for (const std::uint32_t threads : {1u, 2u, 8u}) {
    const auto manifest = list_files(paths, {}, {.threads = threads});
    ASSERT_FALSE(manifest);
    EXPECT_EQ(manifest.error().code, Code::kNotFound);
    EXPECT_NE(manifest.error().message.find("missing-first"), std::string::npos) << manifest.error().message;
  }
}

TEST(FileList, RefusesWhatIsNoFileAndLabelsThatDoNotFit) {
  const TempDir dir;
  const Error folder = list_files({dir.path()}, {}, {}).error();
  EXPECT_EQ(folder.code, Code::kInvalidArgument);
  EXPECT_TRUE(folder.message.ends_with("give the files in it, or carya.image_folder(...)")) << folder.message;
  EXPECT_EQ(list_files({dir.write("a", "")}, {1, 2}, {}).error().code, Code::kInvalidArgument);
  EXPECT_EQ(list_files({dir.path("a") + std::string("\0b", 2)}, {}, {}).error().code, Code::kInvalidArgument);
}

TEST(FileList, OfNothingIsEmpty) {
  const auto manifest = list_files({}, {}, {});
  ASSERT_TRUE(manifest);
  EXPECT_EQ((*manifest)->count(), 0u);
}

TEST(FileList, TheFingerprintDoesNotKnowThePlace) {
  const TempDir one, two;
  const auto list = [](const TempDir& dir) {
    return (*list_files({dir.write("a/1", "x"), dir.write("b/2", "y")}, {}, {}))->fingerprint();
  };
  EXPECT_EQ(list(one), list(two));
}

TEST(CommonFolder, IsMadeOfWholeComponents) {
  EXPECT_EQ(common_folder({}), "");
  EXPECT_EQ(common_folder({"a.jpg"}), "");
  EXPECT_EQ(common_folder({"x/a.jpg"}), "x");
  EXPECT_EQ(common_folder({"/x/ab/1", "/x/ac/1"}), "/x");
  EXPECT_EQ(common_folder({"/x/ab", "/x/abc"}), "/x");
  EXPECT_EQ(common_folder({"/a", "/b"}), "/");
  EXPECT_EQ(common_folder({"/a", "b"}), "");
  EXPECT_EQ(common_folder({"x//a", "x//b"}), "x");
  EXPECT_EQ(below_folder("/", "/b"), "b");
  EXPECT_EQ(below_folder("x", "x//b"), "b");
  EXPECT_EQ(below_folder("", "x/b"), "x/b");
}

}  // namespace
}  // namespace carya::io
