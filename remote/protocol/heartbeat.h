#pragma once

#include <cstdint>

#include "remote/protocol/connection.h"

namespace carya::remote {

/// When a connection last heard its peer, and when the next Ping is due. Times are CLOCK_MONOTONIC in ns.
/// Threads: as its connection.
class Heartbeat {
 public:
  Heartbeat(std::uint64_t period_ms, std::uint64_t silent_ms, std::int64_t now_ns)
      : period_ns_(static_cast<std::int64_t>(period_ms) * 1'000'000),
        silent_ns_(static_cast<std::int64_t>(silent_ms) * 1'000'000),
        heard_ns_(now_ns),
        ping_ns_(now_ns) {}

  /// Send a ping when one is due.
  void beat(Connection& connection, std::int64_t now_ns, const Ping& ping = {}) {
    if (now_ns - ping_ns_ < period_ns_) return;
    ping_ns_ = now_ns;
    connection.send(ping, static_cast<std::uint64_t>(now_ns));
  }
  /// Whether the peer has sent no byte for `silent_ms`. Call it after a read that began after `now_ns` was taken: a
  /// thread that slept must not blame the peer.
  bool is_silent(const Connection& connection, std::int64_t now_ns) {
    if (connection.received_bytes() != heard_bytes_ || connection.is_paused()) {
      heard_bytes_ = connection.received_bytes();
      heard_ns_ = now_ns;
    }
    return now_ns - heard_ns_ >= silent_ns_;
  }
  /// The round trip in ns that a pong to `request` measured; 0 when it does not answer the last ping.
  std::int64_t round_trip_ns(std::uint64_t request, std::int64_t now_ns) const {
    return request == static_cast<std::uint64_t>(ping_ns_) ? now_ns - ping_ns_ : 0;
  }

 private:
  std::int64_t period_ns_;
  std::int64_t silent_ns_;
  std::int64_t heard_ns_;
  std::int64_t ping_ns_;
  std::uint64_t heard_bytes_ = 0;
};

}  // namespace carya::remote
