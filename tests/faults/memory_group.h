#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>

#include "base/error.h"

namespace carya::faults {

/// A memory cgroup (version 1 or 2) of our own, below the one that this process is in. What a process had
/// before it came stays charged where it was; what it allocates then counts here. When it is destroyed, who
/// is in it goes back and the group is removed. Threads: owner only.
class MemoryGroup {
 public:
  /// Errors: kUnsupported, where no such group may be made, with the reason.
  static Result<std::unique_ptr<MemoryGroup>> create();
  ~MemoryGroup();
  MemoryGroup(const MemoryGroup&) = delete;
  MemoryGroup& operator=(const MemoryGroup&) = delete;

  Status enter(pid_t pid);
  Status set_limit(std::uint64_t bytes);
  std::uint64_t usage() const;
  /// How many of its processes the kernel has killed for want of memory.
  std::uint64_t kills() const;

 private:
  MemoryGroup(std::string parent, std::string folder, bool version2)
      : parent_(std::move(parent)), folder_(std::move(folder)), version2_(version2) {}

  const std::string parent_, folder_;
  const bool version2_;
};

}  // namespace carya::faults
