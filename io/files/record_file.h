#pragma once

#include <cstdint>
#include <string>

#include "base/error.h"
#include "io/manifest/manifest.h"
#include "io/rights/readers.h"

namespace carya::io {

/// What to do when files are no longer as they were listed.
inline constexpr const char* kListAnew = "list it anew: pipeline.open(verify=True), then make a new Loader";

/// The file (or container) of a record with its manifest's root: what a person can open.
std::string record_path(const Manifest& manifest, std::uint64_t index);

/// Whether that file is still the one that was listed, by size and time of change; a change within one tick
/// of the file system's clock (at most 10 ms) at the same size is not seen. Where the manifest keeps neither,
/// nothing is asked, and nothing of objects in a store, whose version each read compares.
///
/// Errors:  kIo (it changed or is gone), and those of stat(). Cost: one stat.
/// Threads: thread-safe.
Status check_as_listed(const Manifest& manifest, std::uint64_t index);

/// Who else may read that file; nobody, of an object in a store. Threads: thread-safe.
Readers record_readers(const Manifest& manifest, std::uint64_t index, ReadersOfFiles& files);

/// Whether this user may read that file; of objects in a store nothing is asked. Threads: thread-safe. Cost: an access().
bool may_read(const Manifest& manifest, std::uint64_t index);

}  // namespace carya::io
