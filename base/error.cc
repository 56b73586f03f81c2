#include "base/error.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <system_error>

namespace carya {

std::string_view code_name(Code code) {
  switch (code) {
    case Code::kInvalidArgument:
      return "invalid_argument";
    case Code::kNotFound:
      return "not_found";
    case Code::kPermission:
      return "permission";
    case Code::kCorrupt:
      return "corrupt";
    case Code::kIo:
      return "io";
    case Code::kTimeout:
      return "timeout";
    case Code::kExhausted:
      return "exhausted";
    case Code::kUnsupported:
      return "unsupported";
    case Code::kClosed:
      return "closed";
    case Code::kForked:
      return "forked";
  }
  return "unknown";
}

namespace {

/// What lifts a limit of the system, whoever ran into it; empty for what the subject must say.
std::string_view cure(int sys_errno) {
  switch (sys_errno) {
    case EMFILE:
      return "; raise this process's limit of open files (ulimit -n, or LimitNOFILE= of a service)";
    case ENFILE:
      return "; raise the machine's limit of open files (sysctl fs.file-max)";
    case ENOSPC:
      return "; make room there";
    default:
      return "";
  }
}

}  // namespace

std::unexpected<Error> fail_errno(std::string_view subject, int sys_errno) {
  Code code = Code::kIo;
  switch (sys_errno) {
    case ENOENT:
    case ENOTDIR:
      code = Code::kNotFound;
      break;
    case EACCES:
    case EPERM:
      code = Code::kPermission;
      break;
    case ENOMEM:
    case ENOSPC:
    case EMFILE:
    case ENFILE:
      code = Code::kExhausted;
      break;
    default:
      break;
  }
  std::string message(subject);
  message += ": ";
  message += std::generic_category().message(sys_errno);
  message += cure(sys_errno);
  return fail(code, std::move(message), sys_errno);
}

void check_failed(const char* file, int line, const char* condition) {
  std::fprintf(stderr, "carya: bug at %s:%d: %s\n", file, line, condition);
  std::abort();
}

}  // namespace carya
