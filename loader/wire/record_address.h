#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "io/manifest/manifest.h"
#include "loader/data/dataset.h"
#include "loader/wire/chunk_message.h"

namespace carya::loader {

/// Where a record's bytes lie, for a worker that sees the same files. Empty if the listing kept no times.
std::optional<RemoteAddress> record_address(const io::Manifest& manifest, std::uint64_t index);

/// Some files of the source, spread over it, at most 16 of each field. A worker that sees them as they are listed here
/// may read records itself. Empty: no worker can.
std::vector<RemoteFile> source_files(const Dataset& dataset);

}  // namespace carya::loader
