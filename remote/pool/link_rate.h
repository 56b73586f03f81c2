#pragma once

#include <cstdint>

namespace carya::remote {

/// What the link under a TCP connection takes, while the link is what a sender waits for. Threads: owner
/// only.
class LinkRate {
 public:
  /// To be called about once a second. Bytes/s since the last call; 0: not known, for the link did not hold
  /// the sender up, then and before (nothing was left to be sent, or the receiver had no room), or it is no
  /// TCP.
  double look(int socket);

 private:
  std::uint64_t acked_bytes_ = 0;
  std::int64_t limited_us_ = 0;  // in which bytes were on their way, and there was room for them
  std::int64_t at_ns_ = 0;
  bool was_limit_ = false;
};

}  // namespace carya::remote
