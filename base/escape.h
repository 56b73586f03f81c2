#pragma once

#include <string>
#include <string_view>

namespace carya {

/// Make foreign text safe to show on a terminal and to write to a log. Control characters (also C1, and those that
/// change the direction of text) and bytes that are not UTF-8 become escapes (\x1b, \u202e). All other characters stay,
/// and so do the control characters in `keep`, such as "\n".
std::string escaped(std::string_view text, std::string_view keep = "");

}  // namespace carya
