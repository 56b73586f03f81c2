#include "io/segments/block_read.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/checked.h"

namespace carya::io {
namespace {

/// A multiple of all blocks that disks have. Source: open(2), O_DIRECT.
constexpr std::uint64_t kDiskBlock = 4096;

/// As many bytes as there are before the end of the file. Whole blocks, so a short read that is none ends it.
Result<std::size_t> read_some(int fd, std::span<std::byte> into, std::uint64_t offset) {
  std::size_t have = 0;
  while (have < into.size()) {
    const ssize_t got =
        ::pread(fd, into.data() + have, into.size() - have, static_cast<off_t>(offset + have));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fail_errno(fmt::format("read blocks @{}", offset), errno);
    have += static_cast<std::size_t>(got);
    if (got == 0 || have % kDiskBlock != 0) break;
  }
  return have;
}

}  // namespace

std::span<std::byte> BlockBuffer::bytes() {
  if (!memory_) memory_.reset(static_cast<std::byte*>(std::aligned_alloc(kDiskBlock, kBytes)));
  return {memory_.get(), memory_ ? kBytes : 0};
}

Status read_blocks(int fd, std::span<std::byte> out, std::uint64_t offset, BlockBuffer& blocks) {
  const std::span<std::byte> memory = blocks.bytes();
  if (memory.empty()) return std::unexpected(out_of_memory());
  while (!out.empty()) {
    const std::size_t before = offset % kDiskBlock;
    const std::size_t part = std::min(out.size(), memory.size() - before);
    ASSIGN(const std::size_t have,
           read_some(fd, memory.first(align_up(before + part, kDiskBlock)), offset - before));
    if (have < before + part)
      return fail(Code::kIo, fmt::format("read blocks @{}: the file became shorter", offset));
    std::memcpy(out.data(), memory.data() + before, part);
    out = out.subspan(part);
    offset += part;
  }
  return {};
}

}  // namespace carya::io
