#pragma once

#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace carya::io {

/// The variables that say how stores are asked, as they were when a user's call asked. Only a thread of the user's reads
/// the process's own, since they may change there while another thread reads them. Threads: const is thread-safe.
struct Environment {
  std::map<std::string, std::string, std::less<>> variables;  ///< of those that are asked for
  std::vector<std::string> all;                               ///< "NAME=value", for programs that are started

  /// The value of a variable; "": not set.
  const std::string& get(std::string_view name) const;
  /// The first of these that is set.
  const std::string& first(std::initializer_list<std::string_view> names) const;
  /// Whether stores are asked in the same way.
  bool operator==(const Environment& other) const { return variables == other.variables; }
};

/// This process's. Threads: those of a user's call.
Environment read_environment();
/// Whether a variable of this name may hold credentials, or a proxy with its password.
bool says_how_stores_are_asked(std::string_view name);

}  // namespace carya::io
