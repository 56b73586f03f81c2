#pragma once

#include <grp.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>

namespace carya::io {

/// A user that nobody is, and the group that it is in.
inline constexpr uid_t kOtherUser = 70'000;
inline constexpr gid_t kOtherUsersGroup = 70'001;

/// Whether `work` says so in a child that is this user; root only.
inline bool as_other(const std::function<bool()>& work) {
  const pid_t child = ::fork();
  if (child == 0) {
    const gid_t groups[] = {kOtherUsersGroup};
    if (::setgroups(1, groups) != 0 || ::setresgid(kOtherUser, kOtherUser, kOtherUser) != 0 ||
        ::setresuid(kOtherUser, kOtherUser, kOtherUser) != 0)
      ::_exit(2);
    ::_exit(work() ? 0 : 1);
  }
  int status = 0;
  return ::waitpid(child, &status, 0) == child && status == 0;
}

}  // namespace carya::io
