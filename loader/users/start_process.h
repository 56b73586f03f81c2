#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/unique_fd.h"
#include "loader/users/rights.h"

namespace carya::loader {

/// The descriptor of a started process at which it finds what it was given.
inline constexpr int kHandedFd = 3;
/// And that of its notes of crashes, if it has some (StartOptions::notes).
inline constexpr int kNotesFd = 4;

struct StartOptions {
  std::vector<std::string> command;  ///< the program, by its path, and its arguments
  Rights rights;
  std::vector<UniqueFd> groups{};  ///< files of processes of the cgroups that it joins
  std::uint64_t descriptors = 0;   ///< that it may have open; 0: as many as this process
  int notes = -1;                  ///< its kNotesFd; -1: it has none
};

/// A child of this process, that runs with just some rights.
struct StartedProcess {
  pid_t pid = 0;
  UniqueFd process;  ///< pidfd
};

/// Start a program that has `handed` as kHandedFd, /dev/null as its standard streams, its notes as kNotesFd, no other descriptor
/// of this process, a session of its own, and no way to more rights than those given. Its signals TERM, INT and HUP are blocked.
/// Errors: kExhausted, those of the program's path.
Result<StartedProcess> start_process(const StartOptions& options, int handed);
/// Kill it and wait for its end.
void end_process(const StartedProcess& process);

}  // namespace carya::loader
