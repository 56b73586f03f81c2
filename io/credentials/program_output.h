#pragma once

#include <string>
#include <vector>

#include "base/error.h"

namespace carya::io {

/// What a program writes to its standard output, at most 64 KiB in at most a minute; it is ended then. Its standard error
/// is this process's, so that it can say what is wrong; its standard input is empty.
///
/// `command`: words, of which those with blanks stand in '"' or '\''; no shell reads it. `environment`: "NAME=value".
/// Errors: kInvalidArgument (no words, or an open quote), kNotFound (no such program), kPermission (it fails), kIo (it takes
/// too long); they begin with `subject` and hold neither the command nor what it wrote.
Result<std::string> program_output(const std::string& command, const std::vector<std::string>& environment,
                                   const std::string& subject);

}  // namespace carya::io
