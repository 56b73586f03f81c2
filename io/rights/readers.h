#pragma once

#include <sys/types.h>

#include <compare>
#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>

#include "base/error.h"
#include "base/mutex.h"

namespace carya::io {

/// Who may read a file beside its owner and root.
struct Readers {
  enum class Who : std::uint8_t { kNobody, kGroup, kEverybody };
  Who who = Who::kNobody;
  gid_t group = 0;  ///< of kGroup: its members; else 0

  static Readers everybody() { return {.who = Who::kEverybody}; }
  static Readers of_group(gid_t group) { return {.who = Who::kGroup, .group = group}; }
  auto operator<=>(const Readers&) const = default;
};

/// Who is among the readers of both.
Readers both(const Readers& a, const Readers& b);

/// Who may read the file at `path`, or list that folder: its mode lets them, and they may search each folder on its real
/// path, from the root on. What cannot be looked at, and what has a POSIX ACL or lies in a folder with one, is nobody's:
/// its mode says no more than a bound of what its entries let. So is what belongs to a group without a number here.
///
/// Threads: thread-safe. Cost: realpath(), and stat() and getxattr() of each folder on the way.
/// Measured: 23 us of CPU time six folders deep (ext4, a shared core).
Readers readers_of(const std::string& path);

/// The same of many files, which lie in fewer folders: what was found of these counts for a while. So a folder that is
/// closed counts as open for as long, to who asked before. Threads: thread-safe. Cost: lstat() and getxattr() of the file.
class ReadersOfFiles {
 public:
  explicit ReadersOfFiles(std::int64_t remember_ns = 10'000'000'000) : remember_ns_(remember_ns) {}
  Readers of(const std::string& path);

 private:
  struct Folder {
    Readers readers;
    std::int64_t asked_ns;
  };
  Readers of_folder(const std::string& path) EXCLUDES(mutex_);

  static constexpr std::size_t kFoldersMax = 4096;
  const std::int64_t remember_ns_;
  Mutex mutex_;
  std::unordered_map<std::string, Folder> folders_ GUARDED_BY(mutex_);  // who may go through each
};

/// Let at most `readers` read a file that this process has made, and has written nothing to that not all of its readers may
/// read. Fewer may where the umask says so, and nobody where the process may not give the file to the group, or the folder
/// has given it an ACL. `path` is for messages.
/// Errors: kUnsupported (the file system gives its files rights of its own, which are more); those of fstat().
Status let_read(int fd, const Readers& readers, const std::string& path);

/// Take the right to read an open file from all but `readers`. Nobody gets one.
/// Errors: those of let_read(); kPermission (another user's file).
Status keep_from_others(int fd, const Readers& readers, const std::string& path);

/// Who may read an open file, by its mode alone.
Result<Readers> readers_of_open(int fd, const std::string& path);

}  // namespace carya::io
