#pragma once

#include <memory>
#include <string>

#include "base/error.h"
#include "io/read/read_engine.h"

namespace carya::io {

/// Make the engine on a pool of threads that open, read and close with ordinary system calls, for kernels that forbid
/// io_uring. `refused` is the reason ("EPERM"), which name() shows; it is empty if the caller asked for the pool.
///
/// Errors: kInvalidArgument (depth or threads), kExhausted (no thread could be started).
Result<std::unique_ptr<ReadEngine>> create_pread_engine(const ReadEngineOptions& options,
                                                        const std::string& refused);

}  // namespace carya::io
