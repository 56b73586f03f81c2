#include "loader/control/sealed_bytes.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <fmt/core.h>
#include <cerrno>
#include <cstring>
#include <string>

#include "shm/memfd.h"

namespace carya::loader {
namespace {

constexpr unsigned kSeals = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;

}  // namespace

Result<UniqueFd> SealedBytes::copy(const char* name, std::span<const std::byte> bytes) {
  ASSIGN(UniqueFd fd, shm::create_memfd(name, std::max<std::size_t>(bytes.size(), 1), false));
  if (!bytes.empty()) {
    // Only for the copy: a writable mapping keeps the seal off.
    ASSIGN(const Mapping memory,
           Mapping::of_file(fd.get(), bytes.size(), Mapping::Access::kReadWrite, std::string("map ") + name));
    std::memcpy(memory.data(), bytes.data(), bytes.size());
  }
  TRY(shm::seal_memfd(fd.get(), kSeals));
  return fd;
}

Result<std::shared_ptr<const SealedBytes>> SealedBytes::map(const UniqueFd& fd, std::size_t bytes_max,
                                                            std::string_view what) {
  const std::string subject(what);
  struct stat info{};
  if (fstat(fd.get(), &info) != 0) return fail(Code::kCorrupt, subject + ": not a descriptor", errno);
  if (info.st_size < 1 || static_cast<std::uint64_t>(info.st_size) > bytes_max)
    return fail(Code::kCorrupt,
                fmt::format("{}: of {} bytes; give 1 to {}", subject, info.st_size, bytes_max));
  // To read a hole makes memory, here: what came must have all of its own.
  if (info.st_blocks * 512 < info.st_size)
    return fail(Code::kCorrupt, fmt::format("{}: {} bytes with holes, {} have memory", subject, info.st_size,
                                            info.st_blocks * 512));
  const auto size = static_cast<std::size_t>(info.st_size);
  TRY(shm::check_memfd(fd.get(), size, kSeals, what));
  ASSIGN(Mapping memory, Mapping::of_file(fd.get(), size, Mapping::Access::kReadOnly, subject));
  return std::shared_ptr<const SealedBytes>(new SealedBytes(std::move(memory)));
}

}  // namespace carya::loader
