#include "shm/memory_limit.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>
#include <string_view>

#include "base/cgroup.h"

namespace carya::shm {
namespace {

constexpr std::uint64_t kUnlimited = std::numeric_limits<std::uint64_t>::max();

/// The number after `key` in a file of "key number" lines; with an empty key, the file's first number.
std::optional<std::uint64_t> number_in(const std::string& path, std::string_view key) {
  std::ifstream file(path);
  std::string line;
  while (std::getline(file, line)) {
    if (!line.starts_with(key)) continue;
    std::istringstream rest(line.substr(key.size()));
    std::uint64_t value = 0;
    if (rest >> value) return value;
  }
  return std::nullopt;
}

/// File names of one cgroup version.
struct Names {
  const char* limit;
  const char* usage;
  const char* inactive;
  const char* active;
};
constexpr Names kVersion2{"/memory.max", "/memory.current", "inactive_file ", "active_file "};
constexpr Names kVersion1{"/memory.limit_in_bytes", "/memory.usage_in_bytes", "total_inactive_file ",
                          "total_active_file "};

/// The bytes that one cgroup folder still allows; unlimited if it has no number ("max" is none).
std::uint64_t room_in(const std::string& folder, const Names& names) {
  const auto limit = number_in(folder + names.limit, "");
  const auto usage = number_in(folder + names.usage, "");
  if (!limit || !usage) return kUnlimited;
  const std::string stat = folder + "/memory.stat";
  const std::uint64_t cache =
      number_in(stat, names.inactive).value_or(0) + number_in(stat, names.active).value_or(0);
  const std::uint64_t used = *usage - std::min(*usage, cache);
  return *limit - std::min(*limit, used);
}

}  // namespace

std::uint64_t available_memory_bytes(const std::string& root) {
  std::uint64_t room = kUnlimited;
  if (const auto kib = number_in(root + "/proc/meminfo", "MemAvailable:")) room = *kib * 1024;
  const std::string groups = kernel_text(root + "/proc/self/cgroup");
  // In a container the path may not exist; the mount's root then counts.
  const auto look = [&](const std::string& mount, const std::string& path, const Names& names) {
    each_ancestor(root + mount, path,
                  [&](const std::string& folder) { room = std::min(room, room_in(folder, names)); });
  };
  look("/sys/fs/cgroup", cgroup_path(groups, ""), kVersion2);
  look("/sys/fs/cgroup/memory", cgroup_path(groups, "memory"), kVersion1);
  return room;
}

std::uint64_t available_slot_bytes(const std::string& root) {
  const std::uint64_t available = available_memory_bytes(root);
  return available - std::min(available, kSpareBytes);
}

}  // namespace carya::shm
