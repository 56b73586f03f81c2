#pragma once

#include <string>

#include "base/error.h"
#include "io/index/record_index.h"
#include "io/manifest/manifest_layout.h"

namespace carya::io {

/// "<cache_dir>/records-<hash>.index" of a file by its real path, and of what is wanted of it.
std::string index_path(const std::string& cache_dir, const std::string& real_path, const RecordSpec& spec);

/// The index kept there, if it is of the file with this stamp. Errors: kNotFound, kPermission, kIo, kCorrupt;
/// each means that the file is indexed anew.
Result<RecordIndex> load_index(const std::string& path, const RecordSpec& spec, const SourceStamp& stamp);

/// How many records the index at `path` has, whatever file it is of. Errors: as load_index().
Result<std::uint64_t> check_index_file(const std::string& path);

}  // namespace carya::io
