#pragma once

#include "loader/control/documents.h"

namespace carya::loader {

/// Fills in what is the process's: what the kernel says of CPU time, memory, descriptors and its mount namespace, and the
/// guests of its engine.
/// What cannot be read keeps its default. Threads: thread-safe.
void describe_process(DaemonStatus& status);

}  // namespace carya::loader
