#include "loader/daemon/data_roots.h"

#include <algorithm>
#include <filesystem>

namespace carya::loader {
namespace {

namespace fs = std::filesystem;

/// The path without links where it exists, "." and "..".
std::string resolved(const fs::path& path) {
  std::error_code error;
  const fs::path found = fs::weakly_canonical(path, error);
  return (error ? path.lexically_normal() : found).string();
}

class Folders {
 public:
  explicit Folders(const std::vector<std::string>& folders) {
    for (const std::string& folder : folders) {
      folders_.push_back(resolved(folder));
      if (!folders_.back().ends_with('/')) folders_.back() += '/';
    }
  }
  bool hold(const std::string& path) const {
    return std::ranges::any_of(folders_, [&](const std::string& folder) {
      return path.starts_with(folder) || path + '/' == folder;
    });
  }

 private:
  std::vector<std::string> folders_;
};

std::unexpected<Error> outside(const std::string& path) {
  return fail(Code::kPermission,
              "caryad: " + path +
                  " lies outside of the folders that this daemon reads; add its folder to roots in " +
                  "caryad.toml and reload, or use the loader with daemon=\"embedded\"");
}

Status check_manifest(const io::Manifest& manifest, const Folders& folders) {
  const std::string root = resolved(manifest.root().empty() ? fs::current_path() : fs::path(manifest.root()));
  if (folders.hold(root)) return {};
  const auto check = [&](const std::string& relative) -> Status {
    const std::string path = (fs::path(root) / relative).lexically_normal().string();
    return folders.hold(path) ? Status() : outside(path);
  };
  for (const std::string& container : manifest.containers()) TRY(check(container));
  if (!manifest.containers().empty()) return {};
  for (std::uint64_t i = 0; i < manifest.count(); ++i) TRY(check(manifest.path_c_str(i)));
  return {};
}

}  // namespace

Status check_data_roots(const Dataset& dataset, const std::vector<std::string>& roots) {
  if (roots.empty()) return {};
  const Folders folders(roots);
  for (const Dataset::Field& field : dataset.fields())
    if (field.manifest) TRY(check_manifest(*field.manifest, folders));
  return {};
}

}  // namespace carya::loader
