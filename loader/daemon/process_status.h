#pragma once

#include "loader/control/documents.h"

namespace carya::loader {

/// Fills in what the kernel says of this process: CPU time, memory, descriptors, its mount namespace.
/// What cannot be read keeps its default. Threads: thread-safe.
void describe_process(DaemonStatus& status);

}  // namespace carya::loader
