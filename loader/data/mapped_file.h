#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/error.h"
#include "base/unique_fd.h"

namespace carya::loader {

/// The file that lies behind mapped memory, such as an array of numpy.memmap. Memory behind the end of a file
/// that was truncated is no more: the system ends a process that reads it (SIGBUS), so it is asked first.
/// Threads: const is thread-safe.
class MappedFile {
 public:
  /// The file behind `memory`; null when there is none, or none that a path leads to. Cost: reads
  /// /proc/self/maps.
  static std::shared_ptr<const MappedFile> find(std::span<const std::byte> memory);

  /// kIo when the file no longer reaches to the memory's end, or, where this process maps it only to read,
  /// was written to. Cost: one fstat.
  Status check() const;

 private:
  MappedFile() = default;

  UniqueFd fd_;
  std::string path_;
  std::uint64_t bytes_ = 0;      // of the file, up to the memory's end
  std::int64_t changed_ns_ = 0;  // 0: changes are the owner's business
};

}  // namespace carya::loader
