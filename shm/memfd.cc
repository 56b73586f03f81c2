#include "shm/memfd.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/core.h>
#include <cerrno>
#include <string>

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U  // Linux 6.3
#endif
#ifndef MFD_HUGE_2MB
#define MFD_HUGE_2MB (21U << 26)
#endif

namespace carya::shm {

namespace {

/// Call fallocate() for the whole file, again after each signal.
int change_memory(int fd, int mode, std::uint64_t bytes) {
  int status = 0;
  do status = fallocate(fd, mode, 0, static_cast<off_t>(bytes));
  while (status != 0 && errno == EINTR);
  return status;
}

}  // namespace

static_assert(kSealSize == (F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW));
static_assert(kSealReadOnly == (kSealSize | F_SEAL_FUTURE_WRITE));

Result<UniqueFd> create_memfd(const char* name, std::uint64_t bytes, bool hugetlb) {
  const unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING | (hugetlb ? MFD_HUGETLB | MFD_HUGE_2MB : 0U);
  UniqueFd fd(memfd_create(name, flags | MFD_NOEXEC_SEAL));
  if (!fd && errno == EINVAL) fd.reset(memfd_create(name, flags));  // a kernel before 6.3
  if (!fd) {
    const int error = errno;
    const std::string subject = std::string("memfd_create ") + name;
    if (error == EINVAL || error == ENOSYS)
      return fail(Code::kUnsupported, subject + ": not in this kernel; Linux 3.17 has it", error);
    return fail_errno(subject, error);
  }
  const std::string subject = fmt::format("allocate {} of {} B", name, bytes);
  if (ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0) return fail(Code::kExhausted, subject, errno);
  if (change_memory(fd.get(), 0, bytes) != 0)
    return fail(Code::kExhausted, subject + (hugetlb ? " in huge pages" : ""), errno);
  return fd;
}

Status give_back_memory(int fd, std::uint64_t bytes) {
  if (change_memory(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, bytes) != 0)
    return fail_errno("slot ring: give memory back", errno);
  return {};
}

Status take_memory_again(int fd, std::uint64_t bytes) {
  if (change_memory(fd, 0, bytes) != 0)
    return fail(Code::kExhausted, fmt::format("slot ring: no memory for {} B", bytes), errno);
  return {};
}

Status seal_memfd(int fd, unsigned seals) {
  if (fcntl(fd, F_ADD_SEALS, seals) != 0) return fail_errno("seal memfd", errno);
  return {};
}

Status check_memfd(int fd, std::uint64_t bytes, unsigned seals, std::string_view what) {
  const std::string subject(what);
  struct stat info{};
  if (fstat(fd, &info) != 0) return fail(Code::kCorrupt, subject + ": not a descriptor", errno);
  if (info.st_size < 0 || static_cast<std::uint64_t>(info.st_size) != bytes) {
    return fail(Code::kCorrupt,
                fmt::format("{}: wanted {} B, the file has {} B", subject, bytes, info.st_size));
  }
  const int have = fcntl(fd, F_GET_SEALS);
  if (have < 0) return fail(Code::kCorrupt, subject + ": not a memfd", errno);
  if ((static_cast<unsigned>(have) & seals) != seals) {
    return fail(Code::kCorrupt, fmt::format("{}: wanted seals {}, has {}", subject, seals, have));
  }
  return {};
}

}  // namespace carya::shm
