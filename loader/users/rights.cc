#include "loader/users/rights.h"

#include <grp.h>
#include <pwd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <fmt/core.h>
#include <algorithm>
#include <cerrno>
#include <charconv>
#include <optional>
#include <sstream>

#include "base/cgroup.h"

namespace carya::loader {
namespace {

#ifdef SO_PEERGROUPS
constexpr int kSoPeerGroups = SO_PEERGROUPS;
#else
constexpr int kSoPeerGroups = 59;  // include/uapi/asm-generic/socket.h
#endif
constexpr uid_t kNobody = 65534;  // /proc/sys/kernel/overflowuid: who has no number here
constexpr std::size_t kEntryBytesMax = 1 << 20;

std::vector<gid_t> in_order(std::vector<gid_t> groups) {
  std::ranges::sort(groups);
  const auto repeated = std::ranges::unique(groups);
  groups.erase(repeated.begin(), repeated.end());
  return groups;
}

std::optional<id_t> number(const std::string& digits) {
  id_t value = 0;
  const char* const end = digits.data() + digits.size();
  const auto read = std::from_chars(digits.data(), end, value);
  return read.ec == std::errc() && read.ptr == end ? std::optional(value) : std::nullopt;
}

/// What `look` finds in the system's databases, with room for it.
template <typename Entry, typename Look, typename Take>
auto looked_up(Look look, Take take) -> std::optional<decltype(take(std::declval<const Entry&>()))> {
  for (std::size_t size = 1 << 12; size <= kEntryBytesMax; size *= 4) {
    std::vector<char> room(size);
    Entry entry{};
    Entry* found = nullptr;
    if (look(&entry, room.data(), room.size(), &found) == ERANGE) continue;
    return found != nullptr ? std::optional(take(*found)) : std::nullopt;
  }
  return std::nullopt;
}

template <typename Take>
auto account_of(uid_t user, Take take) {
  return looked_up<passwd>([&](passwd* entry, char* room, std::size_t size,
                               passwd** found) { return getpwuid_r(user, entry, room, size, found); },
                           take);
}

Result<gid_t> group_number(const std::string& name) {
  const auto found =
      looked_up<group>([&](group* entry, char* room, std::size_t size,
                           group** result) { return getgrnam_r(name.c_str(), entry, room, size, result); },
                       [](const group& entry) { return entry.gr_gid; });
  if (found) return *found;
  if (const auto digits = number(name)) return *digits;
  return fail(Code::kInvalidArgument, "there is no group " + name);
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
    const auto begin = number(line.substr(first + 1, second - first - 1)),
               count = number(line.substr(second + 1));
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

Result<uid_t> user_number(const std::string& name) {
  const auto found =
      looked_up<passwd>([&](passwd* entry, char* room, std::size_t size,
                            passwd** result) { return getpwnam_r(name.c_str(), entry, room, size, result); },
                        [](const passwd& entry) { return entry.pw_uid; });
  if (found) return *found;
  if (const auto digits = number(name)) return *digits;
  return fail(Code::kInvalidArgument, "there is no user " + name);
}

std::string user_name(uid_t user) {
  return account_of(user, [](const passwd& entry) { return std::string(entry.pw_name); })
      .value_or(std::to_string(user));
}

std::string user_home(uid_t user) {
  return account_of(user, [](const passwd& entry) { return std::string(entry.pw_dir); }).value_or("");
}

}  // namespace carya::loader
