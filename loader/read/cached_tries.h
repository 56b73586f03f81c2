#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

namespace carya::loader {

/// The number of chunks of a stream that try the page cache at the same time, instead of being read ahead by the
/// reading thread. A chunk whose try fails is late by the latency of storage, since nothing read it ahead.
///
/// So tries begin with one at a time, and their number doubles after each that finds all bytes. After one that fails,
/// tries pause: 50 ms the first time, twice as long each next time, up to 10 s, and for at least 20 times the latency
/// of storage. One failure after 256 successes in a row does not count: some page is always missing.
///
/// Threads: owner only.
class CachedTries {
 public:
  /// Whether one more try may begin.
  bool may_begin(std::int64_t now_ns) {
    if (at_once_ == 0 && now_ns >= paused_until_ns_) at_once_ = 1;
    return under_way_ < at_once_;
  }
  /// Whether so many tries succeed that nothing needs to be read ahead.
  bool is_warm() const { return at_once_ >= kWarm; }
  void begin() { ++under_way_; }
  /// A try that was begun has ended. `found`: all bytes were in the cache. `storage_ns`: the latency of storage.
  void end(bool found, std::int64_t now_ns, std::int64_t storage_ns) {
    --under_way_;
    const std::uint32_t found_before = std::exchange(found_, found ? std::min(found_ + 1, kMany) : 0);
    if (found) {
      at_once_ = std::min(2 * at_once_, kMost);
      if (is_warm()) pause_ns_ = kPauseMinNs;
    } else if (at_once_ > 0 &&
               found_before < kMany) {  // failures of tries that were begun together count once
      at_once_ = 0;
      paused_until_ns_ = now_ns + std::max(pause_ns_, kLatencies * storage_ns);
      pause_ns_ = std::min(2 * pause_ns_, kPauseMaxNs);
    }
  }
  /// A try that was begun is not wanted any more.
  void drop() { --under_way_; }

 private:
  static constexpr std::uint32_t kWarm = 64, kMost = 1U << 20, kMany = 256;
  static constexpr std::int64_t kPauseMinNs = 50'000'000, kPauseMaxNs = 10'000'000'000, kLatencies = 20;

  std::uint32_t at_once_ = 1;
  std::uint32_t under_way_ = 0;
  std::uint32_t found_ = 0;  // successful tries in a row
  std::int64_t pause_ns_ = kPauseMinNs;
  std::int64_t paused_until_ns_ = 0;
};

}  // namespace carya::loader
