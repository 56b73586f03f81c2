#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace carya::io {

/// When a request that has not been answered is asked again, on another connection: an eighth later than 97 of 100
/// requests to the store had their first byte. That is soon enough that who was late comes within three times the usual,
/// and late enough that the budget is there for those which are late by much. One request in twenty at most is asked twice,
/// so that a store that becomes slow for all is not asked for more. Pure. Threads: owner only.
///
/// Source: Dean and Barroso, "The Tail at Scale" (Communications of the ACM, 2013).
class Hedging {
 public:
  /// A request begins; it counts towards those that may be asked again.
  void note_begun();
  /// The first byte of a good answer came after `ns`.
  void note_answered(std::int64_t ns);
  /// The ns without an answer after which a request is asked again; nothing while too few are known, or too many were
  /// asked again.
  std::optional<std::int64_t> after() const {
    return count_ >= kKnownMin && allowed_ >= 1 ? std::optional(late_ns_) : std::nullopt;
  }
  void note_hedged() { allowed_ -= 1; }

  static constexpr std::size_t kKnown = 128, kKnownMin = 16;
  static constexpr std::int64_t kAfterMinNs = 10'000'000;
  static constexpr double kShare = 0.05, kAllowedMax = 4;

 private:
  std::array<std::int64_t, kKnown> times_{};  // the newest
  std::size_t count_ = 0;
  std::int64_t late_ns_ = 0;  // by times_
  double allowed_ = 1;
};

}  // namespace carya::io
