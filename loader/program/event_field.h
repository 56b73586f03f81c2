#pragma once

#include <string>
#include <type_traits>

#include "base/escape.h"

namespace carya::loader {

/// Text in quotes. A quote or a backslash in it has a backslash before it, so that no value can begin another field.
inline std::string in_quotes(const std::string& value) {
  std::string text = "\"";
  for (const char c : value) {
    if (c == '"' || c == '\\') text += '\\';
    text += c;
  }
  return escaped(text + "\"");
}

/// " key=value" of a log line; text that is not one plain word is quoted, and what could break the line is escaped.
inline std::string field(const char* key, const auto& value) {
  if constexpr (std::is_convertible_v<decltype(value), std::string>) {
    const std::string& text = value;
    const bool plain = text.find_first_of(" =\"") == std::string::npos && !text.empty();
    return std::string(" ") + key + "=" + (plain ? escaped(text) : in_quotes(text));
  } else {
    return std::string(" ") + key + "=" + std::to_string(value);
  }
}

}  // namespace carya::loader
