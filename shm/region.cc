#include "shm/region.h"

#include <sys/mman.h>

#include <cerrno>
#include <string>
#include <utility>

#include "base/checked.h"
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
namespace {

/// Address space of `bytes` that starts at a huge page boundary, or nullptr.
std::byte* reserve_aligned(std::uint64_t bytes) {
  const std::uint64_t wanted = bytes + kSlotAlign;
  void* raw = mmap(nullptr, wanted, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (raw == MAP_FAILED) return nullptr;
  const auto start = reinterpret_cast<std::uintptr_t>(raw);
  const auto aligned = align_up<std::uintptr_t>(start, kSlotAlign);
  if (aligned != start) munmap(raw, aligned - start);
  const std::uintptr_t tail = aligned + bytes;
  if (tail != start + wanted) munmap(reinterpret_cast<void*>(tail), start + wanted - tail);
  return reinterpret_cast<std::byte*>(aligned);
}

}  // namespace

Result<Region> Region::map(int fd, std::uint64_t bytes, Access access) {
  watch_forks();
  const std::string subject = "map " + std::to_string(bytes) + " B of shared memory";
  std::byte* address = nullptr;
  if (bytes >= kSlotAlign && (address = reserve_aligned(bytes)) == nullptr) {
    return fail(Code::kExhausted, subject, errno);
  }
  const int protection = access == Access::kReadOnly ? PROT_READ : PROT_READ | PROT_WRITE;
  const int sharing = access == Access::kPrivate ? MAP_PRIVATE : MAP_SHARED;
  void* mapped = mmap(address, bytes, protection, sharing | (address ? MAP_FIXED : 0), fd, 0);
  if (mapped == MAP_FAILED) {
    const int error = errno;
    if (address) munmap(address, bytes);
    return fail_errno(subject, error);
  }
  Region region;
  region.data_ = static_cast<std::byte*>(mapped);
  region.bytes_ = bytes;
  region.epoch_ = fork_epoch();
  region.access_ = access;
  if (madvise(mapped, bytes, MADV_DONTFORK) != 0) return fail_errno(subject, errno);
  if (address) madvise(mapped, bytes, MADV_HUGEPAGE);  // refused on hugetlb and without THP: no matter
  return region;
}

Region::Region(Region&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)),
      epoch_(other.epoch_),
      access_(other.access_) {}

Region& Region::operator=(Region&& other) noexcept {
  if (this != &other) {
    unmap();
    data_ = std::exchange(other.data_, nullptr);
    bytes_ = std::exchange(other.bytes_, 0);
    epoch_ = other.epoch_;
    access_ = other.access_;
  }
  return *this;
}

void Region::unmap() noexcept {
  // In a forked child something else may live at these addresses by now.
  if (data_ && epoch_ == fork_epoch()) munmap(data_, bytes_);
  data_ = nullptr;
}

void Region::prefault() const {
  madvise(data_, bytes_, access_ == Access::kReadWrite ? MADV_POPULATE_WRITE : MADV_POPULATE_READ);
}

void Region::forget_writes() const {
  madvise(data_, bytes_, MADV_DONTNEED);
}

std::uint64_t Region::collapse() const {
  if (bytes_ < kSlotAlign) return 0;
  if (madvise(data_, bytes_, MADV_COLLAPSE) == 0) return bytes_;
  if (errno == EINVAL) return 0;  // not in this kernel, or not for this file
  std::uint64_t huge = 0;         // memory is fragmented: count piece by piece
  for (std::uint64_t at = 0; at + kSlotAlign <= bytes_; at += kSlotAlign) {
    if (madvise(data_ + at, kSlotAlign, MADV_COLLAPSE) == 0) huge += kSlotAlign;
  }
  return huge;
}

}  // namespace carya::shm
