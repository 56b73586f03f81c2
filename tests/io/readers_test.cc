// Who may read a file by its mode and folders, and that files which are made for them have no other readers.
#include "io/rights/readers.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <filesystem>
#include <span>

#include "base/unique_fd.h"
#include "tests/io/other_user.h"
#include "tests/io/temp_dir.h"

namespace carya::io {
namespace {

namespace fs = std::filesystem;
using Who = Readers::Who;

/// A folder and a file in it that everybody may read.
struct Open {
  Open() {
    ::chmod(dir.path().c_str(), 0755);
    ::mkdir(folder.c_str(), 0755);
    ::chmod(folder.c_str(), 0755);
    dir.write("folder/file", "x");
    ::chmod(file.c_str(), 0644);
  }
  Who who(const std::string& path) const { return readers_of(path).who; }

  const TempDir dir;
  const std::string folder = dir.path("folder"), file = dir.path("folder/file");
};

/// The entries of an ACL (type, permissions, number), as the kernel has them.
struct Entry {
  std::uint16_t tag, permissions;
  std::uint32_t id;
};

/// Give a file an ACL that lets its group do nothing, and user 1 read. False: the file system has none.
bool set_acl(const std::string& path, const char* kind = "system.posix_acl_access") {
  struct {
    std::uint32_t version = 2;
    Entry entries[5] = {{0x01, 6, UINT32_MAX},  // the owner
                        {0x02, 4, 1},           // user 1
                        {0x04, 0, UINT32_MAX},  // the group
                        {0x10, 4, UINT32_MAX},  // the mask, which a mode shows as the group's
                        {0x20, 4, UINT32_MAX}};
  } acl;
  static_assert(sizeof acl == 4 + 5 * 8);
  return ::setxattr(path.c_str(), kind, &acl, sizeof acl, 0) == 0;
}

/// A new file in the folder, let be read by `readers`: its mode and group.
struct Made {
  mode_t mode;
  gid_t group;
};
Made made_for(const TempDir& dir, const Readers& readers) {
  const std::string path = dir.path("made");
  ::unlink(path.c_str());
  const UniqueFd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL, 0600));
  EXPECT_TRUE(let_read(fd.get(), readers, path));
  struct stat status{};
  EXPECT_EQ(::fstat(fd.get(), &status), 0);
  return {status.st_mode & 0777u, status.st_gid};
}

TEST(Readers, BothAreThoseOfEach) {
  const Readers all = Readers::everybody(), one = Readers::of_group(1), other = Readers::of_group(2);
  EXPECT_EQ(both(all, all), all);
  EXPECT_EQ(both(all, one), one);
  EXPECT_EQ(both(one, all), one);
  EXPECT_EQ(both(one, one), one);
  EXPECT_EQ(both(one, other), Readers());
  EXPECT_EQ(both(all, {}), Readers());
  EXPECT_EQ(both({}, one), Readers());
}

TEST(Readers, OfAFileAreWhomItsModeLets) {
  const Open open;
  struct stat status;
  ASSERT_EQ(::stat(open.file.c_str(), &status), 0);
  const Readers group = Readers::of_group(status.st_gid);
  const std::pair<mode_t, Readers> cases[] = {
      {0644, Readers::everybody()}, {0640, group}, {0600, {}}, {0400, {}},
      {0666, Readers::everybody()}, {0604, {}},  // the group's members may not
      {0755, Readers::everybody()}, {0622, {}}};
  for (const auto& [mode, readers] : cases) {
    ::chmod(open.file.c_str(), mode);
    EXPECT_EQ(readers_of(open.file), readers) << std::oct << mode;
  }
  EXPECT_EQ(open.who(open.dir.path("none")), Who::kNobody);
}

