#include "io/store/store_file.h"

#include <fcntl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/core.h>
#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <utility>

#include "base/clock.h"

namespace carya::io {
namespace {

/// Status, header and name of a file that is open. The header may be anything.
Result<StoreFile> examine(UniqueFd fd, const std::string& path) {
  struct stat status;
  if (::fstat(fd.get(), &status) != 0) return fail_errno("stat " + path, errno);
  if (!S_ISREG(status.st_mode)) return fail(Code::kInvalidArgument, "store " + path + ": not a regular file");
  StoreFile file{.fd = std::move(fd), .device = status.st_dev, .inode = status.st_ino};
  if (status.st_size >= static_cast<off_t>(sizeof file.header)) {
    TRY(read_whole(file.fd.get(), std::as_writable_bytes(std::span(&file.header, 1)), 0));
  }
  return file;
}

Result<StoreFile> open_existing(const std::string& path, bool read_only) {
  constexpr int kFlags = O_CLOEXEC | O_NONBLOCK | O_NOCTTY;  // a FIFO under this name must not hang us
  std::string reason = read_only ? "opened read-only" : "";
  int fd = -1;
  if (!read_only) {
    fd = ::open(path.c_str(), O_RDWR | kFlags);
    if (fd < 0 && (errno == EACCES || errno == EPERM || errno == EROFS || errno == ETXTBSY)) {
      reason = fail_errno("open " + path + " for writing", errno).error().message;
      read_only = true;
    }
  }
  if (read_only) fd = ::open(path.c_str(), O_RDONLY | kFlags);
  if (fd < 0) return fail_errno("open " + path, errno);
  ASSIGN(StoreFile file, examine(UniqueFd(fd), path));
  file.read_only_reason = std::move(reason);
  return file;
}

Result<StoreFile> write_fresh(UniqueFd fd, const std::string& name, const StoreIdentity& identity,
                              const Readers& readers) {
  StoreHeader header = make_store_header(identity, fresh_salt());
  const Written written = write_whole(fd.get(), std::as_bytes(std::span(&header, 1)), 0);
  if (written.sys_errno != 0) return fail_errno("write " + name, written.sys_errno);
  TRY(let_read(fd.get(), readers, name));
  return examine(std::move(fd), name);
}

/// A new file under `path`, where there was none. kTimeout: another process was first.
Result<StoreFile> create_first(const std::string& path, const StoreIdentity& identity,
                               const Readers& readers) {
  std::error_code ignored;  // a folder that cannot be made shows when the file is opened
  const auto folder = std::filesystem::path(path).parent_path();
  if (!folder.empty()) std::filesystem::create_directories(folder, ignored);
  std::string temporary = path + ".XXXXXX";
  UniqueFd fd(::mkostemp(temporary.data(), O_CLOEXEC));
  if (!fd) return fail_errno("create " + temporary, errno);
  Result<StoreFile> file = write_fresh(std::move(fd), temporary, identity, readers);
  if (file) {
    if (::link(temporary.c_str(), path.c_str()) == 0) {
      ::unlink(temporary.c_str());
      return file;
    }
    if (errno == EEXIST) {
      file = fail(Code::kTimeout, "create " + path + ": another process was first", EEXIST);
    } else if (::rename(temporary.c_str(), path.c_str()) == 0) {  // a file system without hard links
      return file;
    } else {
      file = fail_errno("rename " + temporary, errno);
    }
  }
  ::unlink(temporary.c_str());
  return file;
}

bool replaceable(const StoreFile& file, const std::string& path) {
  return has_store_magic(file.header) || path.ends_with(".store");
}

Error mismatch(const StoreFile& file, const std::string& path, const StoreIdentity& identity) {
  if (!store_header_valid(file.header))
    return {Code::kCorrupt, "store " + path + ": not a store, or a broken header"};
  const StoreIdentity other = identity_of(file.header);
  return {Code::kInvalidArgument,
          fmt::format("store {}: belongs to {} kind {} with {} records, not to {} kind {} with {}", path,
                      other.dataset.hex(), other.kind, other.record_count, identity.dataset.hex(),
                      identity.kind, identity.record_count)};
}

/// A fresh file in the place of `file`. kTimeout with EEXIST: it was no longer the file under `path`.
Result<StoreFile> replace(const std::string& path, const StoreFile& file, const StoreIdentity& identity,
                          int lock_wait_ms, const Readers& readers) {
  ASSIGN(const FileLock lock, FileLock::acquire(file.fd.get(), lock_wait_ms, path));
  if (file.name_of(path) != StoreFile::Name::kThis) {
    return fail(Code::kTimeout, "replace " + path + ": another process was first", EEXIST);
  }
  ASSIGN(StoreFile fresh, create_successor(path, identity, readers));
  TRY(publish_successor(path, fresh));
  return fresh;
}

}  // namespace

std::uint64_t fresh_salt() {
  std::uint64_t salt = 0;
  // Not a secret: it must only differ from other files' salts. Early in the boot the clock must do.
  if (::getrandom(&salt, sizeof salt, GRND_NONBLOCK) != sizeof salt) {
    const std::uint64_t seeds[2] = {static_cast<std::uint64_t>(monotonic_ns()),
                                    static_cast<std::uint64_t>(::getpid())};
    salt = hash64(std::as_bytes(std::span(seeds)));
  }
  return salt;
}

Status read_whole(int fd, std::span<std::byte> out, std::uint64_t offset) {
  while (!out.empty()) {
    const ssize_t got = ::pread(fd, out.data(), out.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fail_errno(fmt::format("read store @{}", offset), errno);
    if (got == 0) return fail(Code::kIo, fmt::format("read store @{}: the file became shorter", offset));
    out = out.subspan(static_cast<std::size_t>(got));
    offset += static_cast<std::uint64_t>(got);
  }
  return {};
}

Written write_whole(int fd, std::span<const std::byte> bytes, std::uint64_t offset) {
  Written written;
  rlimit limit;
  std::size_t allowed = bytes.size();
  if (::getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
    allowed = std::min<std::uint64_t>(allowed, limit.rlim_cur > offset ? limit.rlim_cur - offset : 0);
  }
  while (written.bytes < allowed) {
    const ssize_t step = ::pwrite(fd, bytes.data() + written.bytes, allowed - written.bytes,
                                  static_cast<off_t>(offset + written.bytes));
    if (step < 0 && errno == EINTR) continue;
    if (step <= 0) {
      written.sys_errno = step < 0 ? errno : EIO;
      return written;
    }
    written.bytes += static_cast<std::size_t>(step);
  }
  if (allowed < bytes.size()) written.sys_errno = EFBIG;
  return written;
}

StoreFile::Name StoreFile::name_of(const std::string& path) const {
  struct stat status;
  if (::stat(path.c_str(), &status) != 0) return errno == ENOENT ? Name::kNone : Name::kThis;
  return status.st_dev == device && status.st_ino == inode ? Name::kThis : Name::kOther;
}

Result<std::uint64_t> StoreFile::bytes() const {
  struct stat status;
  if (::fstat(fd.get(), &status) != 0) return fail_errno("stat store", errno);
  return static_cast<std::uint64_t>(status.st_size);
}

Result<StoreFile> open_store_file(const std::string& path, const StoreIdentity& identity, OpenMode mode,
                                  int lock_wait_ms, const Readers& readers) {
  const std::int64_t give_up = monotonic_ns() + lock_wait_ms * 1'000'000LL;
  do {  // each failed try means that another process replaced the file just then
    Result<StoreFile> file = open_existing(path, mode == OpenMode::kReadOnly);
    const bool creates = mode == OpenMode::kCreate || mode == OpenMode::kCreateOnly;
    if (!file && file.error().sys_errno == ENOENT && creates) {
      file = create_first(path, identity, readers);
      if (!file && file.error().sys_errno == EEXIST) continue;
      return file;
    }
    if (!file) return file;
    if (store_header_valid(file->header) && identity_of(file->header) == identity) return file;
    const bool replaces =
        mode == OpenMode::kCreate && file->read_only_reason.empty() && replaceable(*file, path);
    if (!replaces) return std::unexpected(mismatch(*file, path, identity));
    Result<StoreFile> fresh = replace(path, *file, identity, lock_wait_ms, readers);
    if (!fresh && fresh.error().sys_errno == EEXIST) continue;
    return fresh;
  } while (monotonic_ns() < give_up);
  return fail(Code::kTimeout, "open " + path + ": other processes keep replacing it");
}

Result<StoreFile> open_for_look(const std::string& path) {
  return open_existing(path, true);
}

Result<StoreFile> create_successor(const std::string& path, const StoreIdentity& identity,
                                   const Readers& readers) {
  const std::string name = path + ".new";
  ::unlink(name.c_str());  // what a killed compaction left
  UniqueFd fd(::open(name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd) return fail_errno("create " + name, errno);
  Result<StoreFile> file = write_fresh(std::move(fd), name, identity, readers);
  if (!file) ::unlink(name.c_str());
  return file;
}

Status publish_successor(const std::string& path, const StoreFile& successor) {
  const std::string name = path + ".new";
  // Someone deleted `path` and built a new one while we worked: two successors may have met under one name.
  if (successor.name_of(name) != StoreFile::Name::kThis) {
    return fail(Code::kIo, "rename " + name + ": another process took the name");
  }
  if (::rename(name.c_str(), path.c_str()) == 0) return {};
  const int sys_errno = errno;
  drop_successor(path);
  return fail_errno("rename " + name, sys_errno);
}

void drop_successor(const std::string& path) {
  ::unlink((path + ".new").c_str());
}

Result<FileLock> FileLock::acquire(int fd, int wait_ms, const std::string& path) {
  const std::int64_t give_up = monotonic_ns() + wait_ms * 1'000'000LL;
  for (;;) {
    struct flock whole{.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 0, .l_pid = 0};
    if (::fcntl(fd, F_OFD_SETLK, &whole) == 0) return FileLock(fd);
    if (errno != EAGAIN && errno != EACCES && errno != EINTR) {
      return fail(Code::kUnsupported, "lock " + path + ": the file system refuses locks", errno);
    }
    if (monotonic_ns() >= give_up) {
      return fail(Code::kTimeout, fmt::format("lock {}: held elsewhere for {} ms", path, wait_ms));
    }
    ::usleep(500);
  }
}

FileLock::FileLock(FileLock&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

FileLock& FileLock::operator=(FileLock&& other) noexcept {
  if (this != &other) {
    release();
    fd_ = std::exchange(other.fd_, -1);
  }
  return *this;
}

FileLock::~FileLock() {
  release();
}

void FileLock::release() noexcept {
  if (fd_ < 0) return;
  struct flock whole{.l_type = F_UNLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 0, .l_pid = 0};
  ::fcntl(fd_, F_OFD_SETLK, &whole);
  fd_ = -1;
}

}  // namespace carya::io
