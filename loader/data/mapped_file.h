#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/error.h"
#include "base/unique_fd.h"

namespace carya::loader {

/// The file behind mapped memory, such as an array of numpy.memmap. When a file is truncated, the system ends a process
/// that reads memory behind the file's new end (SIGBUS); check() tells that before. Threads: const is thread-safe.
class MappedFile {
 public:
  /// Find the file behind `memory`; null if there is none, or if no path leads to it. Cost: reads /proc/self/maps.
  static std::shared_ptr<const MappedFile> find(std::span<const std::byte> memory);

  /// Errors: kIo if the file no longer reaches to the memory's end. Also kIo if this process maps the file only to read
  /// and the file was written to. Cost: one fstat.
  Status check() const;

 private:
  MappedFile() = default;

  UniqueFd fd_;
  std::string path_;
  std::uint64_t bytes_ = 0;      // of the file, up to the memory's end
  std::int64_t changed_ns_ = 0;  // 0: changes are the owner's business
};

}  // namespace carya::loader
