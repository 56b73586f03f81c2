#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace carya::loader {

/// After how long a chunk that is away counts as late: twice what 99 of the last 100 chunks or so took.
/// Threads: owner only.
class LateLimit {
 public:
  /// Record that a chunk came home after `ns`.
  void note(std::int64_t ns) {
    last_[count_++ % last_.size()] = ns;
    if (count_ % kLook != 0) return;
    auto sorted = last_;
    const std::size_t count = std::min(count_, sorted.size());
    std::sort(sorted.begin(), sorted.begin() + static_cast<std::ptrdiff_t>(count));
    p99_ns_ = sorted[count - 1 - count / 100];
    limit_ns_ = std::max(2 * p99_ns_, kMinNs);
  }
  std::int64_t ns() const { return limit_ns_; }
  /// The time away of 99 in 100 chunks; 0: not known yet.
  std::int64_t p99_ns() const { return p99_ns_; }

 private:
  static constexpr std::int64_t kMinNs = 250'000'000;
  static constexpr std::int64_t kFirstNs = 5'000'000'000;  ///< while nothing is known of the workers
  static constexpr std::size_t kLook = 16;                 ///< chunks between two changes of the limit

  std::array<std::int64_t, 128> last_{};  // ns, of the last chunks
  std::size_t count_ = 0;
  std::int64_t p99_ns_ = 0, limit_ns_ = kFirstNs;
};

}  // namespace carya::loader
