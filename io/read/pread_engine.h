#pragma once

#include <memory>
#include <string>

#include "base/error.h"
#include "io/read/read_engine.h"

namespace carya::io {

/// The engine on a pool of threads that open, read and close with ordinary system calls: where the kernel
/// forbids io_uring. `refused` is why that was ("EPERM"), shown by name(); empty when the pool was asked for.
///
/// Errors: kInvalidArgument (depth or threads), kExhausted (no thread could be started).
Result<std::unique_ptr<ReadEngine>> create_pread_engine(const ReadEngineOptions& options,
                                                        const std::string& refused);

}  // namespace carya::io
