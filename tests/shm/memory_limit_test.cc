#include "shm/memory_limit.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace carya::shm {
namespace {

/// A made-up /proc and /sys in a folder of its own.
class FakeSystem {
 public:
  FakeSystem() {
    std::string name = (std::filesystem::temp_directory_path() / "carya-memory-XXXXXX").string();
    EXPECT_NE(mkdtemp(name.data()), nullptr);
    root_ = name;
    put("proc/meminfo", "MemTotal:       1000 kB\nMemAvailable:    900 kB\n");
  }
  ~FakeSystem() { std::filesystem::remove_all(root_); }
  void put(const std::string& path, const std::string& text) {
    const auto file = root_ / path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  std::uint64_t available() const { return available_memory_bytes(root_.string()); }
  std::uint64_t available_to_slots() const { return available_slot_bytes(root_.string()); }

 private:
  std::filesystem::path root_;
};

TEST(MemoryLimit, TheMachineAloneLimits) {
  FakeSystem system;
  EXPECT_EQ(system.available(), 900u * 1024);
}

TEST(MemoryLimit, EveryGroupAboveTheProcessLimits) {
  FakeSystem system;
  system.put("proc/self/cgroup", "0::/outer/inner\n");
  system.put("sys/fs/cgroup/outer/inner/memory.max", "max\n");
  system.put("sys/fs/cgroup/outer/inner/memory.current", "1000\n");
  system.put("sys/fs/cgroup/outer/memory.max", "100000\n");
  system.put("sys/fs/cgroup/outer/memory.current", "70000\n");
  system.put("sys/fs/cgroup/outer/memory.stat", "anon 1\nactive_file 2000\ninactive_file 10000\n");
  EXPECT_EQ(system.available(), 100000u - (70000 - 12000)) << "page cache can be dropped";
}

TEST(MemoryLimit, InsideAContainerTheRootOfTheMountCounts) {
  FakeSystem system;
  system.put("proc/self/cgroup", "0::/../not/visible\n");
  system.put("sys/fs/cgroup/memory.max", "50000\n");
  system.put("sys/fs/cgroup/memory.current", "60000\n");
  EXPECT_EQ(system.available(), 0u) << "over the limit is no room, not a wrap";
}

TEST(MemoryLimit, Version1IsReadToo) {
  FakeSystem system;
  system.put("proc/self/cgroup", "5:cpu:/\n4:hugetlb,memory:/job\n");
  system.put("sys/fs/cgroup/memory/job/memory.limit_in_bytes", "40000\n");
  system.put("sys/fs/cgroup/memory/job/memory.usage_in_bytes", "10000\n");
  system.put("sys/fs/cgroup/memory/job/memory.stat", "total_active_file 1\ntotal_inactive_file 2\n");
  EXPECT_EQ(system.available(), 30003u);
}

TEST(MemoryLimit, ThisMachineHasSome) {
  EXPECT_GT(available_memory_bytes(), 1u << 20);
}

TEST(MemoryLimit, SlotsLeaveSomeOfIt) {
  FakeSystem system;
  const std::uint64_t spare_kib = kSpareBytes / 1024;
  system.put("proc/meminfo", "MemAvailable: " + std::to_string(spare_kib + 5) + " kB\n");
  EXPECT_EQ(system.available_to_slots(), 5u * 1024);
  system.put("proc/meminfo", "MemAvailable: " + std::to_string(spare_kib - 1) + " kB\n");
  EXPECT_EQ(system.available_to_slots(), 0u) << "no wrap";
}

}  // namespace
}  // namespace carya::shm
