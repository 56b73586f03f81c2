#pragma once

#include <cstddef>
#include <cstdint>

#include "base/error.h"

namespace carya::shm {

inline constexpr std::uint64_t kSlotAlign = 2u
                                            << 20;  ///< slots start and end on 2 MiB, the size of a huge page

/// A mapping of a whole memfd, never inherited by a forked child (MADV_DONTFORK), unmapped once.
/// Regions of 2 MiB and more start at a 2 MiB boundary. In a forked child destroying it does nothing: the
/// addresses are not its own any more. Threads: owner only; the memory itself is for whom the ring's protocol
/// says.
class Region {
 public:
  /// kPrivate: what is written stays in this process, and is gone after forget_writes().
  enum class Access : std::uint8_t { kReadOnly, kReadWrite, kPrivate };

  /// The caller has checked the file's size (check_memfd), so that no access can be a SIGBUS.
  /// Errors: kExhausted (address space, mappings), kPermission (the file is sealed against writing).
  static Result<Region> map(int fd, std::uint64_t bytes, Access access);
  Region() = default;
  Region(Region&& other) noexcept;
  Region& operator=(Region&& other) noexcept;
  ~Region() { unmap(); }

  /// Build all page tables now, so that no later access faults. Kernels before 5.14 do it at the first touch.
  void prefault() const;
  /// kPrivate: show the file again where this process has written.
  void forget_writes() const;
  /// Ask for huge pages (MADV_COLLAPSE, Linux 6.1); returns how many bytes got them. Failure is no error.
  std::uint64_t collapse() const;

  std::byte* data() const { return data_; }
  std::uint64_t bytes() const { return bytes_; }

 private:
  void unmap() noexcept;

  std::byte* data_ = nullptr;
  std::uint64_t bytes_ = 0;
  std::uint32_t epoch_ = 0;  // fork_epoch() in which it was mapped
  Access access_ = Access::kReadOnly;
};

}  // namespace carya::shm
