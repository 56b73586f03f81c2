#include "loader/users/user_groups.h"

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

/// The number behind a word in a file of the kernel that has a pair in each line; 0 if it is not there.
std::uint64_t number_of(const std::string& text, const std::string& name) {
  std::istringstream words(text);
  std::string word;
  std::uint64_t number = 0;
  while (words >> word >> number)
    if (word == name) return number;
  return 0;
}

/// Where groups with limits of memory can be, in version 1; "": nowhere.
std::string memory_folder(const std::string& mount, const std::string& own) {
  const std::string path = cgroup_path(own, "memory");
  const std::string folder = mount + "/memory" + (path == "/" ? "" : path);
  if (path.empty() || ::access((folder + "/memory.limit_in_bytes").c_str(), F_OK) != 0 ||
      !make_folder(folder + "/carya-users"))
    return "";
  return folder + "/carya-users";
}

}  // namespace

Result<UserGroups> UserGroups::create(const std::string& mount, const std::string& own) {
  if (const std::string path = cgroup_path(own, "cpu"); !path.empty()) {  // version 1, also beside version 2
    const std::string folder = mount + "/cpu" + (path == "/" ? "" : path);
    if (::access((folder + "/cpu.shares").c_str(), F_OK) != 0)
      return fail(Code::kUnsupported, "cgroup " + folder + ": there is no controller of processors");
    TRY(make_folder(folder + "/carya-users"));
    return UserGroups(folder + "/carya-users", memory_folder(mount, own), false);
  }
  const std::string path = cgroup_path(own, "");
  const std::string folder = mount + (path == "/" ? "" : path);
  const std::string controllers = kernel_text(folder + "/cgroup.controllers");
  if (path.empty() || !has_word(controllers, "cpu"))
    return fail(Code::kUnsupported, "cgroup " + folder + ": there is no controller of processors");
  TRY(make_folder(folder + "/host"));
  TRY(write_text(folder + "/host/cgroup.procs", "0"));
  TRY(write_text(folder + "/cgroup.subtree_control", "+cpu"));
  const bool memory = has_word(controllers, "memory") &&
                      write_text(folder + "/cgroup.subtree_control", "+memory").has_value();
  return UserGroups(folder, memory ? folder : "", true);
}

Result<std::vector<UniqueFd>> UserGroups::add(const std::string& user, const UserShare& share) const {
  const std::string group = "/user-" + user;
  std::vector<std::string> folders{folder_ + group};
  TRY(make_folder(folders[0]));
  const double weight = unified_ ? std::clamp(share.weight * kUnifiedWeight, 1.0, kUnifiedMax)
                                 : std::clamp(share.weight * kSharesWeight, 2.0, kSharesMax);
  TRY(write_text(folders[0] + (unified_ ? "/cpu.weight" : "/cpu.shares"),
                 fmt::format("{}", std::lround(weight))));
  if (keeps_memory()) {
    if (memory_ != folder_) folders.push_back(memory_ + group);
    TRY(make_folder(folders.back()));
    const std::string most = share.memory_bytes != 0 ? fmt::format("{}", share.memory_bytes)
                             : unified_              ? "max"
                                                     : "-1";
    TRY(write_text(folders.back() + (unified_ ? "/memory.max" : "/memory.limit_in_bytes"), most));
  }
  std::vector<UniqueFd> processes;
  for (const std::string& folder : folders) {
    processes.emplace_back(::open((folder + "/cgroup.procs").c_str(), O_WRONLY | O_CLOEXEC));
    if (!processes.back()) return fail_errno("cgroup " + folder, errno);
  }
  return processes;
}

std::uint64_t UserGroups::killed(const std::string& user) const {
  if (!keeps_memory()) return 0;
  const std::string folder = memory_ + "/user-" + user;
  return number_of(kernel_text(folder + (unified_ ? "/memory.events" : "/memory.oom_control")), "oom_kill");
}

void UserGroups::remove(const std::string& user) const {
  for (const std::string& folder : {folder_, memory_})
    if (!folder.empty()) ::rmdir((folder + "/user-" + user).c_str());
}

void UserGroups::remove_empty() const {
  for (const std::string& folder : {folder_, memory_}) {
    if (folder.empty()) continue;
    std::error_code none;
    for (std::filesystem::directory_iterator at(folder, none), end; at != end; at.increment(none))
      if (at->path().filename().string().starts_with("user-")) ::rmdir(at->path().c_str());
  }
}

}  // namespace carya::loader
