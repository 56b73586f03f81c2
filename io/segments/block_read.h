#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>

#include "base/error.h"

namespace carya::io {

/// Memory for reads past the page cache. It is made at its first use. Threads: owner only.
class BlockBuffer {
 public:
  static constexpr std::size_t kBytes = 1 << 20;  ///< a larger read is made in pieces of so many
  /// Aligned to a block; empty: there is no memory.
  std::span<std::byte> bytes();

 private:
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  std::unique_ptr<std::byte, Free> memory_;
};

/// Read exactly `out.size()` bytes of a file that is open with O_DIRECT: the blocks around them, by way of `blocks`.
/// Errors: kIo, with EINVAL where the file has other blocks, and without an errno where it ends before; kExhausted.
Status read_blocks(int fd, std::span<std::byte> out, std::uint64_t offset, BlockBuffer& blocks);

}  // namespace carya::io
