#pragma once

#include <memory>

#include "base/error.h"
#include "io/read/read_engine.h"

namespace carya::io {

/// The engine on one io_uring.
///
/// A file by name is three linked requests: open into a direct descriptor, read, close. What each step
/// guards:
///   1. open -> read is a soft link: a failed open cancels the rest without a word and is the one completion.
///   2. read -> close is a hard link: reads ask for one byte more than the file should have, so even a good
///      one ends "short", which would cancel a soft link and leave the file open.
///   3. The flight (and with it the descriptor's place in the ring's table) is free only after the close has
///      completed: an open into the same place before that would be closed by it.
/// Anything but the expected length, or "grew", is done again with ordinary system calls, which tell what it
/// was.
///
/// Errors: kUnsupported (kernel before 5.18: files cannot be linked), kPermission (seccomp, sysctl),
/// kExhausted.
Result<std::unique_ptr<ReadEngine>> create_uring_engine(const ReadEngineOptions& options);

}  // namespace carya::io
