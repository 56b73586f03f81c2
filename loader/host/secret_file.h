#pragma once

#include <cstdint>
#include <string>

#include "base/error.h"

namespace carya::loader {

/// The text of a file that only its owner may read or write, without white space around it, of 1 to `bytes_max` bytes.
/// A file that is no regular one (a pipe that a program holds) may have any mode. `subject` begins an error, before the
/// path. Errors: those of opening and reading it; kInvalidArgument (others may read or write it, no text, too long).
Result<std::string> read_secret(const std::string& subject, const std::string& path, std::uint64_t bytes_max);

}  // namespace carya::loader
