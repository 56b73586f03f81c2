#pragma once

#include <string>

namespace carya {

/// The cgroup of a process, as a path below the mount. `text` is /proc/PID/cgroup; its line that names `controller`
/// counts ("" for version 2). Returns "" if there is no such line.
std::string cgroup_path(const std::string& text, const std::string& controller);

/// Call `visit` with the folder of `path` under `mount`, and then with each of its parents. A limit may be set in any
/// of them.
template <typename Visit>
void each_ancestor(const std::string& mount, std::string path, Visit visit) {
  while (true) {
    visit(mount + path);
    const auto slash = path.rfind('/');
    if (path.empty() || slash == std::string::npos) return;
    path = path.substr(0, slash);
  }
}

/// The content of a small kernel file, at most 64 KiB; "" if it cannot be read.
std::string kernel_text(const std::string& path);

}  // namespace carya
