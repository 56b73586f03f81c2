#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "io/http/store_access.h"
#include "loader/job/job_options.h"

namespace carya::loader {

/// What clients may have a daemon look at and write to, by its configuration. Paths are compared without
/// links; what is opened afterwards is opened beneath the folder that was compared
/// (io/files/source_folder.h).
struct AllowedFolders {
  std::vector<std::string> roots;       ///< datasets; none: everything that the user may read
  std::vector<std::string> cache_dirs;  ///< caches; none: with roots the user's own, else everything

  bool operator==(const AllowedFolders&) const = default;
  /// Of a dataset: its real path. Errors: kPermission, with the folder and the setting.
  Status check_root(const std::string& folder) const;
  /// Of a dataset in a folder or a store. Where there are roots, a URL lies below one of them that is a URL
  /// ("s3://bucket/folder"), on the server that this means without a client's settings. Errors: kPermission.
  Status check_source(const std::string& root, const io::StoreAccess* access) const;
  /// Of what a client says of stores. Where there are roots, nobody stands between that it names: a proxy or an authority is
  /// none, or that of this process's environment. Errors: kPermission.
  Status check_terms(const io::StoreTerms& terms) const;
  /// The cache folder that is used for the one that a client names, "": none. Errors: kPermission.
  Result<std::string> cache_dir(const std::string& asked) const;
  /// Commands are none of a daemon's; files of TLS lie below the roots or are those of the configuration.
  /// Errors: kPermission.
  Status check_remote(const RemoteOptions& asked, const RemoteOptions& configured) const;
};

/// $CARYA_CACHE_DIR, else carya/ in $XDG_CACHE_HOME or ~/.cache; "": there is no home.
std::string default_cache_dir();

}  // namespace carya::loader
