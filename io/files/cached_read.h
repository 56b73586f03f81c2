#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/unique_fd.h"

namespace carya::io {

/// How a file system lets files be read without waiting, where all of them is in memory.
enum class CachedReading : std::uint8_t {
  kNever,   ///< not known, or another process or machine answers for it, also when a file is opened
  kNoWait,  ///< ext4, XFS, Btrfs, F2FS: it says what is not in the page cache (RWF_NOWAIT)
  kMemory,  ///< tmpfs: it has files nowhere else, but for what is swapped out
};
/// Of the file system of a path. Source: linux/magic.h.
CachedReading cached_reading(const std::string& path);

/// Open for reading, if the kernel has all of the path in memory and it leads over no other mount. Empty else, and
/// whatever else is wrong: who may wait finds out. `resolve` as of openat2(2), beside that.
///
/// Never waits but where the file system kNever does. Threads: thread-safe.
UniqueFd open_cached(int root, const char* path, std::uint64_t resolve);

/// Exactly `length` bytes at `offset`, if all of them are in the page cache; false else. Part of `dest` may have been
/// written then. `how` of its file system: kNoWait or kMemory. Threads: thread-safe.
bool read_range_cached(CachedReading how, int fd, std::uint64_t offset, std::uint64_t length,
                       std::byte* dest);

/// The whole of a file of exactly `length` bytes, if name and bytes are in memory. `dest` has room for one byte more.
/// The rest as read_range_cached().
bool read_named_cached(CachedReading how, int root, const char* path, std::uint64_t resolve,
                       std::uint64_t length, std::byte* dest);

}  // namespace carya::io
