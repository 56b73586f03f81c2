#include "tests/faults/census.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>

namespace carya::faults {

Census Census::of(pid_t pid) {
  const std::filesystem::path root = "/proc/" + std::to_string(pid);
  Census census;
  std::error_code ignored;
  for (auto entry = std::filesystem::directory_iterator(root / "fd", ignored);
       entry != std::filesystem::directory_iterator(); entry.increment(ignored)) {
    ++census.descriptors;
    if (std::filesystem::read_symlink(entry->path(), ignored).string().starts_with("/memfd:"))
      ++census.segments;
  }
  std::ifstream maps(root / "maps");
  for (std::string line; std::getline(maps, line);)
    if (line.find("/memfd:") != std::string::npos) ++census.segments;
  for (auto task = std::filesystem::directory_iterator(root / "task", ignored);
       task != std::filesystem::directory_iterator(); task.increment(ignored)) {
    std::string name;
    std::getline(std::ifstream(task->path() / "comm"), name);
    if (name != "carya-read") ++census.threads;
    std::ifstream children(task->path() / "children");
    for (pid_t child = 0; children >> child;) ++census.children;
  }
  return census;
}

std::string Census::text() const {
  return std::to_string(descriptors) + " descriptors, " + std::to_string(segments) + " segments, " +
         std::to_string(threads) + " threads, " + std::to_string(children) + " children";
}

std::string Census::beyond(const Census& before) const {
  if (descriptors <= before.descriptors && segments <= before.segments && threads <= before.threads &&
      children <= before.children)
    return "";
  return text() + "; before: " + before.text();
}

}  // namespace carya::faults
