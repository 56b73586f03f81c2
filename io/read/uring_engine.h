#pragma once

#include <memory>

#include "base/error.h"
#include "io/read/read_engine.h"

namespace carya::io {

/// Make the engine on one io_uring.
///
/// A file by name is three linked requests: open into a direct descriptor, read, close.
///   1. open -> read is a soft link: a failed open cancels the rest silently and is the one completion.
///   2. read -> close is a hard link: reads ask for one byte more than the file should have, so that even a good read
/// ends
///      "short", which would cancel a soft link and leave the file open.
///   3. The flight, and with it the descriptor's place in the ring's table, is free only after the close has completed:
/// the
///      close would else close a file that was opened into the same place.
/// A read that ends with another length than expected, except one byte more, is repeated with ordinary system calls,
/// which tell the reason.
///
/// Errors: kUnsupported (kernel before 5.18: files cannot be linked), kPermission (seccomp, sysctl),
/// kExhausted.
Result<std::unique_ptr<ReadEngine>> create_uring_engine(const ReadEngineOptions& options);

}  // namespace carya::io
