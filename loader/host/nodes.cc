#include "loader/host/nodes.h"

#include <linux/mempolicy.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/cgroup.h"

namespace carya::loader {
namespace {

constexpr std::size_t kLooksMax = 1024;
constexpr std::size_t kWordBits = 8 * sizeof(unsigned long);
using NodeMask = std::array<unsigned long, (kNodeMax + 1) / kWordBits>;

std::optional<int> number(std::string_view text) {
  int found = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), found);
  if (error != std::errc() || end != text.data() + text.size() || found < 0) return std::nullopt;
  return found;
}

/// The cores of "0-3,8" that `allowed` has.
std::vector<int> cores_of(std::string_view list, const cpu_set_t& allowed) {
  std::vector<int> cores;
  while (!list.empty()) {
    const std::string_view range = list.substr(0, list.find(','));
    list.remove_prefix(std::min(list.size(), range.size() + 1));
    const auto first = number(range.substr(0, range.find('-')));
    const auto last =
        range.find('-') == std::string_view::npos ? first : number(range.substr(range.find('-') + 1));
    if (!first || !last) continue;
    for (int core = *first; core <= std::min(*last, CPU_SETSIZE - 1); ++core)
      if (CPU_ISSET(core, &allowed)) cores.push_back(core);
  }
  std::ranges::sort(cores);
  const auto twice = std::ranges::unique(cores);
  cores.erase(twice.begin(), twice.end());
  return cores;
}

long set_policy(int mode, const NodeMask* mask) {
  return syscall(
      SYS_set_mempolicy, mode, mask == nullptr ? nullptr : mask->data(),
      mask == nullptr ? 0UL : static_cast<unsigned long>(kNodeMax) + 2);  // the kernel takes one less
}

}  // namespace

std::vector<Node> read_nodes(const std::filesystem::path& folder) {
  std::vector<Node> nodes;
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return nodes;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (!name.starts_with("node")) continue;
    const auto node = number(std::string_view(name).substr(4));
    if (!node || *node > kNodeMax) continue;
    const std::string list = kernel_text((entry->path() / "cpulist").string());
    Node found{.number = *node,
               .cores = cores_of(std::string_view(list).substr(0, list.find('\n')), allowed)};
    if (!found.cores.empty()) nodes.push_back(std::move(found));
  }
  std::ranges::sort(nodes, {}, &Node::number);
  return nodes;
}

std::int32_t own_node(const std::vector<Node>& nodes) {
  return nodes.size() == 1 ? nodes.front().number : kNoNode;
}

bool run_on(const Node& node) {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  for (const int core : node.cores) CPU_SET(core, &cores);
  return sched_setaffinity(0, sizeof cores, &cores) == 0;  // of the thread
}

MemoryOfNode::MemoryOfNode(std::int32_t node) {
  if (node < 0 || node > kNodeMax) return;
  int mode = MPOL_DEFAULT;
  if (syscall(SYS_get_mempolicy, &mode, nullptr, 0UL, nullptr, 0UL) != 0 || mode != MPOL_DEFAULT) return;
  NodeMask mask{};
  const auto at = static_cast<std::size_t>(node);
  mask[at / kWordBits] = 1UL << (at % kWordBits);
  works_ = set_policy(MPOL_PREFERRED, &mask) == 0;
}

MemoryOfNode::~MemoryOfNode() {
  if (works_) set_policy(MPOL_DEFAULT, nullptr);
}

std::vector<NodeShare> node_shares(std::span<const std::span<const std::byte>> pieces) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  const std::size_t of_each =
      pieces.empty() ? 0 : std::max<std::size_t>(1, kLooksMax / std::max<std::size_t>(1, pieces.size()));
  std::vector<void*> pages;
  for (const std::span<const std::byte>& piece : pieces.first(std::min(pieces.size(), kLooksMax))) {
    const std::size_t there = piece.size() / page, looks = std::min(of_each, there);
    for (std::size_t i = 0; i < looks; ++i)
      pages.push_back(const_cast<std::byte*>(piece.data()) + i * there / looks * page);
  }
  std::vector<int> status(pages.size(), -1);
  if (pages.empty() || syscall(SYS_move_pages, 0, pages.size(), pages.data(), nullptr, status.data(), 0) != 0)
    return {};
  std::map<std::int32_t, double> counts;
  double seen = 0;
  for (const int node : status)
    if (node >= 0) ++counts[node], ++seen;
  std::vector<NodeShare> shares;
  for (const auto& [node, count] : counts) shares.push_back({node, count / seen});
  return shares;
}

std::vector<std::size_t> spread_threads(const std::vector<Node>& nodes,
                                        const std::vector<NodeDemand>& demands, std::size_t threads) {
  std::vector<double> left(nodes.size());  // what is wanted of each, as far as it has cores
  double of_any = 0, cores = 0;
  for (const Node& node : nodes) cores += static_cast<double>(node.cores.size());
  for (const NodeDemand& demand : demands) {
    const auto found = std::ranges::find(nodes, demand.node, &Node::number);
    if (found == nodes.end())
      of_any += demand.threads;
    else
      left[static_cast<std::size_t>(found - nodes.begin())] += demand.threads;
  }
  std::vector<double> free(nodes.size());  // cores
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    free[i] = static_cast<double>(nodes[i].cores.size());
    left[i] = std::min(left[i] + of_any * free[i] / cores, free[i]);
  }
  std::vector<std::size_t> at;
  for (std::size_t thread = 0; thread < threads; ++thread) {
    const auto most = std::ranges::max_element(left);
    const auto chosen = static_cast<std::size_t>(*most > 0 ? most - left.begin()
                                                           : std::ranges::max_element(free) - free.begin());
    --left[chosen], --free[chosen];
    at.push_back(chosen);
  }
  return at;
}

}  // namespace carya::loader
