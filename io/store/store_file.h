#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "base/error.h"
#include "base/unique_fd.h"
#include "io/rights/readers.h"
#include "io/store/store_format.h"

namespace carya::io {

/// Read exactly `out.size()` bytes. Errors: kIo, also when the file ends before.
Status read_whole(int fd, std::span<std::byte> out, std::uint64_t offset);

/// A number for the header of a new file that differs from those of others. Not a secret.
std::uint64_t fresh_salt();

/// Write until done or failed; how many bytes are in the file, and the errno (0 when all are). Stays below
/// RLIMIT_FSIZE instead of being killed by its signal (EFBIG then).
struct Written {
  std::size_t bytes = 0;
  int sys_errno = 0;
};
Written write_whole(int fd, std::span<const std::byte> bytes, std::uint64_t offset);

/// An open store file whose header was checked.
struct StoreFile {
  UniqueFd fd;
  StoreHeader header{};
  dev_t device = 0;
  ino_t inode = 0;
  /// Empty, or why it can only be read.
  std::string read_only_reason;

  /// Whether `path` still names this file, or names nothing, or another file.
  enum class Name { kThis, kNone, kOther };
  Name name_of(const std::string& path) const;
  Result<std::uint64_t> bytes() const;
};

enum class OpenMode {
  kCreate,      ///< create when missing, replace when of another identity or broken
  kCreateOnly,  ///< create when missing, never replace
  kWrite,       ///< never create or replace; write when permitted
  kReadOnly,    ///< never create, replace or write
};

/// Open the store file of this identity. A new file appears under `path` whole (temporary file, then link or
/// rename); one is replaced only by who holds its lock. A file without a store's magic is replaced only when
/// its name ends in ".store". Errors: kNotFound, kPermission, kExhausted, kIo; kCorrupt (broken header, not
/// replaced), kInvalidArgument (another identity, not replaced; not a regular file); kTimeout (its lock is
/// held). At most `readers` may read a new file beside this user.
Result<StoreFile> open_store_file(const std::string& path, const StoreIdentity& identity, OpenMode mode,
                                  int lock_wait_ms, const Readers& readers);

/// Open any regular file for reading and read what would be its header, unchecked (zeros when it is too
/// short).
Result<StoreFile> open_for_look(const std::string& path);

/// An empty file for `path` under a name of its own ("<path>.new"), with a fresh header and at most these readers
/// (let_read()). The caller holds the lock of the file that `path` names.
Result<StoreFile> create_successor(const std::string& path, const StoreIdentity& identity,
                                   const Readers& readers);

/// Put what create_successor made in the place of `path`. On an error the successor is deleted.
Status publish_successor(const std::string& path, const StoreFile& successor);
void drop_successor(const std::string& path);

/// An exclusive lock of an open file description, held by one object. Threads: owner only.
class FileLock {
 public:
  /// Errors: kTimeout after `wait_ms`; kUnsupported (the file system has no locks).
  static Result<FileLock> acquire(int fd, int wait_ms, const std::string& path);
  ~FileLock();
  FileLock(FileLock&& other) noexcept;
  FileLock& operator=(FileLock&& other) noexcept;

 private:
  explicit FileLock(int fd) : fd_(fd) {}
  void release() noexcept;
  int fd_ = -1;  // not owned; stays open as long as the lock
};

}  // namespace carya::io
