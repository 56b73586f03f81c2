#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace carya::loader {

/// Upper bounds of the latency classes of reads, in seconds.
inline constexpr std::array<double, 13> kReadLatencyBoundsS{1e-5, 3e-5, 1e-4, 3e-4, 1e-3, 3e-3, 0.01,
                                                            0.03, 0.1,  0.3,  1,    3,    10};

/// Sums over reads that have ended.
struct ReadTally {
  std::uint64_t reads = 0, bytes = 0;
  std::int64_t latency_ns = 0;
  /// Reads by the first bound that they did not exceed. Slower ones count in `reads` only.
  std::array<std::uint64_t, kReadLatencyBoundsS.size()> within{};

  void note(std::int64_t ns) {
    ++reads;
    latency_ns += ns;
    const auto* bound = std::ranges::lower_bound(kReadLatencyBoundsS, static_cast<double>(ns) * 1e-9);
    if (bound != kReadLatencyBoundsS.end())
      ++within[static_cast<std::size_t>(bound - kReadLatencyBoundsS.begin())];
  }
};

}  // namespace carya::loader
