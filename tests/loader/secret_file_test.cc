#include "loader/host/secret_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <thread>

namespace carya::loader {
namespace {

using testing::HasSubstr;

struct Secret : testing::Test {
  Secret() {
    std::string name = (std::filesystem::temp_directory_path() / "carya_secret_XXXXXX").string();
    CHECK(mkdtemp(name.data()) != nullptr);
    folder = name;
    path = folder + "/word";
  }
  ~Secret() override { std::filesystem::remove_all(folder); }
  /// The secret of a file with this text and mode, or why there is none.
  std::string read(const std::string& text, mode_t mode = 0600) const {
    std::ofstream(path, std::ios::binary) << text;
    CHECK(chmod(path.c_str(), mode) == 0);
    return read_again();
  }
  std::string read_again() const {
    const auto secret = read_secret("token", path, 10'000);
    return secret ? *secret : secret.error().message;
  }
  std::string folder, path;
};

TEST_F(Secret, IsTheTextWithoutTheSpaceAroundIt) {
  EXPECT_EQ(read(" \n open sesame\r\n"), "open sesame");
  EXPECT_EQ(read(std::string(10'000, 'x')), std::string(10'000, 'x'));
}

TEST_F(Secret, MustBeItsOwnersAlone) {
  for (const mode_t mode : {0640U, 0620U, 0604U, 0602U, 0601U})
    EXPECT_THAT(read("hush", mode), HasSubstr("token " + path + ": other users may read or write it"))
        << mode;
  EXPECT_EQ(read("hush", 0400), "hush");
}

// As a cluster mounts them: owned by root, with a group of the process.
TEST_F(Secret, MayBeReadByItsGroupWhereAnotherOwnsIt) {
  if (geteuid() != 0) GTEST_SKIP() << "only root gives a file away";
  constexpr uid_t kAnother = 54321;
  std::ofstream(path) << "hush";
  ASSERT_EQ(chown(path.c_str(), kAnother, getegid()), 0);
  for (const mode_t mode : {0440U, 0640U}) EXPECT_EQ(read("hush", mode), "hush") << mode;
  for (const mode_t mode : {0660U, 0444U, 0641U})
    EXPECT_THAT(read("hush", mode), HasSubstr("other users may read or write it")) << mode;
}

TEST_F(Secret, ThatChangesIsSeenOnce) {
  SecretFile file("token", path, 10'000);
  const auto seen = [&] {
    const auto secret = file.read();
    return !secret ? "error: " + secret.error().message : *secret ? **secret : "nothing new";
  };
  EXPECT_THAT(seen(), HasSubstr("error: token " + path + ": No such file"));
  EXPECT_EQ(seen(), "nothing new");
  read("first");
  EXPECT_EQ(seen(), "first");
  EXPECT_EQ(seen(), "nothing new");
  read("first\n", 0644);
  EXPECT_THAT(seen(), HasSubstr("other users may read"));
  EXPECT_EQ(seen(), "nothing new");
  read("second");
  EXPECT_EQ(seen(), "second");
}

TEST_F(Secret, ThatIsAPipeIsWaitedForOnce) {
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  std::thread writer([&] { std::ofstream(path) << "hush"; });
  SecretFile file("token", path, 10'000);
  EXPECT_EQ(**file.read(), "hush");
  writer.join();
  EXPECT_EQ(*file.read(), std::nullopt);  // nobody writes: reading would never end
}

TEST_F(Secret, MustBeThereAndOfSomeLength) {
  EXPECT_THAT(read_again(), HasSubstr("No such file"));
  for (const std::string& text : {std::string(), std::string(" \n\t\n"), std::string(10'001, 'x')})
    EXPECT_EQ(read(text), "token " + path + ": give 1 to 10000 bytes of text");
  path = folder;
  EXPECT_THAT(read_again(), HasSubstr("Is a directory"));
}

TEST_F(Secret, MayComeThroughAPipe) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  ASSERT_EQ(write(ends[1], "hush\n", 5), 5);
  close(ends[1]);
  path = "/dev/fd/" + std::to_string(ends[0]);
  EXPECT_EQ(read_again(), "hush");
  close(ends[0]);
}

}  // namespace
}  // namespace carya::loader
