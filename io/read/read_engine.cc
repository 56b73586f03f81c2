#include "io/read/read_engine.h"

#include <sys/statfs.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>

#include "io/read/pread_engine.h"
#include "io/read/uring_engine.h"

namespace carya::io {

Result<std::unique_ptr<ReadEngine>> ReadEngine::create(const ReadEngineOptions& options) {
  if (options.kind == ReadEngineOptions::Kind::kPread) return create_pread_engine(options, "");
  auto uring = create_uring_engine(options);
  if (uring || options.kind == ReadEngineOptions::Kind::kUring) return uring;
  if (uring.error().code == Code::kInvalidArgument) return uring;
  const int refused = uring.error().sys_errno;
  const char* name = refused == 0 ? nullptr : ::strerrorname_np(refused);
  return create_pread_engine(options, name != nullptr ? name : uring.error().message);
}

bool storage_is_remote(const std::string& path) {
  constexpr std::uint32_t kRemote[] = {0x65735546,   // FUSE
                                       0x6969,       // NFS
                                       0xff534d42,   // CIFS
                                       0xfe534d42,   // SMB
                                       0x01021997,   // 9p
                                       0x00c36400,   // Ceph
                                       0x5346414f,   // AFS
                                       0x0bd00bd0,   // Lustre
                                       0x47504653,   // GPFS
                                       0x19830326};  // BeeGFS
  struct statfs system;
  if (::statfs(path.c_str(), &system) != 0)
    return errno == ENOSYS;  // a FUSE server that does not answer this
  return std::ranges::find(kRemote, static_cast<std::uint32_t>(system.f_type)) != std::end(kRemote);
}

}  // namespace carya::io
