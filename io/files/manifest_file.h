#pragma once

#include <memory>
#include <span>
#include <string>

#include "base/error.h"
#include "io/manifest/manifest_image.h"
#include "io/rights/readers.h"

namespace carya::io {

/// Read a stored manifest into memory. It is not mapped: whoever may write to the cache folder, or a full
/// disk's repair, could cut the file, and the system ends a process that reads a mapping behind the end of
/// its file (SIGBUS). docs/decisions/010. Errors: kNotFound, kPermission, kIo; kCorrupt when its bytes are
/// wrong.
Result<std::shared_ptr<const ManifestImage>> load_manifest(const std::string& path);

/// Write a file whole or not at all (temporary file, rename); makes the folder when it is missing. At most `readers` may
/// read it beside this user, as let_read() says. A crash can leave a file of the right name with wrong bytes: check what
/// is read. Errors: those of writing, renaming and let_read().
Status replace_file(const std::string& path, std::span<const std::byte> bytes, const Readers& readers);

/// replace_file() with a manifest's bytes; load_manifest refuses what a crash left.
Status store_manifest(const std::string& path, std::span<const std::byte> bytes, const Readers& readers);

/// "<cache_dir>/<kind>-<hash of subject>.manifest".
std::string manifest_path(const std::string& cache_dir, std::string_view kind, std::string_view subject);

}  // namespace carya::io
