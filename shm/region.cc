#include "shm/region.h"

#include <sys/mman.h>

#include <fmt/core.h>
#include <cerrno>
#include <string>
#include <utility>

#include "shm/fork_watch.h"

// Numbers of the kernel's interface that glibc 2.36 lacks on some targets. Source: linux/mman.h, 6.1.
#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#define MADV_POPULATE_WRITE 23
#endif
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

namespace carya::shm {

Result<Region> Region::map(int fd, std::uint64_t bytes, Access access) {
  watch_forks();
  const std::string subject = fmt::format("map {} B of shared memory", bytes);
  const bool is_large = bytes >= kSlotAlign;
  Region region;
  ASSIGN(region.mapping_, Mapping::of_file(fd, bytes, access, subject, is_large ? kSlotAlign : 0));
  region.epoch_ = fork_epoch();
  region.access_ = access;
  if (madvise(region.data(), bytes, MADV_DONTFORK) != 0) return fail_errno(subject, errno);
  if (is_large)
    madvise(region.data(), bytes, MADV_HUGEPAGE);  // refused on hugetlb and without THP, which is harmless
  return region;
}

Region::Region(Region&& other) noexcept = default;

Region& Region::operator=(Region&& other) noexcept {
  if (this != &other) {
    leave_inherited();
    mapping_ = std::move(other.mapping_);
    epoch_ = other.epoch_;
    access_ = other.access_;
  }
  return *this;
}

void Region::leave_inherited() noexcept {
  // In a forked child other memory may lie at these addresses by now.
  if (epoch_ != fork_epoch()) mapping_.abandon();
}

void Region::prefault() const {
  madvise(data(), bytes(), access_ == Access::kReadWrite ? MADV_POPULATE_WRITE : MADV_POPULATE_READ);
}

void Region::forget_writes() const {
  madvise(data(), bytes(), MADV_DONTNEED);
}

std::uint64_t Region::collapse() const {
  if (bytes() < kSlotAlign) return 0;
  if (madvise(data(), bytes(), MADV_COLLAPSE) == 0) return bytes();
  if (errno == EINVAL) return 0;  // not in this kernel, or not for this file
  std::uint64_t huge = 0;         // memory is fragmented: collapse and count piece by piece
  for (std::uint64_t at = 0; at + kSlotAlign <= bytes(); at += kSlotAlign) {
    if (madvise(data() + at, kSlotAlign, MADV_COLLAPSE) == 0) huge += kSlotAlign;
  }
  return huge;
}

}  // namespace carya::shm
