#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/error.h"
#include "io/files/listing.h"
#include "io/manifest/manifest_image.h"
#include "io/sources/source_file.h"

namespace carya::io {

/// The members of one tar, and the version of it where it is an object of a store.
struct TarIndex {
  std::shared_ptr<const ManifestImage> members;
  std::string pin;
};

/// All regular members of one tar in file order, or of one zip whose members are stored in its directory's, as a
/// manifest with the tar as its only container: from the index kept in cache_dir (beside the tar when that is empty) if
/// size and time of the tar still fit, else by scanning it. The label of a member whose whole content is one decimal
/// integer is that integer; of any other kNoNumber. skipped_count() is 1 where a tar has no end mark.
///
/// Errors:  those of SourcePlace::open_file(), TarScanner and zip_members(). An index that cannot be read or written is
/// none.
/// Threads: thread-safe.
Result<TarIndex> tar_index(const std::string& tar, const SourcePlace& place, const std::string& cache_dir,
                           ListingProgress& progress);

}  // namespace carya::io
