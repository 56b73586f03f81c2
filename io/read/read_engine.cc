#include "io/read/read_engine.h"

#include <cerrno>
#include <cstring>

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

}  // namespace carya::io
