#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>

namespace carya::faults {

inline constexpr std::uint64_t kWorld = 3;
inline constexpr std::uint64_t kEpochs = 4;  ///< then a trainer seeks to the beginning
inline constexpr std::uint64_t kRecords = 240;
inline constexpr std::uint64_t kSteps =
    kRecords / (kWorld * 4);  ///< of an epoch; 4 records per rank and step
inline constexpr std::uint64_t kEntries = 4096;

/// One batch that a trainer has seen.
struct Entry {
  std::uint64_t epoch, step, position, hash;
  std::uint64_t reattached;  ///< of the trainer's job, when it came
  std::int64_t at_ns;
};

/// What a trainer and the harness tell each other, in memory that both map. Entries are counted when they are
/// complete, so a trainer that is killed leaves whole ones.
struct RankBoard {
  std::atomic<std::uint64_t> count;  ///< entries so far, of all trainers of this rank
  std::atomic<std::uint32_t> pause, paused;
  std::atomic<std::uint32_t> reopen, reopened;  ///< wishes and fulfilments
  std::atomic<std::uint32_t> failed;
  char error[512];  ///< when failed
  Entry entries[kEntries];
};

struct Board {
  RankBoard ranks[kWorld];
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

}  // namespace carya::faults
