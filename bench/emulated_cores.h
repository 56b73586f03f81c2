#pragma once

#include <cstdint>

namespace carya::bench {

/// What the emulation counted in this process so far, over all threads.
struct EmulationCounts {
  std::uint64_t rows = 0;         ///< computed
  std::uint64_t chunks = 0;       ///< in so many chunks
  std::int64_t computing_ns = 0;  ///< waits that stood for computing
  std::uint64_t locks = 0;        ///< mutexes locked
  std::uint64_t contended = 0;    ///< of them, those that another thread had
  std::int64_t waiting_ns = 0;    ///< for those
  std::int64_t holding_ns = 0;    ///< any mutex
};

/// A program that links emulated_cores.cc computes nothing: `loader::compute_chunk()` waits so long for each row.
/// A wait that ended late is made good by the thread's next ones, so that their mean is as asked. All else is the
/// product's: reads, locks, wake-ups, publishing.
void set_compute_ns(std::int64_t ns);
/// What reads of the pread engine take longer from now on. While that is not 0 no byte is in the page cache.
void set_storage_delay_ns(std::int64_t ns);
EmulationCounts emulation_counts();
/// One wait as compute_chunk() has it, for the bare loop.
void emulate_rows(std::uint64_t rows);

}  // namespace carya::bench
