#pragma once

#include <sys/types.h>

#include <compare>
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"

namespace carya::loader {

/// Who has no number in this user namespace (/proc/sys/kernel/overflowuid).
inline constexpr uid_t kNobody = 65534;

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

/// The numbers that /etc/subuid gives to users for their containers, each from the first up to the second.
std::vector<std::pair<std::uint64_t, std::uint64_t>> parse_subordinate(const std::string& text);

/// Whom a daemon serves.
class Admitted {
 public:
  /// `names` are users ("alice", "1000") and groups ("@train", "@1000"); "*" is everyone but root and the numbers of
  /// /etc/subuid, of which one user has thousands. Those that there are not go to `unknown`, and admit nobody.
  static Admitted create(const std::vector<std::string>& names, std::vector<std::string>& unknown);
  /// root is admitted by name only: in a container it may be anybody's, with fewer rights than the host's.
  bool admits(const Rights& rights) const;

 private:
  bool everyone_ = false;
  std::set<uid_t> users_;
  std::set<gid_t> groups_;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> subordinate_;
};

}  // namespace carya::loader
