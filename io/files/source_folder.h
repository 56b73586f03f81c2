#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/unique_fd.h"
#include "io/manifest/manifest.h"

namespace carya::io {

/// openat2(2): nothing that a path goes through lies outside of the folder that it starts from.
std::uint64_t beneath_flags();
/// open(2), with `resolve` flags of openat2(2) unless 0. -errno when it fails.
int open_resolved(int folder, const char* path, int flags, std::uint64_t resolve);
/// A folder by its real path: no link stands in it, also if somebody puts one there now. Errors: kPermission,
/// kNotFound.
Result<UniqueFd> open_real_folder(const std::string& path, int flags);

/// The folder that files have in common, and how they are opened: anywhere, or (ListingOptions::may_read)
/// beneath it. Threads: const is thread-safe.
class SourceFolder {
 public:
  /// Errors: those of may_read; kPermission (relative paths, where that is set).
  static Result<SourceFolder> open(const std::vector<std::string>& paths, const ListingOptions& options);

  /// That the manifest's paths are relative to.
  const std::string& path() const { return path_; }
  /// One of the files, as seen from there.
  std::string below(const std::string& file) const;
  /// Errors: as open(2); kPermission: outside.
  Result<UniqueFd> open_file(const std::string& file, int flags) const;

 private:
  std::string common_;  // as the user wrote it
  std::string path_;
  UniqueFd fd_;  // where all lies beneath it
};

}  // namespace carya::io
