#include "io/files/marked_files.h"

#include <sys/stat.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <utility>

#include "io/files/listing.h"

namespace carya::io {
namespace {

static_assert(std::endian::native == std::endian::little);

/// The eight bytes there. Errors: kIo.
Result<std::uint64_t> read_mark(int fd, std::int64_t at, const std::string& subject) {
  std::uint64_t value = 0;
  ssize_t got;
  do got = ::pread(fd, &value, sizeof value, at);
  while (got < 0 && errno == EINTR);
  if (got < 0) return fail_errno(subject, errno);
  if (got != sizeof value) return fail(Code::kIo, subject + ": it was cut off; copy it again");
  return value;
}

}  // namespace

Status MarkedFiles::add(UniqueFd file, std::string kind, std::string path, const FileMark& mark) {
  has_marks_ = has_marks_ || mark.at >= 0;
  files_.push_back({std::move(file), std::move(kind) + ": " + std::move(path), mark});
  return check(static_cast<std::uint32_t>(files_.size() - 1));
}

Status MarkedFiles::check(std::uint32_t file) const {
  CHECK(file < files_.size());
  const auto& [fd, subject, mark] = files_[file];
  struct stat status;
  if (::fstat(fd.get(), &status) != 0) return fail_errno(subject, errno);
  bool same = stamp_of(status).version() == mark.version;
  if (same && mark.at >= 0) {
    ASSIGN(const std::uint64_t value, read_mark(fd.get(), mark.at, subject));
    same = value == mark.value;
  }
  if (same) return {};
  return fail(Code::kIo, subject + ": it was written to since it was listed; make the pipeline anew");
}

}  // namespace carya::io
