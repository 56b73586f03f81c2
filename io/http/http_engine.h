#pragma once

#include <memory>

#include "base/error.h"
#include "io/http/store_access.h"
#include "io/read/read_engine.h"

namespace carya::io {

struct HttpEngineOptions {
  HttpLimits limits;
  /// Requests to one store at the same time, at most. It is halved when the store says that it is busy, and grows by one
  /// for as many answers as it allows.
  std::uint32_t requests_max = 64;
};

/// Adds URLs to a read engine: reads below a root that is a URL ("s3://bucket/folder") are ranges of objects, asked for
/// by one thread that runs libcurl's multi handle; all other reads are those of `local`. The thread and libcurl start
/// with the first such root.
///
/// A read of an object has a `pin` and `object_bytes` in its request. Its bytes are written only after the answer's
/// headers were found to be of that version and range. Neighbours in the queue are asked for together (joined_ranges.h).
///
/// Threads: as ReadEngine.
std::unique_ptr<ReadEngine> with_stores(std::unique_ptr<ReadEngine> local, std::uint32_t depth,
                                        const HttpEngineOptions& options = {});

}  // namespace carya::io
