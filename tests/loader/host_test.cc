#include "loader/host/host.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <sstream>

namespace carya::loader {
namespace {

TEST(Host, ReadsQuotasOfBothCgroupVersions) {
  EXPECT_DOUBLE_EQ(quota_from_cpu_max("150000 100000"), 1.5);
  EXPECT_DOUBLE_EQ(quota_from_cpu_max("max 100000"), 0);
  EXPECT_DOUBLE_EQ(quota_from_cpu_max(""), 0);
  EXPECT_DOUBLE_EQ(quota_from_cfs(-1, 100000), 0);
  EXPECT_DOUBLE_EQ(quota_from_cfs(50000, 100000), 0.5);
  EXPECT_DOUBLE_EQ(quota_from_cfs(50000, 0), 0);
}

TEST(Host, NamesTheProcessorOfBothArchitectures) {
  std::istringstream intel(
      "processor\t: 0\nvendor_id\t: GenuineIntel\nmodel name\t: Intel(R) Xeon(R) 8480+\n");
  EXPECT_EQ(cpu_name_of(intel), "Intel(R) Xeon(R) 8480+");
  std::istringstream grace(
      "processor\t: 0\nCPU implementer\t: 0x41\nCPU variant\t: 0x0\nCPU part\t: 0xd4f\n");
  EXPECT_EQ(cpu_name_of(grace), "ARM 0x41/0xd4f");
  std::istringstream neither("processor\t: 0\n");
  EXPECT_EQ(cpu_name_of(neither), "");
}

TEST(Host, SharesCoresAmongLocalProcessesAndKeepsOne) {
  HostInfo facts;
  facts.allowed_cores = 8;
  facts.local_processes = 4;
  EXPECT_EQ(auto_threads(facts), 2u);
  facts.allowed_cores = 0.5;
  EXPECT_EQ(auto_threads(facts), 1u);
}

TEST(Host, CountsLocalProcessesByTheLaunchersVariables) {
  setenv("LOCAL_WORLD_SIZE", "3", 1);
  EXPECT_EQ(read_host_info().local_processes, 3u);
  setenv("LOCAL_WORLD_SIZE", "rubbish", 1);
  EXPECT_EQ(read_host_info().local_processes, 1u);
  unsetenv("LOCAL_WORLD_SIZE");
}

TEST(Host, FindsAtLeastOneCore) {
  const HostInfo facts = read_host_info();
  EXPECT_GE(facts.affinity_cores, 1u);
  EXPECT_GT(facts.allowed_cores, 0);
  EXPECT_GT(facts.memory_bytes, 0u);
}

}  // namespace
}  // namespace carya::loader
