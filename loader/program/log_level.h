#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace carya::loader {

enum class LogLevel : std::uint8_t { kDebug, kInfo, kWarning, kError };
/// Writes one line per event: what happened, then key=value fields.
using Log = std::function<void(LogLevel, const std::string&)>;

}  // namespace carya::loader
