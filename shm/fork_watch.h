#pragma once

#include <cstdint>

namespace carya::shm {

/// Counts the fork()s between the first process that used rings and this one: 0 there, +1 in each child.
///
/// Rings are MADV_DONTFORK, so a child must never touch a mapping it inherited. Whatever owns one remembers
/// the epoch it was made in and does nothing when the epoch has moved on. A child may make rings of its own.
/// Threads: thread-safe, also in the child of a fork made by another thread.
std::uint32_t fork_epoch();

/// Start counting in this process (pthread_atfork). Called by whatever maps ring memory; repeated calls are
/// free.
void watch_forks();

}  // namespace carya::shm
