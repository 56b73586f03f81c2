#pragma once

#include <cstdint>
#include <string>

namespace carya::shm {

/// Bytes of memory that this process can still get before the kernel kills somebody: the least of what the
/// machine has available and what each cgroup above the process (version 2, or 1 in hybrid set-ups) still
/// allows, page cache counted as free. Shared memory cannot be swapped out by dropping caches, so a ring asks
/// before it allocates. UINT64_MAX when nothing can be read. `root` stands before /proc and /sys in tests.
std::uint64_t available_memory_bytes(const std::string& root = "");

/// Of what is available, slots leave this much: threads need scratch memory and reads need buffers, and where
/// those find nothing the kernel kills. Measured: photos of ImageNet, batches of 32, 2 threads: 14 MiB beside
/// the slots.
inline constexpr std::uint64_t kSpareBytes = 32 << 20;
/// What slots may take now: what is available but for kSpareBytes.
std::uint64_t available_slot_bytes(const std::string& root = "");

}  // namespace carya::shm
