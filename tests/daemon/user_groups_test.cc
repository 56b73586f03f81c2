// The files of cgroups, in a folder that has those of the kernel.
#include "loader/users/user_groups.h"

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

class UserGroupsTest : public testing::Test {
 protected:
  /// A folder of the kernel's, with its files.
  void folder(const std::string& path, const std::vector<std::string>& files) {
    fs::create_directories(dir_.path(path));
    for (const std::string& file : files) std::ofstream(dir_.path(path + "/" + file));
  }
  std::string text(const std::string& path) { return kernel_text(dir_.path(path)); }

  io::TempDir dir_;
};

TEST_F(UserGroupsTest, InVersion2ThisProcessMovesIntoAGroupOfItsOwnFirst) {
  folder("system.slice/caryad.service", {"cgroup.subtree_control"});
  std::ofstream(dir_.path("system.slice/caryad.service/cgroup.controllers")) << "cpuset cpu memory\n";
  folder("system.slice/caryad.service/host", {"cgroup.procs"});
  const auto groups = UserGroups::create(dir_.path(), "0::/system.slice/caryad.service\n");
  ASSERT_TRUE(groups) << groups.error().message;
  EXPECT_EQ(text("system.slice/caryad.service/host/cgroup.procs"), "0");
  EXPECT_EQ(text("system.slice/caryad.service/cgroup.subtree_control"), "+memory")
      << "the last that was written";

  folder("system.slice/caryad.service/user-1000", {"cpu.weight", "memory.max", "cgroup.procs"});
  for (const auto& [weight, wanted] : std::vector<std::pair<double, std::string>>{
           {1, "100"}, {3, "300"}, {0.5, "50"}, {1e-9, "1"}, {1e9, "10000"}}) {
    std::ofstream(dir_.path("system.slice/caryad.service/user-1000/cpu.weight"));
    const auto processes = groups->add("1000", {.weight = weight});
    ASSERT_TRUE(processes) << processes.error().message;
    ASSERT_EQ(processes->size(), 1u);
    EXPECT_EQ(text("system.slice/caryad.service/user-1000/cpu.weight"), wanted);
    EXPECT_EQ(write(processes->front().get(), "0", 1), 1);
    EXPECT_EQ(text("system.slice/caryad.service/user-1000/cgroup.procs"), "0");
  }
}

TEST_F(UserGroupsTest, InVersion1SharesAreWeights) {
  folder("cpu/batch", {"cpu.shares"});
  folder("cpu/batch/carya-users/user-7", {"cpu.shares", "cgroup.procs"});
  const auto groups = UserGroups::create(dir_.path(), "4:cpu,cpuacct:/batch\n0::/\n");
  ASSERT_TRUE(groups) << groups.error().message;
  EXPECT_FALSE(groups->keeps_memory());
  const auto processes = groups->add("7", {.weight = 2, .memory_bytes = 1 << 30});
  ASSERT_TRUE(processes) << processes.error().message;
  EXPECT_EQ(processes->size(), 1u);
  EXPECT_EQ(text("cpu/batch/carya-users/user-7/cpu.shares"), "2048");
}

TEST_F(UserGroupsTest, InVersion2AGroupHasAMostOfMemoryAndCountsWhatWasKilled) {
  folder("unit", {"cgroup.subtree_control"});
  std::ofstream(dir_.path("unit/cgroup.controllers")) << "cpu memory\n";
  folder("unit/host", {"cgroup.procs"});
  const auto groups = UserGroups::create(dir_.path(), "0::/unit\n");
  ASSERT_TRUE(groups) << groups.error().message;
  EXPECT_TRUE(groups->keeps_memory());
  folder("unit/user-7", {"cpu.weight", "memory.max", "cgroup.procs"});
  ASSERT_TRUE(groups->add("7", {.memory_bytes = 1 << 30}));
  EXPECT_EQ(text("unit/user-7/memory.max"), "1073741824");
  folder("unit/user-7", {"memory.max"});
  ASSERT_TRUE(groups->add("7", {}));
  EXPECT_EQ(text("unit/user-7/memory.max"), "max") << "a limit that was taken away";
  EXPECT_EQ(groups->killed("7"), 0u);
  std::ofstream(dir_.path("unit/user-7/memory.events")) << "low 0\nhigh 0\nmax 9\noom 4\noom_kill 3\n";
  EXPECT_EQ(groups->killed("7"), 3u);
}

TEST_F(UserGroupsTest, InVersion1MemoryHasATreeOfItsOwn) {
  folder("cpu", {"cpu.shares"});
  folder("cpu/carya-users/user-7", {"cpu.shares", "cgroup.procs"});
  folder("memory/session", {"memory.limit_in_bytes"});
  folder("memory/session/carya-users/user-7", {"memory.limit_in_bytes", "cgroup.procs"});
  const auto groups = UserGroups::create(dir_.path(), "4:memory:/session\n1:cpu:/\n0::/\n");
  ASSERT_TRUE(groups) << groups.error().message;
  EXPECT_TRUE(groups->keeps_memory());
  const auto processes = groups->add("7", {.memory_bytes = 123});
  ASSERT_TRUE(processes) << processes.error().message;
  ASSERT_EQ(processes->size(), 2u);
  for (const UniqueFd& one : *processes) EXPECT_EQ(write(one.get(), "0", 1), 1);
  EXPECT_EQ(text("cpu/carya-users/user-7/cgroup.procs"), "0");
  EXPECT_EQ(text("memory/session/carya-users/user-7/cgroup.procs"), "0");
  EXPECT_EQ(text("memory/session/carya-users/user-7/memory.limit_in_bytes"), "123");
  std::ofstream(dir_.path("memory/session/carya-users/user-7/memory.oom_control"))
      << "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n";
  EXPECT_EQ(groups->killed("7"), 2u);
}

TEST_F(UserGroupsTest, WhereNoGroupsCanBeMadeItIsSaid) {
  folder("plain", {});
  std::ofstream(dir_.path("plain/cgroup.controllers")) << "cpuset memory\n";
  for (const char* own : {"", "0::/\n", "0::/plain\n", "3:cpu:/nowhere\n"}) {
    const auto groups = UserGroups::create(dir_.path(), own);
    ASSERT_FALSE(groups) << own;
    EXPECT_THAT(groups.error().message, HasSubstr("there is no controller of processors"));
  }
  folder("one", {});
  std::ofstream(dir_.path("one/cgroup.controllers")) << "cpu\n";
  const auto groups = UserGroups::create(dir_.path(), "0::/one\n");
  ASSERT_FALSE(groups);
  EXPECT_THAT(groups.error().message, HasSubstr("cgroup.procs"));
}

}  // namespace
}  // namespace carya::loader
