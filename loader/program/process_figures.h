#pragma once

#include <cstdint>

namespace carya::loader {

/// What the kernel says of this process. What cannot be read is 0.
struct ProcessFigures {
  double cpu_s = 0;                ///< user and system
  std::uint64_t memory_bytes = 0;  ///< that are in RAM
  std::uint64_t descriptors = 0, descriptors_limit = 0;
};

/// Threads: thread-safe.
ProcessFigures process_figures();

}  // namespace carya::loader
