#include "io/files/blocking_read.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/checked.h"
#include "base/unique_fd.h"
#include "io/files/source_folder.h"

namespace carya::io {
namespace {

// A regular file never answers EAGAIN for long; a FIFO that took its place can for ever.
constexpr int kAgainMax = 50;
constexpr useconds_t kAgainPauseUs = 1000;
constexpr std::uint64_t kReadMax = 0x7ffff000;  // Source: read(2), the most that one call transfers

/// Bytes read into dest from `offset` until `wanted` or the end of the file, or -errno.
std::int64_t read_fully(int fd, std::uint64_t offset, std::uint64_t wanted, std::byte* dest) {
  std::uint64_t got = 0;
  int again = 0;
  while (got < wanted) {
    const ssize_t step =
        ::pread(fd, dest + got, std::min(wanted - got, kReadMax), static_cast<off_t>(offset + got));
    if (step == 0) break;
    if (step > 0) {
      got += static_cast<std::uint64_t>(step);
      continue;
    }
    if (errno == EINTR) continue;
    if (errno == EAGAIN && ++again <= kAgainMax) {
      ::usleep(kAgainPauseUs);
      continue;
    }
    // A pipe cannot be read at an offset: what was a file is none any more.
    return -errno;
  }
  return static_cast<std::int64_t>(got);
}

}  // namespace

ReadOutcome judge_whole(std::int64_t got, std::uint64_t length) {
  const std::int64_t expected = static_cast<std::int64_t>(length);
  // Direct reads round the length up: whatever came beyond it, "one more" says that the file grew.
  return {got == expected, Code::kIo, 0, std::min(got, expected + 1)};
}

ReadOutcome judge_errno(int sys_errno) {
  return {false, fail_errno("", sys_errno).error().code, sys_errno, -1};
}

int open_for_read(int root, const char* path, std::uint64_t resolve, int flags) {
  return open_resolved(root, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | flags, resolve);
}

ReadOutcome blocking_read_named(int root, const char* path, std::uint64_t resolve, bool direct,
                                std::uint64_t length, std::byte* dest) {
  if (direct) {
    const UniqueFd fd(open_for_read(root, path, resolve, O_DIRECT));
    if (fd) {
      const std::int64_t got = ::pread(fd.get(), dest, align_up(length + 1, kDirectAlign), 0);
      if (got >= static_cast<std::int64_t>(length)) return judge_whole(got, length);
    }
    // Shorter, refused or interrupted: the buffered way tells which.
  }
  const int fd = open_for_read(root, path, resolve, 0);
  if (fd < 0) return judge_errno(-fd);
  const UniqueFd owned(fd);
  const std::int64_t got = read_fully(fd, 0, length + 1, dest);
  if (got < 0) return judge_errno(static_cast<int>(-got));
  return judge_whole(got, length);
}

ReadOutcome blocking_read_range(int fd, std::uint64_t offset, std::uint64_t length, std::byte* dest) {
  const std::int64_t got = read_fully(fd, offset, length, dest);
  if (got < 0) return judge_errno(static_cast<int>(-got));
  return {got == static_cast<std::int64_t>(length), Code::kIo, 0, got};
}

}  // namespace carya::io
