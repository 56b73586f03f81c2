#pragma once

#include <sys/types.h>

#include <compare>
#include <set>
#include <string>
#include <vector>

#include "base/error.h"

namespace carya::loader {

/// What a process may do with files, as the kernel sees it: its user and its groups.
struct Rights {
  uid_t uid = 0;
  gid_t gid = 0;
  std::vector<gid_t> groups;  ///< supplementary ones, each once, in order

  std::strong_ordering operator<=>(const Rights&) const = default;
};

/// Those of this process.
Rights own_rights();
/// Those of the process that connected a Unix socket, at the moment when it did.
/// Errors: kPermission (the kernel does not say; the user has no number in this user namespace).
Result<Rights> peer_rights(int socket);
/// Take them for this process, with no way back. Returns 0 or an errno. Makes system calls only, so that it may stand
/// between fork() and exec().
int take_rights(const Rights& rights);

/// Whom a daemon serves.
class Admitted {
 public:
  /// `names` are users ("alice", "1000") and groups ("@train", "@1000"); "*" is everyone.
  /// Errors: kInvalidArgument (there is no such user or group).
  static Result<Admitted> create(const std::vector<std::string>& names);
  /// Users and groups count, and root is always served.
  bool admits(const Rights& rights) const;

 private:
  bool everyone_ = false;
  std::set<uid_t> users_;
  std::set<gid_t> groups_;
};

/// The number of a user, by name or as digits. Errors: kInvalidArgument (there is none of that name).
Result<uid_t> user_number(const std::string& name);
/// The name of a user, or its number as text.
std::string user_name(uid_t user);
/// The home folder of a user; "" where none is known.
std::string user_home(uid_t user);

}  // namespace carya::loader
