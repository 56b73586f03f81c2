#pragma once

#include <memory>

#include "base/error.h"
#include "io/http/store_access.h"
#include "io/read/read_engine.h"

namespace carya::io {

struct HttpEngineOptions {
  HttpLimits limits;
  /// Requests to one store at the same time, at most; how many there are is measured (request_window.h).
  std::uint32_t requests_max = 128;
};

/// Adds URLs to a read engine: reads below a root that is a URL ("s3://bucket/folder") are ranges of objects, asked for
/// by a thread that runs libcurl's multi handle, one for each access (add_store()); all other reads are those of `local`.
/// A thread starts with the first root of its access and ends with the last one; libcurl is loaded with the first.
///
/// A read of an object has a `pin` and `object_bytes` in its request. Its bytes are written only after the answer's
/// headers were found to be of that version and range. Neighbours in the queue are asked for together (joined_ranges.h).
///
/// Threads: as ReadEngine.
std::unique_ptr<ReadEngine> with_stores(std::unique_ptr<ReadEngine> local, std::uint32_t depth,
                                        const HttpEngineOptions& options = {});

}  // namespace carya::io
