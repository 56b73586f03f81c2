#include "io/rights/readers.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "base/clock.h"

namespace carya::io {
namespace {

using Who = Readers::Who;

constexpr const char* kAcl = "system.posix_acl_access";
/// What the kernel shows for groups that have no number in this user namespace, or none by the server's names.
/// Source: /proc/sys/kernel/overflowgid, whose default nobody changes.
constexpr gid_t kNoGroup = 65534;
constexpr mode_t kReadBits = 044, kSearchBits = 011;

/// Whom a mode lets do all of `bits`, which are those of the group and of the others alike. Where the group may do less
/// than the others, its members are the ones who may not.
Readers let_by(const struct stat& status, mode_t bits) {
  if ((status.st_mode & bits) == bits) return Readers::everybody();
  const mode_t of_group = bits & 070;
  if ((status.st_mode & of_group) == of_group && status.st_gid != kNoGroup)
    return Readers::of_group(status.st_gid);
  return {};
}

/// Whom all folders on the real path let through, and the last one or the file there do all of `bits` too.
Readers readers_on_the_way(const std::string& path, mode_t bits) {
  char at[PATH_MAX];
  if (::realpath(path.c_str(), at) == nullptr) return {};
  Readers all = Readers::everybody();
  for (; all.who != Who::kNobody; bits = 0) {
    struct stat status;
    if (::stat(at, &status) != 0 || ::getxattr(at, kAcl, nullptr, 0) > 0) return {};
    all = both(all, let_by(status, bits | (S_ISDIR(status.st_mode) ? kSearchBits : 0)));
    if (std::strcmp(at, "/") == 0) break;
    char* const slash = std::strrchr(at, '/');
    slash[slash == at ? 1 : 0] = '\0';
  }
  return all;
}

/// The umask of this process, which umask() tells only by changing it for all threads. Unknown: the narrowest one.
mode_t current_umask() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("Umask:")) return static_cast<mode_t>(std::strtoul(line.c_str() + 6, nullptr, 8));
  return 077;
}

}  // namespace

Readers both(const Readers& a, const Readers& b) {
  if (a.who == Who::kEverybody) return b;
  if (b.who == Who::kEverybody || a == b) return a;
  return {};
}

Readers readers_of(const std::string& path) {
  return readers_on_the_way(path, kReadBits);
}

Readers ReadersOfFiles::of(const std::string& path) {
  struct stat status;
  if (::lstat(path.c_str(), &status) != 0) return {};
  if (!S_ISREG(status.st_mode)) return readers_of(path);  // a link may lead anywhere
  const Readers own = let_by(status, kReadBits);
  if (own.who == Who::kNobody || ::getxattr(path.c_str(), kAcl, nullptr, 0) > 0) return {};
  const std::size_t slash = path.rfind('/');
  return both(own, of_folder(slash == std::string::npos ? "." : path.substr(0, slash + 1)));
}

Readers ReadersOfFiles::of_folder(const std::string& path) {
  const std::int64_t now = monotonic_ns();
  {
    const MutexLock lock(mutex_);
    const auto known = folders_.find(path);
    if (known != folders_.end() && now - known->second.asked_ns < remember_ns_) return known->second.readers;
  }
  const Readers readers = readers_on_the_way(path, 0);
  const MutexLock lock(mutex_);
  if (folders_.size() >= kFoldersMax) folders_.clear();
  folders_.insert_or_assign(path, Folder{readers, now});
  return readers;
}

Status let_read(int fd, const Readers& readers, const std::string& path) {
  // Before the file gets its group, and where it does not, no group may read it. What a call could not do, the look at the
  // file behind it finds.
  ::fchmod(fd, 0600);
  mode_t mode = readers.who == Who::kEverybody ? 0644 : 0600;
  if (readers.who == Who::kGroup && ::fchown(fd, static_cast<uid_t>(-1), readers.group) == 0 &&
      ::fgetxattr(fd, kAcl, nullptr, 0) <= 0)
    mode = 0640;
  if (mode != 0600) mode &= ~current_umask();
  if (mode != 0600) ::fchmod(fd, mode);
  struct stat status;
  if (::fstat(fd, &status) != 0) return fail_errno("stat " + path, errno);
  if ((status.st_mode & kReadBits & ~mode) != 0)
    return fail(Code::kUnsupported,
                path +
                    ": its file system lets others read what they may not read at its source; give a "
                    "folder of one with modes");
  return {};
}

Status keep_from_others(int fd, const Readers& readers, const std::string& path) {
  struct stat status;
  if (::fstat(fd, &status) != 0) return fail_errno("stat " + path, errno);
  const Readers left = both(let_by(status, kReadBits), readers);
  const mode_t rest = left.who == Who::kEverybody ? 0 : left.who == Who::kGroup ? 004 : kReadBits;
  if ((status.st_mode & rest) == 0) return {};
  if (::geteuid() != 0 && status.st_uid != ::geteuid()) return fail_errno("chmod " + path, EPERM);
  return let_read(fd, left, path);
}

Result<Readers> readers_of_open(int fd, const std::string& path) {
  struct stat status;
  if (::fstat(fd, &status) != 0) return fail_errno("stat " + path, errno);
  return let_by(status, kReadBits);
}

}  // namespace carya::io
