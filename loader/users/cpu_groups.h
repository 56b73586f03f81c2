#pragma once

#include <string>

#include "base/error.h"
#include "base/unique_fd.h"

namespace carya::loader {

/// A cgroup for each user below this process's own, in which the kernel shares the processor by weight.
///
/// Both versions of cgroups are known. In version 2 this process moves into a group of its own first, since a group with
/// processes in it shares nothing among those below.
/// Source: Documentation/admin-guide/cgroup-v2.rst, cgroup-v1/ of Linux.
class CpuGroups {
 public:
  /// `mount` is where cgroups are mounted, `own` is the text of /proc/self/cgroup. Errors: kUnsupported (no controller of
  /// processors), kPermission (this process may make no groups: it is not root, or its unit has no Delegate=yes).
  static Result<CpuGroups> create(const std::string& mount, const std::string& own);

  /// Make the user's group, or find it, and set its weight: 1 is the kernel's default, 0.01 to 100 is possible.
  /// Returns its file of processes: who writes "0" to it is in the group.
  Result<UniqueFd> add(const std::string& user, double weight) const;
  /// Remove a group whose processes have ended; one that has some stays.
  void remove(const std::string& user) const;
  /// Remove all groups of users without a process.
  void remove_empty() const;

 private:
  CpuGroups(std::string folder, bool unified) : folder_(std::move(folder)), unified_(unified) {}
  std::string folder_;  // in which the groups of users are
  bool unified_;        // version 2
};

}  // namespace carya::loader
