#pragma once

#include <string>

#include "base/error.h"

namespace carya::io {

/// Who is asking: "user 1000 (python3)". By number, since to look a name up may ask another machine.
std::string this_user();

/// Why a file or folder could not be opened, in words that say where it ends and what to do: the part of the
/// path that is not there with the nearest name that is, the folder that this user may not enter, the file
/// that stands where a folder should, the link that leads nowhere.
///
/// Errors:  the code that fail_errno() gives `sys_errno`; EXDEV: kPermission (a link leads out of its
/// folder). Threads: thread-safe. Cost: a few calls of stat(), and one listing (of at most 1000 names) where
/// a name is missing.
std::unexpected<Error> fail_open(const std::string& path, int sys_errno);

}  // namespace carya::io
