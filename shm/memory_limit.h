#pragma once

#include <cstdint>
#include <string>

namespace carya::shm {

/// The bytes of memory that this process can still get before the kernel kills a process. It is the least of what the
/// machine has available and what each cgroup above the process (version 2, or 1 in hybrid set-ups) still allows; page
/// cache counts as free. The kernel cannot drop shared memory as it drops caches, so a ring asks before it allocates.
/// UINT64_MAX if nothing can be read. Tests give `root`, which stands before /proc and /sys.
std::uint64_t available_memory_bytes(const std::string& root = "");

/// Slots leave this much of the available memory, since threads need scratch memory and reads need buffers. Measured:
/// photos of ImageNet, batches of 32, 2 threads: 14 MiB beside the slots.
inline constexpr std::uint64_t kSpareBytes = 32 << 20;
/// The bytes that slots may take now: what is available, without kSpareBytes.
std::uint64_t available_slot_bytes(const std::string& root = "");

}  // namespace carya::shm
