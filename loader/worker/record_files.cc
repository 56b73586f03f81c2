#include "loader/worker/record_files.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>

#include <fmt/core.h>
#include <algorithm>
#include <cerrno>
#include <utility>

#include "io/files/blocking_read.h"
#include "io/files/listing.h"

namespace carya::loader {
namespace {

/// Links are followed as long as they stay below the root.
constexpr std::uint64_t kResolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS;

void drop_slashes(std::string& path) {
  while (path.ends_with('/')) path.pop_back();
}

}  // namespace

Result<RecordFiles> RecordFiles::open(const std::vector<std::string>& roots, std::uint64_t bytes_max) {
  RecordFiles files;
  files.bytes_max_ = bytes_max;
  for (const std::string& root : roots) {
    const std::size_t equals = root.find('=');
    std::string theirs = root.substr(0, equals);
    const std::string ours = equals == std::string::npos ? root : root.substr(equals + 1);
    if (!theirs.starts_with('/') || !ours.starts_with('/'))
      return fail(Code::kInvalidArgument,
                  "--root " + root + ": give an absolute folder, or HOST=FOLDER where hosts see it as HOST");
    UniqueFd folder(::open(ours.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!folder) return fail_errno("--root " + ours, errno);
    drop_slashes(theirs);
    files.roots_.push_back({std::move(theirs), std::move(folder)});
  }
  return files;
}

Status RecordFiles::check(std::span<const RemoteFile> files) const {
  for (const RemoteFile& file : files) {
    ASSIGN(const UniqueFd opened, open_file(file));
  }
  return {};
}

Result<UniqueFd> RecordFiles::open_file(const RemoteFile& file) const {
  if (file.path.find('\0') != std::string::npos)
    return fail(Code::kPermission, "read: a path with a zero byte");
  const std::string subject = "read " + file.path;
  Error why{Code::kPermission, subject + ": it is under no --root of this worker"};
  for (const Root& root : roots_) {
    if (!file.path.starts_with(root.theirs + "/")) continue;
    std::string below = file.path.substr(root.theirs.size());
    below.erase(0, below.find_first_not_of('/'));
    const int opened = io::open_for_read(root.folder.get(), below.c_str(), kResolve, 0);
    if (opened < 0) {
      const int reason = -opened;
      why = reason == EXDEV ? Error{Code::kPermission, subject + ": it leads out of --root", reason}
                            : fail_errno(subject, reason).error();
      continue;
    }
    UniqueFd fd(opened);
    struct stat facts{};
    if (fstat(fd.get(), &facts) != 0) return fail_errno(subject, errno);
    if (!S_ISREG(facts.st_mode)) return fail(Code::kPermission, subject + ": it is no regular file");
    const io::SourceStamp stamp = io::stamp_of(facts);
    if (stamp.bytes == file.bytes && stamp.mtime_ns == file.mtime_ns) return fd;
    return fail(Code::kIo, fmt::format("{}: it is not as the host lists it: {} B of time {} here, {} B of {} "
                                       "there; keep times when copying (cp -p, rsync -a)",
                                       subject, stamp.bytes, stamp.mtime_ns, file.bytes, file.mtime_ns));
  }
  return std::unexpected(std::move(why));
}

Result<std::span<const std::byte>> RecordFiles::read(const RemoteAddress& address,
                                                     std::vector<std::byte>& memory) const {
  const std::string subject = "read " + address.file.path;
  if (address.bytes > address.file.bytes || address.offset > address.file.bytes - address.bytes)
    return fail(Code::kCorrupt, subject + ": the range is not inside of the file");
  if (address.bytes > bytes_max_)
    return fail(Code::kExhausted, fmt::format("{}: a record of {} B; this worker reads at most {} (--memory)",
                                              subject, address.bytes, bytes_max_));
  ASSIGN(const UniqueFd fd, open_file(address.file));
  if (memory.size() < address.bytes + kRemoteSlackBytes) memory.resize(address.bytes + kRemoteSlackBytes);
  const io::ReadOutcome got = io::blocking_read_range(fd.get(), address.offset, address.bytes, memory.data());
  if (!got.ok)
    return got.sys_errno != 0 ? Result<std::span<const std::byte>>(fail_errno(subject, got.sys_errno))
                              : fail(Code::kIo, subject + ": it is shorter than it was a moment ago");
  std::fill_n(memory.begin() + static_cast<std::ptrdiff_t>(address.bytes), kRemoteSlackBytes, std::byte{0});
  return std::span<const std::byte>(memory).first(address.bytes);
}

}  // namespace carya::loader
