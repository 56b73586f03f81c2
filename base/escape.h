#pragma once

#include <string>
#include <string_view>

namespace carya {

/// Text that somebody else wrote, as it can be shown on a terminal and written to a log: control characters
/// (also those of C1 and those that turn the direction of text) and bytes that are no UTF-8 become \x1b,
/// \u202e; all else stays. `keep`: control characters that stay too, such as "\n".
std::string escaped(std::string_view text, std::string_view keep = "");

}  // namespace carya
