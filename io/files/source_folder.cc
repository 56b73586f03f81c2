#include "io/files/source_folder.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/syscall.h>

#include <cerrno>

#include "io/files/common_folder.h"
#include "io/files/listing.h"
#include "io/files/open_failure.h"

namespace carya::io {

std::uint64_t beneath_flags() {
  return RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS;
}

int open_resolved(int folder, const char* path, int flags, std::uint64_t resolve) {
  for (;;) {
    long fd = -1;
    if (resolve == 0) {
      fd = ::openat(folder, path, flags);
    } else {
      open_how how{};
      how.flags = static_cast<std::uint64_t>(flags);
      how.resolve = resolve;
      fd = ::syscall(SYS_openat2, folder, path, &how, sizeof how);
    }
    if (fd >= 0) return static_cast<int>(fd);
    // EAGAIN: a rename elsewhere, while ".." was looked at.
    if (errno != EINTR && !(errno == EAGAIN && resolve != 0)) return -errno;
  }
}

Result<UniqueFd> open_real_folder(const std::string& path, int flags) {
  const int fd = open_resolved(AT_FDCWD, path.c_str(), flags | O_DIRECTORY | O_CLOEXEC, RESOLVE_NO_SYMLINKS);
  if (fd < 0) return fail_open(path, fd == -ELOOP ? EXDEV : -fd);
  return UniqueFd(fd);
}

Result<SourceFolder> SourceFolder::open(const std::vector<std::string>& paths,
                                        const ListingOptions& options) {
  SourceFolder folder;
  folder.path_ = folder.common_ = common_folder(paths);
  if (!options.may_read) return folder;
  if (!folder.common_.starts_with('/'))
    return fail(Code::kPermission, "files: relative paths, or of no common folder; give absolute ones");
  ASSIGN(folder.path_, real_path(folder.common_));
  TRY(options.may_read(folder.path_));
  ASSIGN(folder.fd_, open_real_folder(folder.path_, O_PATH));
  return folder;
}

std::string SourceFolder::below(const std::string& file) const {
  return below_folder(common_, file);
}

Result<UniqueFd> SourceFolder::open_file(const std::string& file, int flags) const {
  const int fd = fd_ ? open_resolved(fd_.get(), below(file).c_str(), flags, beneath_flags())
                     : open_resolved(AT_FDCWD, file.c_str(), flags, 0);
  if (fd < 0) return fail_open(file, -fd);
  return UniqueFd(fd);
}

}  // namespace carya::io
