#include "io/read/remote_storage.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/io/stuck_folder.h"
#include "tests/io/temp_dir.h"

namespace carya::io {
namespace {

using Layers = std::vector<std::string>;

TEST(RemoteStorage, LayersOfAnOverlayAreThoseOfItsMount) {
  const std::string mounts =
      "21 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n"
      "60 21 0:45 / /merged\\040here rw,relatime shared:30 master:2 - overlay none "
      "rw,lowerdir=/a:/with\\040space:/c\\134:d,upperdir=/up,workdir=/work,xino=off\n"
      "61 21 0:46 / /plain rw - overlay overlay rw,lowerdir+=/one,lowerdir+=/two,datadir+=/data\n"
      "62 21 0:47 / /other rw - tmpfs tmpfs rw,lowerdir=/no\n"
      "63 21 0:48 / /short rw - overlay";
  EXPECT_EQ(overlay_layers(mounts, makedev(0, 45)), (Layers{"/a", "/with space", "/c:d", "/up"}));
  EXPECT_EQ(overlay_layers(mounts, makedev(0, 46)), (Layers{"/one", "/two", "/data"}));
  EXPECT_EQ(overlay_layers(mounts, makedev(0, 47)), Layers{});
  EXPECT_EQ(overlay_layers(mounts, makedev(0, 48)), Layers{});
  EXPECT_EQ(overlay_layers(mounts, makedev(8, 1)), Layers{});
  EXPECT_EQ(overlay_layers("", makedev(0, 45)), Layers{});
  for (std::size_t bytes = 0; bytes < mounts.size(); ++bytes)  // cut off anywhere
    static_cast<void>(overlay_layers(std::string_view(mounts).substr(0, bytes), makedev(0, 45)));
}

/// In a mount namespace: an overlay of that folder. What it says of the overlay; -1: no such mount is allowed.
int asked_of_overlay(const std::string& lower, const std::string& at) {
  const pid_t child = fork();
  if (child == 0) {
    const bool allowed =
        unshare(CLONE_NEWNS) == 0 && mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
        mount("overlay", at.c_str(), "overlay", 0, ("lowerdir=" + lower + ":/usr").c_str()) == 0;
    _exit(allowed ? storage_is_remote(at) : 9);
  }
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return WEXITSTATUS(status) == 9 ? -1 : WEXITSTATUS(status);
}

TEST(RemoteStorage, IsSeenBelowAnOverlay) {
  const TempDir here, at;
  EXPECT_FALSE(storage_is_remote(here.path()));
  EXPECT_FALSE(storage_is_remote(here.path() + "/away"));
  EXPECT_FALSE(storage_is_remote(""));
  StuckFolder afar("", 0, true);
  if (!afar.mounted()) GTEST_SKIP() << "the system lets us mount nothing";
  EXPECT_TRUE(storage_is_remote(afar.path()));
  const int local = asked_of_overlay(here.path(), at.path());
  if (local == -1) GTEST_SKIP() << "the system lets us mount no overlay";
  EXPECT_EQ(local, 0);
  EXPECT_EQ(asked_of_overlay(afar.path(), at.path()), 1);
}

}  // namespace
}  // namespace carya::io
