#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

#include "base/error.h"

namespace carya::loader {

/// The number of a user, by name or as digits. Errors: kInvalidArgument (there is none of that name).
Result<uid_t> user_number(const std::string& name);
/// The name of a user, or its number as text.
std::string user_name(uid_t user);
/// The home folder of a user; "" where none is known.
std::string user_home(uid_t user);
/// The number of a group, by name or as digits. Errors: kInvalidArgument (there is none of that name).
Result<gid_t> group_number(const std::string& name);
/// The number that these digits, and nothing else, say.
std::optional<id_t> id_of_digits(const std::string& digits);

}  // namespace carya::loader
