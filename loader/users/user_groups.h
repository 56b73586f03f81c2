#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/unique_fd.h"

namespace carya::loader {

/// Daemons of one user, if nobody says otherwise.
inline constexpr std::uint32_t kDaemonsOfUser = 4;

/// What the processes of a user may have. Weight and memory are of all together, and kept here.
struct UserShare {
  double weight = 1;                       ///< of the processor, beside the other users
  std::uint64_t memory_bytes = 0;          ///< at most; 0: no limit
  std::uint64_t descriptors = 0;           ///< of each daemon; 0: as many as the daemon of all users
  std::uint32_t daemons = kDaemonsOfUser;  ///< at a time, one for each set of groups

  bool operator==(const UserShare&) const = default;
};

/// A cgroup for each user below this process's own, in which the kernel shares the processor by weight, and ends a process
/// when those of the group need more memory than they may have.
///
/// Both versions of cgroups are known. In version 2 this process moves into a group of its own first, since a group with
/// processes in it shares nothing among those below. In version 1 memory has a tree of its own.
/// Source: Documentation/admin-guide/cgroup-v2.rst, cgroup-v1/ of Linux.
class UserGroups {
 public:
  /// `mount` is where cgroups are mounted, `own` is the text of /proc/self/cgroup. Errors: kUnsupported (no controller of
  /// processors), kPermission (this process may make no groups: it is not root, or its unit has no Delegate=yes).
  static Result<UserGroups> create(const std::string& mount, const std::string& own);

  /// Whether limits of memory can be kept: there is a controller of memory, and groups can be made in it.
  bool keeps_memory() const { return !memory_.empty(); }
  /// Make the user's groups, or find them, and set what they have: a weight of 1 is the kernel's default, 0.01 to 100 is
  /// possible; a limit of memory counts where it can be kept. Returns their files of processes: who writes "0" to each is in
  /// the user's groups. Errors: those of the files.
  Result<std::vector<UniqueFd>> add(const std::string& user, const UserShare& share) const;
  /// Processes of the user that the kernel has ended for their memory, since the group was made.
  std::uint64_t killed(const std::string& user) const;
  /// Remove the groups of a user whose processes have ended; one that has some stays.
  void remove(const std::string& user) const;
  /// Remove all groups of users without a process.
  void remove_empty() const;

 private:
  UserGroups(std::string folder, std::string memory, bool unified)
      : folder_(std::move(folder)), memory_(std::move(memory)), unified_(unified) {}
  std::string folder_;  // in which the groups of users are
  std::string memory_;  // and those with limits of memory: the same in version 2; "": there are none
  bool unified_;        // version 2
};

}  // namespace carya::loader
