#pragma once

#include <algorithm>
#include <string>
#include <type_traits>

#include "base/escape.h"

namespace carya::loader {

/// " key=value" of a log line; text with spaces is quoted, and what could break the line is replaced.
inline std::string field(const char* key, const auto& value) {
  if constexpr (std::is_convertible_v<decltype(value), std::string>) {
    std::string text = escaped(std::string(value));
    std::ranges::replace(text, '"', '?');
    const bool plain = text.find_first_of(" =") == std::string::npos && !text.empty();
    return std::string(" ") + key + (plain ? "=" + text : "=\"" + text + "\"");
  } else {
    return std::string(" ") + key + "=" + std::to_string(value);
  }
}

}  // namespace carya::loader
