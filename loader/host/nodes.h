#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

namespace carya::loader {

/// The largest number of a node, and one less than how many there may be.
inline constexpr std::int32_t kNodeMax = 1023;
/// No node: nothing is said of where memory or threads are to be.
inline constexpr std::int32_t kNoNode = -1;

/// A NUMA node: cores that are nearer to one part of the memory than to the rest.
struct Node {
  std::int32_t number = 0;
  std::vector<int> cores;  ///< those that the calling thread may use, in order
};

/// The nodes with cores that the calling thread may use, by number. Empty where the kernel says of none. It never fails:
/// what cannot be read is left out. Source: Linux, Documentation/ABI/stable/sysfs-devices-node.
std::vector<Node> read_nodes(const std::filesystem::path& folder = "/sys/devices/system/node");

/// The node of all cores that the calling thread may use; kNoNode where they are on several, or the kernel says of none.
std::int32_t own_node(const std::vector<Node>& nodes = read_nodes());

/// The calling thread runs on the node's cores from now on. Returns whether the kernel allows it.
bool run_on(const Node& node);

/// While it lives, memory that the calling thread takes is the node's as far as that has any free: pages that it touches
/// first, and those of files in memory that it allocates. Threads: made and destroyed by one thread.
class MemoryOfNode {
 public:
  /// kNoNode: it does nothing.
  explicit MemoryOfNode(std::int32_t node);
  ~MemoryOfNode();
  MemoryOfNode(const MemoryOfNode&) = delete;
  MemoryOfNode& operator=(const MemoryOfNode&) = delete;

  /// False where somebody set a policy for the thread (numactl), which stays; or where the kernel refuses it: a container's
  /// filter of system calls, a node without memory or of another cpuset.
  bool works() const { return works_; }

 private:
  bool works_ = false;
};

struct NodeShare {
  std::int32_t node = 0;
  double share = 0;
};

/// On which nodes pieces of memory lie: of each node the share of the pages that were looked at. Some pages of each piece are
/// looked at, at most some 1,000 in all; those that are not there do not count. Empty where the kernel does not say.
std::vector<NodeShare> node_shares(std::span<const std::span<const std::byte>> pieces);

/// How many threads want to run on a node; of kNoNode on any.
struct NodeDemand {
  std::int32_t node = kNoNode;
  std::uint32_t threads = 0;
};

/// Of each of `threads` threads the index of the node that it runs on. A node has what is wanted of it, as far as it has
/// cores; other threads go where most cores are left. The first threads stay where they are when more are added for the
/// same demands. Needs at least one node.
std::vector<std::size_t> spread_threads(const std::vector<Node>& nodes,
                                        const std::vector<NodeDemand>& demands, std::size_t threads);

}  // namespace carya::loader
