#include "io/read/remote_storage.h"

#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/sysmacros.h>

#include <fmt/core.h>
#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <iterator>

#include "base/cgroup.h"

namespace carya::io {
namespace {

constexpr std::uint32_t kOverlay = 0x794c7630;
constexpr int kOverlaysMax = 3;  // of an overlay

/// Take what stands before the next `end`, and `end` too.
std::string_view take_until(std::string_view& text, char end) {
  const std::string_view part = text.substr(0, text.find(end));
  text.remove_prefix(std::min(text.size(), part.size() + 1));
  return part;
}

/// Without the kernel's escapes: "\040" is a space.
std::string unescaped(std::string_view text) {
  const auto digit = [](char c) { return c >= '0' && c <= '7'; };
  std::string plain;
  while (!text.empty()) {
    if (text.size() >= 4 && text[0] == '\\' && std::ranges::all_of(text.substr(1, 3), digit)) {
      plain += static_cast<char>((text[1] - '0') * 64 + (text[2] - '0') * 8 + (text[3] - '0'));
      text.remove_prefix(4);
      continue;
    }
    plain += text.front();
    text.remove_prefix(1);
  }
  return plain;
}

/// Folders with ":" between them, one of a folder's name as "\:".
void add_folders(std::vector<std::string>& folders, std::string_view list) {
  std::string folder;
  for (std::size_t i = 0; i <= list.size(); ++i) {
    if (i == list.size() || list[i] == ':') {
      if (!folder.empty()) folders.push_back(std::move(folder));
      folder.clear();
      continue;
    }
    if (list[i] == '\\' && i + 1 < list.size()) ++i;
    folder += list[i];
  }
}

bool is_remote(const std::string& path, int overlays) {
  constexpr std::uint32_t kRemote[] = {0x65735546,   // FUSE
                                       0x6a656a63,   // virtiofs
                                       0x6969,       // NFS
                                       0xff534d42,   // CIFS
                                       0xfe534d42,   // SMB
                                       0x01021997,   // 9p
                                       0x00c36400,   // Ceph
                                       0x5346414f,   // AFS
                                       0x0bd00bd0,   // Lustre
                                       0x47504653,   // GPFS
                                       0x20030528,   // OrangeFS
                                       0x786f4256,   // VirtualBox's shared folders
                                       0x19830326};  // BeeGFS
  struct statfs system;
  if (::statfs(path.c_str(), &system) != 0)
    return errno == ENOSYS;  // a FUSE server that does not answer this
  const auto kind = static_cast<std::uint32_t>(system.f_type);
  if (std::ranges::find(kRemote, kind) != std::end(kRemote)) return true;
  struct stat about;
  if (kind != kOverlay || overlays == kOverlaysMax || ::stat(path.c_str(), &about) != 0) return false;
  return std::ranges::any_of(overlay_layers(kernel_text("/proc/self/mountinfo"), about.st_dev),
                             [&](const std::string& layer) { return is_remote(layer, overlays + 1); });
}

}  // namespace

bool storage_is_remote(const std::string& path) {
  return is_remote(path, 0);
}

std::vector<std::string> overlay_layers(std::string_view mountinfo, dev_t device) {
  const std::string number = fmt::format("{}:{}", major(device), minor(device));
  while (!mountinfo.empty()) {
    std::string_view line = take_until(mountinfo, '\n');
    take_until(line, ' '), take_until(line, ' ');
    if (take_until(line, ' ') != number) continue;
    while (!line.empty() && take_until(line, ' ') != "-") {
    }
    if (take_until(line, ' ') != "overlay") continue;
    take_until(line, ' ');
    std::vector<std::string> folders;
    const std::string options = unescaped(line);
    for (std::string_view left = options; !left.empty();) {
      std::string_view option = take_until(left, ',');
      const std::string_view name = take_until(option, '=');
      if (name == "lowerdir" || name == "lowerdir+" || name == "upperdir" || name == "datadir+")
        add_folders(folders, option);
    }
    return folders;
  }
  return {};
}

}  // namespace carya::io
