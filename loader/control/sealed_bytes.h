#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/mapping.h"
#include "base/unique_fd.h"

namespace carya::loader {

/// Bytes in a memory file that nobody can change or truncate. A document or an array that is too long for a message
/// goes to another process in this way. Threads: const is thread-safe.
class SealedBytes {
 public:
  /// Make a memory file with a copy of the bytes. Errors: kExhausted.
  static Result<UniqueFd> copy(const char* name, std::span<const std::byte> bytes);
  /// Map a sealed memory file of at most `bytes_max` that came from a peer. `what` is the errors' subject.
  /// Errors: kCorrupt (a device, a file on disk, a file that could change or has holes), kExhausted.
  static Result<std::shared_ptr<const SealedBytes>> map(const UniqueFd& fd, std::size_t bytes_max,
                                                        std::string_view what);
  std::span<const std::byte> bytes() const { return {mapping_.data(), mapping_.bytes()}; }

 private:
  explicit SealedBytes(Mapping mapping) : mapping_(std::move(mapping)) {}
  Mapping mapping_;
};

}  // namespace carya::loader
