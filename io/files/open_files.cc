#include "io/files/open_files.h"

#include <fcntl.h>
#include <linux/stat.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "io/files/blocking_read.h"
#include "io/files/listing.h"
#include "io/files/source_folder.h"

namespace carya::io {
namespace {

#ifndef STATX_DIOALIGN
// Source: Linux 6.1, include/uapi/linux/stat.h; the two fields follow stx_mnt_id.
constexpr unsigned kStatxDioalign = 0x2000;
#else
constexpr unsigned kStatxDioalign = STATX_DIOALIGN;
#endif
constexpr std::size_t kDioMemAlignAt = 152;     // offset of stx_dio_mem_align in struct statx
constexpr std::size_t kDioOffsetAlignAt = 156;  // offset of stx_dio_offset_align

/// The multiple that direct reads of this file may start at: what the kernel says (6.1 and later), else 4096.
std::uint64_t direct_offset_align(int fd) {
  alignas(8) unsigned char raw[256] = {};
  if (::syscall(SYS_statx, fd, "", AT_EMPTY_PATH, kStatxDioalign, raw) != 0) return kDirectAlign;
  unsigned mask, memory, offset;
  __builtin_memcpy(&mask, raw, 4);
  __builtin_memcpy(&memory, raw + kDioMemAlignAt, 4);
  __builtin_memcpy(&offset, raw + kDioOffsetAlignAt, 4);
  if ((mask & kStatxDioalign) == 0) return kDirectAlign;
  if (offset == 0 || memory > kDirectAlign || offset > kDirectAlign) return 0;  // not possible for this file
  return offset;
}

}  // namespace

Result<int> OpenFiles::add_root(const std::string& directory) {
  UniqueFd fd;
  if (!directory.empty()) {
    if (resolve_ != 0) {  // then it is a real path, and whoever puts a link there now leads nowhere
      ASSIGN(fd, open_real_folder(directory, O_PATH));
    } else {
      fd.reset(::open(directory.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    }
    if (!fd) return fail_errno("open directory " + directory, errno);
  }
  int handle;
  if (free_roots_.empty()) {
    handle = static_cast<int>(roots_.size());
    roots_.emplace_back();
    free_roots_.reserve(roots_.size());
  } else {
    handle = free_roots_.back();
    free_roots_.pop_back();
  }
  roots_[handle] = {true, std::move(fd)};
  return handle;
}

void OpenFiles::remove_root(int root) {
  static_cast<void>(root_fd(root));  // checks it
  roots_[root] = {};
  free_roots_.push_back(root);
}

Result<int> OpenFiles::add_file(int root, const std::string& path) {
  const int fd = open_for_read(root_fd(root), path.c_str(), resolve_, 0);
  if (fd < 0) return fail_errno("open " + path, -fd);
  OpenFile file{UniqueFd(fd), UniqueFd(), 0, {}};
  struct stat status;
  if (::fstat(fd, &status) != 0) return fail_errno("stat " + path, errno);
  if (!S_ISREG(status.st_mode)) return fail(Code::kIo, "open " + path + ": not a regular file");
  file.stamp = stamp_of(status);
  if (direct_) {
    const int direct = open_for_read(root_fd(root), path.c_str(), resolve_, O_DIRECT);
    if (direct >= 0) {
      file.direct.reset(direct);
      file.direct_align = direct_offset_align(direct);
    }
  }
  int handle;
  if (free_.empty()) {
    handle = static_cast<int>(files_.size());
    files_.push_back(std::move(file));
    free_.reserve(files_.size());  // so that removing one never fails
  } else {
    handle = free_.back();
    free_.pop_back();
    files_[handle] = std::move(file);
  }
  return handle;
}

void OpenFiles::remove_file(int handle) {
  CHECK(file(handle).buffered);
  files_[handle] = OpenFile{};
  free_.push_back(handle);
}

int OpenFiles::root_fd(int root) const {
  CHECK(root >= 0 && static_cast<std::size_t>(root) < roots_.size() && roots_[root].open);
  return roots_[root].fd ? roots_[root].fd.get() : AT_FDCWD;
}

const OpenFile& OpenFiles::file(int handle) const {
  CHECK(handle >= 0 && static_cast<std::size_t>(handle) < files_.size());
  CHECK(files_[handle].buffered);
  return files_[handle];
}

Result<SourceStamp> OpenFiles::stamp_now(int handle) const {
  struct stat status;
  if (::fstat(file(handle).buffered.get(), &status) != 0) return fail_errno("stat of an open file", errno);
  return stamp_of(status);
}

}  // namespace carya::io
