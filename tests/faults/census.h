#pragma once

#include <sys/types.h>

#include <string>

namespace carya::faults {

/// What a process holds, as /proc says.
struct Census {
  long descriptors = 0;
  long segments = 0;  ///< memory files: open, or mapped
  long threads = 0;   ///< but for those that read: slow storage has more of them, up to 64
  long children = 0;

  static Census of(pid_t pid);
  /// What is more than in `before`, in words; "" when nothing is.
  std::string beyond(const Census& before) const;
  std::string text() const;
};

}  // namespace carya::faults
