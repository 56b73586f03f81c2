#include "io/files/cached_read.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace carya::io {
namespace {

constexpr std::uint64_t kResolveCached = 0x20;  // Source: Linux 5.12, include/uapi/linux/openat2.h
constexpr std::uint64_t kPage = 4096;

/// Bytes read, or -1.
std::int64_t read_at(CachedReading how, int fd, std::uint64_t offset, std::uint64_t length, std::byte* dest) {
  const iovec to{dest, length};
  while (true) {
    const ssize_t got =
        ::preadv2(fd, &to, 1, static_cast<off_t>(offset), how == CachedReading::kNoWait ? RWF_NOWAIT : 0);
    if (got >= 0 || errno != EINTR) return got;
  }
}

}  // namespace

CachedReading cached_reading(const std::string& path) {
  struct statfs system;
  if (::statfs(path.c_str(), &system) != 0) return CachedReading::kNever;
  switch (static_cast<std::uint32_t>(system.f_type)) {
    case 0xef53:      // ext2, ext3, ext4
    case 0x58465342:  // XFS
    case 0x9123683e:  // Btrfs
    case 0xf2f52010:  // F2FS
      return CachedReading::kNoWait;
    case 0x01021994:  // tmpfs
      return CachedReading::kMemory;
    default:
      return CachedReading::kNever;
  }
}

UniqueFd open_cached(int root, const char* path, std::uint64_t resolve) {
  open_how how{};
  how.flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
  how.resolve = resolve | kResolveCached | RESOLVE_NO_XDEV;
  const long fd = ::syscall(SYS_openat2, root, path, &how, sizeof how);
  return UniqueFd(static_cast<int>(std::max(fd, -1L)));
}

bool read_range_cached(CachedReading how, int fd, std::uint64_t offset, std::uint64_t length,
                       std::byte* dest) {
  return read_at(how, fd, offset, length, dest) == static_cast<std::int64_t>(length);
}

bool read_named_cached(CachedReading how, int root, const char* path, std::uint64_t resolve,
                       std::uint64_t length, std::byte* dest) {
  const UniqueFd fd = open_cached(root, path, resolve);
  if (!fd || read_at(how, fd.get(), 0, length + 1, dest) != static_cast<std::int64_t>(length)) return false;
  // It ends there, unless the next byte lies on a page that is not in memory.
  return length % kPage != 0 || read_at(how, fd.get(), length, 1, dest + length) == 0;
}

}  // namespace carya::io
