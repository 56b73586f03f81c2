#pragma once

#include <string>

namespace carya {

/// Path of a process in the hierarchy whose line in its cgroup file names `controller` ("" for version 2).
/// `text`: of /proc/PID/cgroup. "" where there is none.
std::string cgroup_path(const std::string& text, const std::string& controller);

/// Call `visit` for the folder of `path` under `mount` and each of its parents: a limit may sit on any of
/// them.
template <typename Visit>
void each_ancestor(const std::string& mount, std::string path, Visit visit) {
  while (true) {
    visit(mount + path);
    const auto slash = path.rfind('/');
    if (path.empty() || slash == std::string::npos) return;
    path = path.substr(0, slash);
  }
}

/// All of a small file of the kernel's, at most 64 KiB; "" where it cannot be read.
std::string kernel_text(const std::string& path);

}  // namespace carya
