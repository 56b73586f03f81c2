#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "autotune/sharing/sharing.h"

namespace carya::loader {

/// Shares a host's cores and remote workers between its streams, by weight and by the money that each saves
/// (autotune/sharing/sharing.h). A share changes only when the same answer was found several times. Pure: the same
/// calls give the same shares. Threads: owner only.
class CoreShares {
 public:
  struct Bidder {
    const void* who = nullptr;  ///< identifies the stream for as long as it lives
    autotune::Claim claim;
    std::uint32_t workers = 0;  ///< workers that the streams share; 0: this stream uses none of them
  };
  /// The most that one stream may use.
  struct Share {
    std::uint32_t threads = 1;
    std::uint32_t workers = 0;  ///< of the shared workers
    bool operator==(const Share&) const = default;
  };
  enum class Workers : std::uint8_t {
    kShared,   ///< each stream that may use workers gets at least one, if need be of another stream
    kCounted,  ///< no stream gets one that is not there
  };
  explicit CoreShares(Workers workers = Workers::kShared) : counted_(workers == Workers::kCounted) {}

  /// Call about once a second. Returns the shares, in the order of `bidders`, when at least one changes, and nothing
  /// otherwise. Shares change at once when streams came or went, else when kSame calls in a row found the same. A
  /// stream that may use workers gets at least one, unless they are counted. A stream that is alone gets everything.
  std::optional<std::vector<Share>> look(const std::vector<Bidder>& bidders, std::uint32_t cores);

  static constexpr int kSame = 3;

 private:
  bool counted_;
  std::vector<const void*> who_;
  std::uint32_t cores_ = 0;
  std::vector<Share> shares_;  // in force
  std::vector<Share> found_;   // found by the last calls
  int times_ = 0;              // how many calls in a row found found_
};

}  // namespace carya::loader
