#include "io/files/source_folder.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/io/temp_dir.h"

namespace carya::io {
namespace {

// Between the moment in which a path was resolved and that in which it is opened somebody may put a link
// there.
TEST(SourceFolder, ARealPathWithALinkInItIsRefused) {
  const TempDir dir;
  const std::filesystem::path root = std::filesystem::canonical(dir.path("."));
  std::filesystem::create_directories(root / "data/train");
  std::filesystem::create_directory_symlink(root / "data", root / "link");
  EXPECT_TRUE(open_real_folder(root / "data/train", O_PATH));
  for (const auto& path : {root / "link", root / "link/train"}) {
    const auto opened = open_real_folder(path, O_PATH);
    ASSERT_FALSE(opened) << path;
    EXPECT_EQ(opened.error().code, Code::kPermission) << opened.error().message;
  }
}

}  // namespace
}  // namespace carya::io