TEST(Readers, MayGoThroughEachFolderFromTheRootOn) {
  const Open open;
  EXPECT_EQ(open.who(open.file), Who::kEverybody);
  for (const std::string& folder : {open.folder, open.dir.path()}) {
    ::chmod(folder.c_str(), 0711);  // searched, not listed
    EXPECT_EQ(open.who(open.file), Who::kEverybody);
    ::chmod(folder.c_str(), 0750);
    EXPECT_EQ(open.who(open.file), Who::kGroup);
    ::chmod(folder.c_str(), 0744);
    EXPECT_EQ(open.who(open.file), Who::kNobody);
    ::chmod(folder.c_str(), 0700);
    EXPECT_EQ(open.who(open.file), Who::kNobody);
    ::chmod(folder.c_str(), 0755);
  }
}

TEST(Readers, OfAFolderAreThoseWhoMayListIt) {
  const Open open;
  EXPECT_EQ(open.who(open.folder), Who::kEverybody);
  ::chmod(open.folder.c_str(), 0711);
  EXPECT_EQ(open.who(open.folder), Who::kNobody);
  ::chmod(open.folder.c_str(), 0754);
  EXPECT_EQ(open.who(open.folder), Who::kGroup);
}

TEST(Readers, OfALinkAreThoseOfWhatItLeadsTo) {
  const Open open;
  const std::string hidden = open.dir.path("hidden");
  ::mkdir(hidden.c_str(), 0700);
  open.dir.write("hidden/file", "x");
  ::chmod((hidden + "/file").c_str(), 0644);
  fs::create_symlink(hidden + "/file", open.folder + "/link");
  EXPECT_EQ(open.who(open.folder + "/link"), Who::kNobody);
  fs::create_directory_symlink(hidden, open.folder + "/way");
  EXPECT_EQ(open.who(open.folder + "/way/file"), Who::kNobody);
  fs::create_symlink(open.file, hidden + "/out");
  EXPECT_EQ(open.who(hidden + "/out"), Who::kEverybody) << "the bytes lie where everybody may read them";
}

TEST(Readers, WithAnAclAreNobody) {
  const Open open;
  if (!set_acl(open.file)) GTEST_SKIP() << "no ACLs here";
  struct stat status;
  ASSERT_EQ(::stat(open.file.c_str(), &status), 0);
  ASSERT_EQ(status.st_mode & 0777, 0644u) << "its group, which may not read, seems to";
  EXPECT_EQ(open.who(open.file), Who::kNobody);
  ::removexattr(open.file.c_str(), "system.posix_acl_access");
  EXPECT_EQ(open.who(open.file), Who::kEverybody);
  ASSERT_TRUE(set_acl(open.folder));
  ::chmod(open.folder.c_str(), 0755);
  EXPECT_EQ(open.who(open.file), Who::kNobody);
}

TEST(Readers, OfAGroupWithoutANumberAreNobody) {
  const Open open;
  ::chmod(open.file.c_str(), 0640);
  if (::chown(open.file.c_str(), static_cast<uid_t>(-1), 65534) != 0) GTEST_SKIP() << "needs root";
  EXPECT_EQ(open.who(open.file), Who::kNobody);
}

TEST(ReadersOfFiles, AreThoseOfEachFileAndOfFoldersAsLongAsTheyAreRemembered) {
  const Open open;
  ReadersOfFiles fresh(0), old(INT64_MAX);
  const std::string hidden = open.dir.path("hidden");
  ::mkdir(hidden.c_str(), 0700);
  open.dir.write("hidden/file", "x");
  fs::create_symlink(hidden + "/file", open.folder + "/link");
  for (ReadersOfFiles* const files : {&fresh, &old}) {
    EXPECT_EQ(files->of(open.file), Readers::everybody());
    EXPECT_EQ(files->of(open.folder + "/none"), Readers());
    EXPECT_EQ(files->of(open.folder + "/link"), Readers());
    EXPECT_EQ(files->of(hidden + "/file"), Readers());
    ::chmod(open.file.c_str(), 0600);
    EXPECT_EQ(files->of(open.file), Readers());
    ::chmod(open.file.c_str(), 0644);
    if (set_acl(open.file)) EXPECT_EQ(files->of(open.file), Readers());
    ::removexattr(open.file.c_str(), "system.posix_acl_access");
  }
  ::chmod(open.folder.c_str(), 0700);
  EXPECT_EQ(fresh.of(open.file), Readers());
  EXPECT_EQ(old.of(open.file), Readers::everybody());
}

