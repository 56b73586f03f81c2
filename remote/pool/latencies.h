#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

namespace carya::remote {

/// The last durations of something. Threads: owner only.
class Latencies {
 public:
  void add(std::int64_t ns) { last_[count_++ % last_.size()] = ns; }
  /// In seconds; 0 when there are none. `share`: 0.5 for the median.
  double quantile(double share) const {
    const std::size_t known = std::min<std::size_t>(count_, last_.size());
    if (known == 0) return 0;
    std::vector<std::int64_t> sorted(last_.begin(), last_.begin() + static_cast<std::ptrdiff_t>(known));
    const auto at = static_cast<std::ptrdiff_t>(static_cast<double>(known - 1) * share + 0.5);
    std::nth_element(sorted.begin(), sorted.begin() + at, sorted.end());
    return static_cast<double>(sorted[static_cast<std::size_t>(at)]) / 1e9;
  }

 private:
  std::array<std::int64_t, 256> last_{};
  std::size_t count_ = 0;
};

}  // namespace carya::remote
