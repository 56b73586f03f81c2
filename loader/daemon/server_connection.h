#pragma once

#include <cstdint>
#include <optional>

#include "base/unique_fd.h"
#include "loader/control/channel.h"
#include "loader/daemon/server.h"

namespace carya::loader {

/// A client of the server.
struct Server::Connection {
  std::uint64_t id = 0;
  Channel channel;
  PeerCredentials peer;
  UniqueFd process;          // pidfd
  std::int64_t said_ns = 0;  // when it came, or last said something
  bool greeted = false;
  bool attaching = false;
  std::optional<Seat> seat;
  std::int64_t hung_up_ns = 0;  // its socket ended; its process may live
};

}  // namespace carya::loader
