#include "io/files/common_folder.h"

#include <algorithm>
#include <string_view>

namespace carya::io {

std::string common_folder(const std::vector<std::string>& paths) {
  if (paths.empty()) return "";
  std::string_view common(paths[0]);
  for (const std::string& path : paths) {
    const auto differ = std::ranges::mismatch(common, path).in1;
    // Only whole components count, and never a file's own name.
    const std::string_view shared(common.begin(), differ);
    const std::size_t slash = shared.rfind('/');
    common = slash == std::string_view::npos ? std::string_view() : shared.substr(0, slash + 1);
    if (common.empty()) return "";
  }
  while (common.size() > 1 && common.back() == '/') common.remove_suffix(1);
  return std::string(common);
}

std::string below_folder(const std::string& folder, const std::string& path) {
  std::string_view rest(path);
  rest.remove_prefix(folder.size());
  if (!folder.empty()) {
    while (!rest.empty() && rest.front() == '/') rest.remove_prefix(1);
  }
  return std::string(rest);
}

}  // namespace carya::io
