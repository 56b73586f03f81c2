#include "loader/users/cpu_groups.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/core.h>
#include <algorithm>
#include <cerrno>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <sstream>

#include "base/cgroup.h"

namespace carya::loader {
namespace {

constexpr double kUnifiedWeight = 100, kSharesWeight = 1024;  // what a group has by default
constexpr double kUnifiedMax = 10'000, kSharesMax = 262'144;

Status write_text(const std::string& path, const std::string& text) {
  const UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (!fd || ::write(fd.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()))
    return fail_errno("cgroup " + path, errno);
  return {};
}

Status make_folder(const std::string& path) {
  if ((::mkdir(path.c_str(), 0755) != 0 && errno != EEXIST) || ::access(path.c_str(), W_OK) != 0)
    return fail_errno("cgroup " + path, errno);
  return {};
}

bool has_word(const std::string& text, const std::string& word) {
  std::istringstream words(text);
  return std::find(std::istream_iterator<std::string>(words), {}, word) !=
         std::istream_iterator<std::string>();
}

}  // namespace

Result<CpuGroups> CpuGroups::create(const std::string& mount, const std::string& own) {
  if (const std::string path = cgroup_path(own, "cpu"); !path.empty()) {  // version 1, also beside version 2
    const std::string folder = mount + "/cpu" + (path == "/" ? "" : path);
    if (::access((folder + "/cpu.shares").c_str(), F_OK) != 0)
      return fail(Code::kUnsupported, "cgroup " + folder + ": there is no controller of processors");
    TRY(make_folder(folder + "/carya-users"));
    return CpuGroups(folder + "/carya-users", false);
  }
  const std::string path = cgroup_path(own, "");
  const std::string folder = mount + (path == "/" ? "" : path);
  if (path.empty() || !has_word(kernel_text(folder + "/cgroup.controllers"), "cpu"))
    return fail(Code::kUnsupported, "cgroup " + folder + ": there is no controller of processors");
  TRY(make_folder(folder + "/host"));
  TRY(write_text(folder + "/host/cgroup.procs", "0"));
  TRY(write_text(folder + "/cgroup.subtree_control", "+cpu"));
  return CpuGroups(folder, true);
}

Result<UniqueFd> CpuGroups::add(const std::string& user, double weight) const {
  const std::string folder = folder_ + "/user-" + user;
  TRY(make_folder(folder));
  const double share = unified_ ? std::clamp(weight * kUnifiedWeight, 1.0, kUnifiedMax)
                                : std::clamp(weight * kSharesWeight, 2.0, kSharesMax);
  TRY(write_text(folder + (unified_ ? "/cpu.weight" : "/cpu.shares"), fmt::format("{}", std::lround(share))));
  UniqueFd processes(::open((folder + "/cgroup.procs").c_str(), O_WRONLY | O_CLOEXEC));
  if (!processes) return fail_errno("cgroup " + folder, errno);
  return processes;
}

void CpuGroups::remove(const std::string& user) const {
  ::rmdir((folder_ + "/user-" + user).c_str());
}

void CpuGroups::remove_empty() const {
  std::error_code none;
  for (std::filesystem::directory_iterator at(folder_, none), end; at != end; at.increment(none))
    if (at->path().filename().string().starts_with("user-")) ::rmdir(at->path().c_str());
}

}  // namespace carya::loader
