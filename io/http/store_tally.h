#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

namespace carya::io {

/// What the reads of one root asked of its store. The store thread counts; anybody may look. Figures only: each is
/// right by itself.
struct StoreTally {
  std::atomic<std::uint64_t> requests{0};    ///< that were begun; those asked twice count twice
  std::atomic<std::uint64_t> bytes{0};       ///< of good answers, with the gaps between joined reads
  std::atomic<std::uint64_t> reads{0};       ///< that got their bytes
  std::atomic<std::uint64_t> failed{0};      ///< requests whose reads are to be tried again, or cannot be had
  std::atomic<std::uint64_t> throttled{0};   ///< of these, those that the store refused because it is busy
  std::atomic<std::uint64_t> hedged{0};      ///< requests that were asked again since they were late
  std::atomic<std::uint64_t> answered{0};    ///< requests that ended well
  std::atomic<std::int64_t> answered_ns{0};  ///< the time of those, from their beginning to their end
  std::atomic<std::int64_t> cpu_ns{0};       ///< CPU time of the store thread
  std::atomic<std::uint32_t> allowed{0};     ///< requests that the store may have at the same time now

  static void add(std::atomic<std::uint64_t>& figure, std::uint64_t more = 1) {
    figure.fetch_add(more, std::memory_order_relaxed);
  }
};

class StoreAccess;

/// How the reads of one root use its store.
struct StoreUse {
  std::shared_ptr<StoreTally> tally{};    ///< null: nobody looks
  std::shared_ptr<StoreAccess> access{};  ///< null: this process's own of now
};

}  // namespace carya::io
