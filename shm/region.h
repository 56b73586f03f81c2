#pragma once

#include <cstddef>
#include <cstdint>

#include "base/error.h"
#include "base/mapping.h"

namespace carya::shm {

inline constexpr std::uint64_t kSlotAlign = 2u
                                            << 20;  ///< slots start and end on 2 MiB, the size of a huge page

/// A mapping of a whole memfd, never inherited by a forked child (MADV_DONTFORK), unmapped once.
/// Regions of 2 MiB and more start at a 2 MiB boundary. In a forked child destroying it does nothing: the
/// addresses are not its own any more. Threads: owner only; the memory itself is for whom the ring's protocol
/// says.
class Region {
 public:
  using Access = Mapping::Access;  ///< kPrivate: what is written is gone after forget_writes()

  /// The caller has checked the file's size (check_memfd), so that no access can be a SIGBUS.
  /// Errors: kExhausted (address space, mappings), kPermission (the file is sealed against writing).
  static Result<Region> map(int fd, std::uint64_t bytes, Access access);
  Region() = default;
  Region(Region&& other) noexcept;
  Region& operator=(Region&& other) noexcept;
  ~Region() { leave_inherited(); }

  /// Build all page tables now, so that no later access faults. Kernels before 5.14 do it at the first touch.
  void prefault() const;
  /// kPrivate: show the file again where this process has written.
  void forget_writes() const;
  /// Ask for huge pages (MADV_COLLAPSE, Linux 6.1); returns how many bytes got them. Failure is no error.
  std::uint64_t collapse() const;

  std::byte* data() const { return mapping_.data(); }
  std::uint64_t bytes() const { return mapping_.bytes(); }

 private:
  void leave_inherited() noexcept;

  Mapping mapping_;
  std::uint32_t epoch_ = 0;  // fork_epoch() in which it was mapped
  Access access_ = Access::kReadOnly;
};

}  // namespace carya::shm
