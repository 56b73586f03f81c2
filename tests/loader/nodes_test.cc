#include "loader/host/nodes.h"

#include <gtest/gtest.h>
#include <linux/mempolicy.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <numeric>
#include <thread>

#include "tests/io/temp_dir.h"
#include "tests/loader/job_reading.h"
#include "tests/loader/photo_folder.h"

namespace carya::loader {
namespace {

/// The cores that this process may use.
std::vector<int> allowed() {
  cpu_set_t set;
  EXPECT_EQ(sched_getaffinity(0, sizeof set, &set), 0);
  std::vector<int> cores;
  for (int core = 0; core < CPU_SETSIZE; ++core)
    if (CPU_ISSET(core, &set)) cores.push_back(core);
  return cores;
}

/// Policy of this thread; none where the kernel does not tell.
std::optional<int> policy() {
  int mode = -1;
  if (syscall(SYS_get_mempolicy, &mode, nullptr, 0UL, nullptr, 0UL) != 0) return std::nullopt;
  return mode;
}

/// Whether this kernel and container let a thread prefer node 0.
bool may_prefer() {
  unsigned long mask = 1;
  return policy() && syscall(SYS_set_mempolicy, MPOL_PREFERRED, &mask, 64UL) == 0 &&
         syscall(SYS_set_mempolicy, MPOL_DEFAULT, nullptr, 0UL) == 0;
}

TEST(Nodes, AreReadWithTheCoresThatMayBeUsed) {
  const io::TempDir folder;
  const std::vector<int> cores = allowed();
  const auto add = [&](const std::string& name, const std::string& list) {
    std::filesystem::create_directory(folder.path() + "/" + name);
    std::ofstream(folder.path() + "/" + name + "/cpulist") << list << "\n";
  };
  add("node10", std::to_string(cores.front()));
  add("node2", "0-1023");
  add("node3", "");                                   // memory alone
  add("node4", "1000-1001,x,-3,5-,7-6,99999999999");  // nothing that may be used
  add("node1024", "0");
  add("nodes", "0");
  add("node-1", "0");
  const std::vector<Node> nodes = read_nodes(folder.path());
  ASSERT_EQ(nodes.size(), 2u);
  EXPECT_EQ(nodes[0].number, 2);
  EXPECT_EQ(nodes[0].cores, cores);
  EXPECT_EQ(nodes[1].number, 10);
  EXPECT_EQ(nodes[1].cores, std::vector{cores.front()});
  EXPECT_EQ(own_node(nodes), kNoNode) << "cores are on two";
  EXPECT_EQ(own_node({nodes[1]}), 10);
  EXPECT_TRUE(read_nodes(folder.path() + "/away").empty());
  EXPECT_EQ(own_node({}), kNoNode);
}

TEST(Nodes, AThreadRunsOnTheCoresOfItsNodeAndOthersDoNot) {
  const std::vector<int> cores = allowed();
  std::thread([&] {
    EXPECT_TRUE(run_on({.number = 0, .cores = {cores.back()}}));
    EXPECT_EQ(allowed(), std::vector{cores.back()});
    EXPECT_FALSE(run_on({.number = 1, .cores = {}}));
    EXPECT_EQ(allowed(), std::vector{cores.back()});
  }).join();
  EXPECT_EQ(allowed(), cores);
}

TEST(Nodes, MemoryIsPreferredThereForAsLongAsItIsSaid) {
  EXPECT_FALSE(MemoryOfNode(kNoNode).works());
  EXPECT_FALSE(MemoryOfNode(kNodeMax + 1).works());
  {
    const MemoryOfNode here(0);
    EXPECT_EQ(here.works(), may_prefer());  // asks for the default behind it
  }
  if (!policy()) return;
  EXPECT_EQ(policy(), MPOL_DEFAULT);
  if (!may_prefer()) return;
  {
    const MemoryOfNode here(0);
    EXPECT_EQ(policy(), MPOL_PREFERRED);
  }
  EXPECT_EQ(policy(), MPOL_DEFAULT);
  {
    const MemoryOfNode nowhere(kNodeMax);
    EXPECT_FALSE(nowhere.works());
    EXPECT_EQ(policy(), MPOL_DEFAULT);
  }
  // What somebody chose for the process stays.
  unsigned long mask = 1;
  ASSERT_EQ(syscall(SYS_set_mempolicy, MPOL_INTERLEAVE, &mask, 64UL), 0);
  {
    const MemoryOfNode here(0);
    EXPECT_FALSE(here.works());
    EXPECT_EQ(policy(), MPOL_INTERLEAVE);
  }
  EXPECT_EQ(policy(), MPOL_INTERLEAVE);
  syscall(SYS_set_mempolicy, MPOL_DEFAULT, nullptr, 0UL);
}

TEST(Nodes, SharesCountThePagesThatAreThere) {
  EXPECT_TRUE(node_shares({}).empty());
  constexpr std::size_t kBytes = 64 << 12;
  void* const memory = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  const std::vector<std::span<const std::byte>> pieces(3000, {static_cast<std::byte*>(memory), kBytes});
  EXPECT_TRUE(node_shares(pieces).empty()) << "no page was touched";
  std::memset(memory, 1, kBytes);
  double sum = 0;
  const std::vector<NodeShare> shares = node_shares(pieces);
  for (const NodeShare& one : shares) sum += one.share;
  if (policy()) {
    EXPECT_NEAR(sum, 1, 1e-9);
  }
  munmap(memory, kBytes);
}

TEST(Nodes, ThreadsGoWhereBatchesAreWantedAndCoresAreLeft) {
  const auto node = [](std::int32_t number, int cores) {
    Node made{.number = number, .cores = std::vector<int>(static_cast<std::size_t>(cores))};
    std::iota(made.cores.begin(), made.cores.end(), 100 * number);
    return made;
  };
  const std::vector<Node> two{node(0, 4), node(1, 4)};
  using Places = std::vector<std::size_t>;
  EXPECT_EQ(spread_threads(two, {{1, 2}}, 2), (Places{1, 1}));
  EXPECT_EQ(spread_threads(two, {{0, 1}, {1, 1}}, 2), (Places{0, 1}));
  EXPECT_EQ(spread_threads(two, {{kNoNode, 4}}, 4), (Places{0, 1, 0, 1}));
  EXPECT_EQ(spread_threads(two, {{7, 4}}, 4), (Places{0, 1, 0, 1})) << "a node of another machine";
  EXPECT_EQ(spread_threads(two, {}, 2), (Places{0, 1}));
  // More than the node has cores: the others go to the other one.
  const Places many = spread_threads(two, {{1, 6}}, 6);
  EXPECT_EQ(std::ranges::count(many, 1u), 4);
  EXPECT_EQ(std::ranges::count(many, 0u), 2);
  const std::vector<Node> unlike{node(0, 6), node(1, 2)};
  EXPECT_EQ(std::ranges::count(spread_threads(unlike, {{kNoNode, 8}}, 8), 1u), 2);
  const Places few = spread_threads(two, {{kNoNode, 8}}, 3), all = spread_threads(two, {{kNoNode, 8}}, 8);
  EXPECT_TRUE(std::ranges::equal(few, std::span(all).first(3)));
  EXPECT_EQ(spread_threads(two, {{0, 1}}, 40).size(), 40u) << "more threads than cores";
}

TEST(Nodes, AStreamsSlotsAreWhereItsReaderWantsThem) {
  const PhotoFolder folder(8);
  const Opened opened =
      open_folder(folder.path(), R"({"batch_size":2,"global_size":null,"drop_last":true,"pad_last":false})");
  const auto job = start(opened, {.node = 0});
  ASSERT_TRUE(job->next(60'000));
  const auto stats = job->stats();
  EXPECT_EQ(stats.slots_node, may_prefer() ? 0 : kNoNode);
  double sum = 0;
  for (const NodeShare& one : stats.slots_nodes) sum += one.share;
  if (policy()) {
    EXPECT_NEAR(sum, 1, 1e-9);
  }
  // A node that this machine has not: said, and nothing is lost.
  const auto other = start(opened, {.node = kNodeMax});
  EXPECT_TRUE(other->next(60'000));
  EXPECT_EQ(other->stats().slots_node, kNoNode);
  EXPECT_FALSE(Job::create(opened.pipeline, opened.dataset, {.node = kNodeMax + 1}));
  EXPECT_FALSE(Job::create(opened.pipeline, opened.dataset, {.node = -2}));
}

}  // namespace
}  // namespace carya::loader
