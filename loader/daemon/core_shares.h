#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "autotune/sharing/sharing.h"

namespace carya::loader {

/// How the streams of a host share its cores and its workers over time: by money
/// (autotune/sharing/sharing.h), and steadily. Pure. Threads: owner only.
class HostShares {
 public:
  struct Bidder {
    const void* who = nullptr;  ///< one stream, as long as it lives
    autotune::Claim claim;
    std::uint32_t workers = 0;  ///< that all such streams of the host may use; 0: it uses none of those
  };
  /// What one may use at most.
  struct Share {
    std::uint32_t threads = 1;
    std::uint32_t workers = 0;  ///< 0: it uses none of the host's
    bool operator==(const Share&) const = default;
  };
  /// To be called about once a second. The share of each, in their order, where some are to be other ones;
  /// none where all stays as it is. At once when streams have come or gone, else when the same was found
  /// kSame times in a row. Each that may use workers may use one at least. A stream alone has all.
  std::optional<std::vector<Share>> look(const std::vector<Bidder>& bidders, std::uint32_t cores);

  static constexpr int kSame = 3;

 private:
  std::vector<const void*> who_;
  std::uint32_t cores_ = 0;
  std::vector<Share> shares_;  // as they are
  std::vector<Share> found_;   // by the last looks
  int times_ = 0;              // in a row
};

}  // namespace carya::loader
