#include "loader/users/rights.h"

#include <grp.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <fmt/core.h>
#include <algorithm>
#include <cerrno>
#include <optional>
#include <sstream>

#include "base/cgroup.h"
#include "loader/host/accounts.h"

namespace carya::loader {
namespace {

#ifdef SO_PEERGROUPS
constexpr int kSoPeerGroups = SO_PEERGROUPS;
#else
constexpr int kSoPeerGroups = 59;  // include/uapi/asm-generic/socket.h
#endif

std::vector<gid_t> in_order(std::vector<gid_t> groups) {
  std::ranges::sort(groups);
  const auto repeated = std::ranges::unique(groups);
  groups.erase(repeated.begin(), repeated.end());
  return groups;
}

}  // namespace

Rights own_rights() {
  const int count = getgroups(0, nullptr);
  std::vector<gid_t> groups(static_cast<std::size_t>(std::max(count, 0)));
  const int read = groups.empty() ? 0 : getgroups(static_cast<int>(groups.size()), groups.data());
  groups.resize(static_cast<std::size_t>(std::max(read, 0)));
  return {geteuid(), getegid(), in_order(std::move(groups))};
}

Result<Rights> peer_rights(int socket) {
  ucred peer{};
  socklen_t size = sizeof(peer);
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0)
    return fail(Code::kPermission, "the kernel does not say who connected", errno);
  if (peer.uid == kNobody || peer.uid == static_cast<uid_t>(-1))
    return fail(Code::kPermission, "who connected has no number in this user namespace");
  Rights rights{peer.uid, peer.gid, std::vector<gid_t>(64)};
  for (;;) {
    size = static_cast<socklen_t>(rights.groups.size() * sizeof(gid_t));
    if (getsockopt(socket, SOL_SOCKET, kSoPeerGroups, rights.groups.data(), &size) == 0) break;
    if (errno != ERANGE)
      return fail(Code::kPermission, "the kernel does not say the groups of who connected", errno);
    rights.groups.resize(size / sizeof(gid_t));
  }
  rights.groups.resize(size / sizeof(gid_t));
  rights.groups = in_order(std::move(rights.groups));
  return rights;
}

int take_rights(const Rights& rights) {
  // Of this thread only, and so of the only one behind fork(): the calls of the C library would wait for others.
  if (syscall(SYS_setgroups, rights.groups.size(), rights.groups.data()) != 0) return errno;
  if (syscall(SYS_setresgid, rights.gid, rights.gid, rights.gid) != 0) return errno;
  if (syscall(SYS_setresuid, rights.uid, rights.uid, rights.uid) != 0) return errno;
  return 0;
}

Admitted Admitted::create(const std::vector<std::string>& names, std::vector<std::string>& unknown) {
  Admitted admitted;
  for (const std::string& name : names) {
    if (name == "*") {
      admitted.everyone_ = true;
    } else if (name.starts_with('@')) {
      if (const auto group = group_number(name.substr(1)))
        admitted.groups_.insert(*group);
      else
        unknown.push_back(name);
    } else if (const auto user = user_number(name)) {
      admitted.users_.insert(*user);
    } else {
      unknown.push_back(name);
    }
  }
  if (admitted.everyone_) admitted.subordinate_ = parse_subordinate(kernel_text("/etc/subuid"));
  return admitted;
}

std::vector<std::pair<std::uint64_t, std::uint64_t>> parse_subordinate(const std::string& text) {
  std::vector<std::pair<std::uint64_t, std::uint64_t>> ranges;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const auto first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const auto begin = id_of_digits(line.substr(first + 1, second - first - 1)),
               count = id_of_digits(line.substr(second + 1));
    if (begin && count) ranges.emplace_back(*begin, std::uint64_t{*begin} + *count);
  }
  return ranges;
}

bool Admitted::admits(const Rights& rights) const {
  const auto is_sub = [&](const auto& range) {
    return rights.uid >= range.first && rights.uid < range.second;
  };
  return (everyone_ && rights.uid != 0 && std::ranges::none_of(subordinate_, is_sub)) ||
         users_.contains(rights.uid) ||
         (rights.uid != 0 &&
          (groups_.contains(rights.gid) ||
           std::ranges::any_of(rights.groups, [&](gid_t group) { return groups_.contains(group); })));
}

}  // namespace carya::loader
