#include "base/cgroup.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <sstream>

#include "base/unique_fd.h"

namespace carya {

std::string cgroup_path(const std::string& text, const std::string& controller) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const auto first = line.find(':');
    const auto second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string names = "," + line.substr(first + 1, second - first - 1) + ",";
    if (controller.empty() ? names == ",," : names.find("," + controller + ",") != std::string::npos)
      return line.substr(second + 1);
  }
  return {};
}

std::string kernel_text(const std::string& path) {
  constexpr std::size_t kBytesMax = 64 << 10, kStep = 4096;
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  std::string text;
  while (fd && text.size() < kBytesMax) {
    const std::size_t have = text.size();
    text.resize(have + kStep);
    const ssize_t more = ::read(fd.get(), text.data() + have, kStep);
    text.resize(have + static_cast<std::size_t>(more > 0 ? more : 0));
    if (more == 0 || (more < 0 && errno != EINTR)) break;
  }
  return text;
}

}  // namespace carya
