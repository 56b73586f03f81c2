#pragma once

#include <cstddef>
#include <cstdint>

#include "base/error.h"

namespace carya::io {

/// O_DIRECT asks for offsets, lengths and memory in multiples of this; every block size in use divides it.
inline constexpr std::uint64_t kDirectAlign = 4096;

/// How a read ended, in the terms of ReadCompletion.
struct ReadOutcome {
  bool ok = false;
  Code code = Code::kIo;
  int sys_errno = 0;
  std::int64_t bytes = -1;
};

/// Judge a whole-file read that asked for more than `length` and got `got` bytes up to the end of the file.
ReadOutcome judge_whole(std::int64_t got, std::uint64_t length);
/// Judge an errno of open or read.
ReadOutcome judge_errno(int sys_errno);

/// Open for reading; never blocks on a FIFO. `root` is a directory descriptor or AT_FDCWD, `resolve` as of
/// openat2(2). Returns a descriptor, or -errno. `flags` are added (O_DIRECT).
int open_for_read(int root, const char* path, std::uint64_t resolve, int flags);

/// Open, read and close one file with ordinary system calls: what the pread pool does, and what the ring does
/// with a file whose fast path ended in anything but the expected length. `dest` as in ReadRequest.
///
/// Errors:  none thrown; the outcome says shrank, grew, vanished (see ReadCompletion).
/// Threads: thread-safe. Retries EINTR, short reads and (for a bounded time) EAGAIN.
ReadOutcome blocking_read_named(int root, const char* path, std::uint64_t resolve, bool direct,
                                std::uint64_t length, std::byte* dest);

/// Exactly `length` bytes at `offset`; less means that the file ends before: not ok, errno 0.
ReadOutcome blocking_read_range(int fd, std::uint64_t offset, std::uint64_t length, std::byte* dest);

}  // namespace carya::io
