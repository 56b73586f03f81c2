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

/// Bytes in a memory file that nobody can change or cut any more: how a document or an array too long for a
/// message goes to another process. Threads: const is thread-safe.
class SealedBytes {
 public:
  /// A memory file with a copy of the bytes, to be passed on. Errors: kExhausted.
  static Result<UniqueFd> copy(const char* name, std::span<const std::byte> bytes);
  /// Map what came: a sealed memory file of at most `bytes_max`. `what` is the errors' subject.
  /// Errors: kCorrupt (a device, a file of the disk, one that could be changed or has holes), kExhausted.
  static Result<std::shared_ptr<const SealedBytes>> map(const UniqueFd& fd, std::size_t bytes_max,
                                                        std::string_view what);
  std::span<const std::byte> bytes() const { return {mapping_.data(), mapping_.bytes()}; }

 private:
  explicit SealedBytes(Mapping mapping) : mapping_(std::move(mapping)) {}
  Mapping mapping_;
};

}  // namespace carya::loader
