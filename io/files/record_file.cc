#include "io/files/record_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/core.h>
#include <cerrno>

#include "io/files/listing.h"

namespace carya::io {

std::string record_path(const Manifest& manifest, std::uint64_t index) {
  const std::string relative = manifest.path_c_str(index);
  const std::string& root = manifest.root();
  return root.empty() || relative.starts_with('/') ? relative : root + "/" + relative;
}

Status check_as_listed(const Manifest& manifest, std::uint64_t index) {
  if (manifest.pin_c_str(index) != nullptr) return {};  // every read compared its version
  const auto listed = manifest.file_version(index);
  if (!listed) return {};
  const std::string path = record_path(manifest, index);
  struct stat status;
  if (::stat(path.c_str(), &status) != 0) {
    const Error why = fail_errno(path, errno).error();
    return fail(Code::kIo, "read: " + why.message + "; it was there when it was listed; " + kListAnew,
                why.sys_errno);
  }
  const SourceStamp now = stamp_of(status);
  if (now.version() == *listed) return {};
  const std::string how = now.bytes == listed->bytes
                              ? fmt::format("written again with the same {} B", now.bytes)
                              : fmt::format("{} B then, {} B now", listed->bytes, now.bytes);
  return fail(Code::kIo, "read: " + path + ": it changed since it was listed (" + how + "); " + kListAnew);
}

Readers record_readers(const Manifest& manifest, std::uint64_t index, ReadersOfFiles& files) {
  if (manifest.pin_c_str(index) != nullptr) return {};
  return files.of(record_path(manifest, index));
}

bool may_read(const Manifest& manifest, std::uint64_t index) {
  if (manifest.pin_c_str(index) != nullptr) return true;
  return ::faccessat(AT_FDCWD, record_path(manifest, index).c_str(), R_OK, AT_EACCESS) == 0;
}

}  // namespace carya::io
