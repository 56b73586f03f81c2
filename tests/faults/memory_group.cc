#include "tests/faults/memory_group.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>

#include "base/unique_fd.h"

namespace carya::faults {
namespace {

constexpr char kRoot[] = "/sys/fs/cgroup";

/// The folder of our own group, and its version. In a container the path may be the host's: then the mount's
/// root is ours.
struct OwnGroup {
  std::string folder;
  bool version2 = false;
};

OwnGroup own_group() {
  std::ifstream groups("/proc/self/cgroup");  // lines of "id:controllers:/path"
  std::string unified = "/";
  for (std::string line; std::getline(groups, line);) {
    const auto first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string path = line.substr(second + 1);
    if (controllers.empty()) unified = path;
    if (controllers != "memory") continue;
    const std::string mount = std::string(kRoot) + "/memory";
    return {std::filesystem::exists(mount + path) ? mount + path : mount, false};
  }
  return {std::filesystem::exists(kRoot + unified) ? kRoot + unified : kRoot, true};
}

Status write_to(const std::string& path, const std::string& text) {
  const UniqueFd file(open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (!file) return fail_errno(path, errno);
  if (write(file.get(), text.data(), text.size()) < 0) return fail_errno(path, errno);
  return {};
}

std::uint64_t number_in(const std::string& path, const std::string& key = "") {
  std::ifstream file(path);
  std::uint64_t value = 0;
  if (key.empty()) return file >> value ? value : 0;
  for (std::string word; file >> word;)
    if (word == key && file >> value) return value;
  return 0;
}

}  // namespace

Result<std::unique_ptr<MemoryGroup>> MemoryGroup::create() {
  const OwnGroup own = own_group();
  const std::string folder = own.folder + "/carya-faults-" + std::to_string(getpid());
  if (mkdir(folder.c_str(), 0700) != 0)
    return fail(Code::kUnsupported, "no memory cgroup may be made in " + own.folder, errno);
  std::unique_ptr<MemoryGroup> group(new MemoryGroup(own.folder, folder, own.version2));
  // Version 2: only where memory is in the parent's cgroup.subtree_control, which must then hold no process.
  constexpr std::uint64_t kProbe = 1ULL << 40;
  if (const Status limited = group->set_limit(kProbe); !limited)
    return fail(Code::kUnsupported, "a cgroup in " + own.folder + " has no limit of memory",
                limited.error().sys_errno);
  return group;
}

MemoryGroup::~MemoryGroup() {
  std::ifstream inside(folder_ + "/cgroup.procs");
  for (std::string pid; inside >> pid;) static_cast<void>(write_to(parent_ + "/cgroup.procs", pid));
  // Who was killed may be in it for a moment more.
  for (int i = 0; i < 1'000 && rmdir(folder_.c_str()) != 0 && errno == EBUSY; ++i) usleep(5'000);
}

Status MemoryGroup::enter(pid_t pid) {
  return write_to(folder_ + "/cgroup.procs", std::to_string(pid));
}

Status MemoryGroup::set_limit(std::uint64_t bytes) {
  return write_to(folder_ + (version2_ ? "/memory.max" : "/memory.limit_in_bytes"), std::to_string(bytes));
}

std::uint64_t MemoryGroup::usage() const {
  return number_in(folder_ + (version2_ ? "/memory.current" : "/memory.usage_in_bytes"));
}

std::uint64_t MemoryGroup::kills() const {
  return number_in(folder_ + (version2_ ? "/memory.events" : "/memory.oom_control"), "oom_kill");
}

}  // namespace carya::faults
