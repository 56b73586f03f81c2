#include "io/files/manifest_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>

#include "base/mapping.h"
#include "base/unique_fd.h"
#include "io/credentials/sigv4.h"
#include "io/files/blocking_read.h"

namespace carya::io {
namespace {

Status write_all(int fd, std::span<const std::byte> bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t step = ::write(fd, bytes.data(), std::min<std::size_t>(bytes.size(), 1 << 30));
    if (step < 0 && errno == EINTR) continue;
    if (step <= 0) return fail_errno("write " + path, step < 0 ? errno : EIO);
    bytes = bytes.subspan(static_cast<std::size_t>(step));
  }
  return {};
}

}  // namespace

Result<std::shared_ptr<const ManifestImage>> load_manifest(const std::string& path) {
  const int raw = open_for_read(AT_FDCWD, path.c_str(), 0, 0);
  if (raw < 0) return fail_errno("open " + path, -raw);
  const UniqueFd fd(raw);
  struct stat status;
  if (::fstat(raw, &status) != 0) return fail_errno("stat " + path, errno);
  if (!S_ISREG(status.st_mode) || status.st_size < static_cast<off_t>(sizeof(ManifestHeader))) {
    return fail(Code::kCorrupt, "manifest " + path + ": not a manifest");
  }
  const auto size = static_cast<std::size_t>(status.st_size);
  ASSIGN(Mapping mapping, Mapping::anonymous(size, "memory for " + path));
  const auto memory = std::make_shared<const Mapping>(std::move(mapping));
  const ReadOutcome read = blocking_read_range(raw, 0, size, memory->data());
  if (!read.ok) return fail(Code::kIo, "read " + path + ": not all of it", read.sys_errno);
  return ManifestImage::open({memory->data(), size}, memory);
}

Status replace_file(const std::string& path, std::span<const std::byte> bytes, const Readers& readers) {
  std::error_code ignored;  // a folder that cannot be made shows when the file is opened
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), ignored);
  std::string temporary = path + ".XXXXXX";
  const UniqueFd fd(::mkostemp(temporary.data(), O_CLOEXEC));
  if (!fd) return fail_errno("create " + temporary, errno);
  Status written = let_read(fd.get(), readers, temporary);
  if (written) written = write_all(fd.get(), bytes, temporary);
  if (written && ::rename(temporary.c_str(), path.c_str()) != 0)
    written = fail_errno("rename " + temporary, errno);
  if (!written) ::unlink(temporary.c_str());
  return written;
}

Status store_manifest(const std::string& path, std::span<const std::byte> bytes, const Readers& readers) {
  return replace_file(path, bytes, readers);
}

std::string manifest_path(const std::string& cache_dir, std::string_view kind, std::string_view subject) {
  return cache_dir + "/" + std::string(kind) + "-" + sha256_half(subject).hex() + ".manifest";
}

}  // namespace carya::io
