#pragma once

#include <cstdint>
#include <string_view>

#include "base/error.h"
#include "base/unique_fd.h"

namespace carya::shm {

/// Seals of a slot that readers may write, of a reader's page, and (with kSealReadOnly) of the control
/// segment. Source: fcntl(2), File Sealing.
inline constexpr unsigned kSealSize = 0x0001 | 0x0002 | 0x0004;  // F_SEAL_SEAL, F_SEAL_SHRINK, F_SEAL_GROW
inline constexpr unsigned kSealReadOnly = kSealSize | 0x0010;    // and F_SEAL_FUTURE_WRITE

/// An anonymous file of `bytes`, its memory allocated now (fallocate), in 2 MiB pages of the pool if
/// `hugetlb`. Never named in a file system, closed on exec. Errors: kExhausted (memory, descriptors, huge
/// page pool), kUnsupported.
Result<UniqueFd> create_memfd(const char* name, std::uint64_t bytes, bool hugetlb);

/// Give its memory back to the system: it reads as zeros, and what is written to it takes memory anew.
/// Errors: kPermission (write-sealed), kUnsupported.
Status give_back_memory(int fd, std::uint64_t bytes);
/// Allocate all of it again. Errors: kExhausted.
Status take_memory_again(int fd, std::uint64_t bytes);

/// Seal it. FUTURE_WRITE leaves mappings that exist already writable.
Status seal_memfd(int fd, unsigned seals);

/// Check a descriptor that somebody else made: a memfd of exactly `bytes` with all of `seals`, so that nobody
/// can cut the file under the mapping. Errors: kCorrupt, with `what` as the subject.
Status check_memfd(int fd, std::uint64_t bytes, unsigned seals, std::string_view what);

}  // namespace carya::shm
