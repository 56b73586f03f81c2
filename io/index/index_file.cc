#include "io/index/index_file.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <memory>
#include <span>

#include "base/unique_fd.h"
#include "io/credentials/sigv4.h"
#include "io/files/blocking_read.h"

namespace carya::io {
namespace {

struct Loaded {
  std::unique_ptr<std::byte[]> memory;
  std::span<const std::byte> image;
};

// Read, not mapped: docs/decisions/010.
Result<Loaded> read_whole(const std::string& path) {
  const int raw = open_for_read(AT_FDCWD, path.c_str(), 0, 0);
  if (raw < 0) return fail_errno("open " + path, -raw);
  const UniqueFd fd(raw);
  struct stat status;
  if (::fstat(raw, &status) != 0) return fail_errno("stat " + path, errno);
  if (!S_ISREG(status.st_mode)) return fail(Code::kCorrupt, "record index " + path + ": not a file");
  const auto bytes = static_cast<std::size_t>(status.st_size);
  Loaded loaded{.memory = std::make_unique_for_overwrite<std::byte[]>(bytes), .image = {}};
  const ReadOutcome read = blocking_read_range(raw, 0, bytes, loaded.memory.get());
  if (!read.ok) return fail(Code::kIo, "read " + path + ": not all of it", read.sys_errno);
  loaded.image = {loaded.memory.get(), bytes};
  return loaded;
}

}  // namespace

std::string index_path(const std::string& cache_dir, const std::string& real_path, const RecordSpec& spec) {
  const std::string subject = spec.fingerprint().hex() + real_path;
  return cache_dir + "/records-" + sha256_half(subject).hex() + ".index";
}

Result<RecordIndex> load_index(const std::string& path, const RecordSpec& spec, const SourceStamp& stamp) {
  ASSIGN(const Loaded loaded, read_whole(path));
  return RecordIndex::load(loaded.image, spec, stamp.bytes, stamp.mtime_ns);
}

Result<std::uint64_t> check_index_file(const std::string& path) {
  ASSIGN(const Loaded loaded, read_whole(path));
  return check_stored_index(loaded.image);
}

}  // namespace carya::io
