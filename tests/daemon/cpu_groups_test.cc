// The files of cgroups, in a folder that has those of the kernel.
#include "loader/users/cpu_groups.h"

#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/cgroup.h"
#include "tests/io/temp_dir.h"

namespace carya::loader {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class CpuGroupsTest : public testing::Test {
 protected:
  /// A folder of the kernel's, with its files.
  void folder(const std::string& path, const std::vector<std::string>& files) {
    fs::create_directories(dir_.path(path));
    for (const std::string& file : files) std::ofstream(dir_.path(path + "/" + file));
  }
  std::string text(const std::string& path) { return kernel_text(dir_.path(path)); }

  io::TempDir dir_;
};

TEST_F(CpuGroupsTest, InVersion2ThisProcessMovesIntoAGroupOfItsOwnFirst) {
  folder("system.slice/caryad.service", {"cgroup.subtree_control"});
  std::ofstream(dir_.path("system.slice/caryad.service/cgroup.controllers")) << "cpuset cpu memory\n";
  folder("system.slice/caryad.service/host", {"cgroup.procs"});
  const auto groups = CpuGroups::create(dir_.path(), "0::/system.slice/caryad.service\n");
  ASSERT_TRUE(groups) << groups.error().message;
  EXPECT_EQ(text("system.slice/caryad.service/host/cgroup.procs"), "0");
  EXPECT_EQ(text("system.slice/caryad.service/cgroup.subtree_control"), "+cpu");

  folder("system.slice/caryad.service/user-1000", {"cpu.weight", "cgroup.procs"});
  for (const auto& [weight, wanted] : std::vector<std::pair<double, std::string>>{
           {1, "100"}, {3, "300"}, {0.5, "50"}, {1e-9, "1"}, {1e9, "10000"}}) {
    std::ofstream(dir_.path("system.slice/caryad.service/user-1000/cpu.weight"));
    const auto processes = groups->add("1000", weight);
    ASSERT_TRUE(processes) << processes.error().message;
    EXPECT_EQ(text("system.slice/caryad.service/user-1000/cpu.weight"), wanted);
    EXPECT_EQ(write(processes->get(), "0", 1), 1);
    EXPECT_EQ(text("system.slice/caryad.service/user-1000/cgroup.procs"), "0");
  }
}

TEST_F(CpuGroupsTest, InVersion1SharesAreWeights) {
  folder("cpu/batch", {"cpu.shares"});
  folder("cpu/batch/carya-users/user-7", {"cpu.shares", "cgroup.procs"});
  const auto groups = CpuGroups::create(dir_.path(), "4:cpu,cpuacct:/batch\n0::/\n");
  ASSERT_TRUE(groups) << groups.error().message;
  ASSERT_TRUE(groups->add("7", 2));
  EXPECT_EQ(text("cpu/batch/carya-users/user-7/cpu.shares"), "2048");
}

TEST_F(CpuGroupsTest, WhereNoGroupsCanBeMadeItIsSaid) {
  folder("plain", {});
  std::ofstream(dir_.path("plain/cgroup.controllers")) << "cpuset memory\n";
  for (const char* own : {"", "0::/\n", "0::/plain\n", "3:cpu:/nowhere\n"}) {
    const auto groups = CpuGroups::create(dir_.path(), own);
    ASSERT_FALSE(groups) << own;
    EXPECT_THAT(groups.error().message, HasSubstr("there is no controller of processors"));
  }
  folder("one", {});
  std::ofstream(dir_.path("one/cgroup.controllers")) << "cpu\n";
  const auto groups = CpuGroups::create(dir_.path(), "0::/one\n");
  ASSERT_FALSE(groups);
  EXPECT_THAT(groups.error().message, HasSubstr("cgroup.procs"));
}

}  // namespace
}  // namespace carya::loader