TEST(LetRead, AtMostThoseAndTheUmask) {
  const TempDir dir;
  const mode_t before = ::umask(022);
  EXPECT_EQ(made_for(dir, Readers::everybody()).mode, 0644u);
  EXPECT_EQ(made_for(dir, {}).mode, 0600u);
  const Made group = made_for(dir, Readers::of_group(::getegid()));
  EXPECT_EQ(group.mode, 0640u);
  EXPECT_EQ(group.group, ::getegid());
  ::umask(027);
  EXPECT_EQ(made_for(dir, Readers::everybody()).mode, 0640u);
  ::umask(077);
  EXPECT_EQ(made_for(dir, Readers::everybody()).mode, 0600u);
  EXPECT_EQ(made_for(dir, Readers::of_group(::getegid())).mode, 0600u);
  ::umask(before);
}

TEST(LetRead, AGroupThatTheFileCannotHaveReadsNothing) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, to become another user";
  const TempDir dir;
  ::chmod(dir.path().c_str(), 0777);
  EXPECT_TRUE(as_other([&] {
    ::umask(022);
    const Made own = made_for(dir, Readers::of_group(70'001));
    const Made none = made_for(dir, Readers::of_group(70'002));
    return own.mode == 0640 && own.group == 70'001 && none.mode == 0600;
  }));
}

TEST(LetRead, AFolderThatGivesFilesAnAclLetsNoGroupRead) {
  const TempDir dir;
  if (!set_acl(dir.path(), "system.posix_acl_default")) GTEST_SKIP() << "no ACLs here";
  EXPECT_EQ(made_for(dir, Readers::of_group(::getegid())).mode, 0600u);
  EXPECT_EQ(made_for(dir, {}).mode, 0600u);
}

TEST(LetRead, AFileWhoseModeCannotBeChangedIsRefused) {
  const Open open;
  const UniqueFd fd(::open(open.file.c_str(), O_PATH));  // as on a file system without modes
  EXPECT_TRUE(let_read(fd.get(), Readers::everybody(), open.file));
  const Status refused = let_read(fd.get(), {}, open.file);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kUnsupported);
}

TEST(LetRead, KeepFromOthersTakesRightsAndGivesNone) {
  const Open open;
  const auto keep = [&](mode_t mode, const Readers& readers) {
    ::chmod(open.file.c_str(), mode);
    const UniqueFd fd(::open(open.file.c_str(), O_RDONLY));
    EXPECT_TRUE(keep_from_others(fd.get(), readers, open.file));
    return static_cast<unsigned>(fs::status(open.file).permissions());
  };
  struct stat status;
  ASSERT_EQ(::stat(open.file.c_str(), &status), 0);
  const Readers group = Readers::of_group(status.st_gid), other = Readers::of_group(status.st_gid + 1);
  const mode_t before = ::umask(022);
  EXPECT_EQ(keep(0644, {}), 0600u);
  EXPECT_EQ(keep(0644, group), 0640u);
  EXPECT_EQ(keep(0640, other), 0600u);
  EXPECT_EQ(keep(0604, Readers::everybody()), 0600u);
  EXPECT_EQ(keep(0604, {}), 0600u);
  EXPECT_EQ(keep(0666, Readers::everybody()), 0666u);
  EXPECT_EQ(keep(0640, Readers::everybody()), 0640u);
  EXPECT_EQ(keep(0600, Readers::everybody()), 0600u);
  ::umask(before);
  if (::geteuid() != 0) return;
  ::chmod(open.file.c_str(), 0644);
  EXPECT_TRUE(as_other([&] {
    const UniqueFd fd(::open(open.file.c_str(), O_RDONLY));
    const Status kept = keep_from_others(fd.get(), {}, open.file);
    return !kept && kept.error().code == Code::kPermission;
  }));
}

}  // namespace
}  // namespace carya::io
