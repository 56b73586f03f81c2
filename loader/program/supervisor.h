#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/error.h"
#include "base/unique_fd.h"

namespace carya::loader {

/// The daemon's side of a service manager (systemd): it takes sockets and sends signs of life. Without a service
/// manager the calls do nothing.
/// Source: sd_notify(3), sd_listen_fds(3), sd_watchdog_enabled(3): the protocols are stable.
class Supervisor {
 public:
  /// Reads and removes the environment variables, so that no child takes them for its own.
  Supervisor();

  /// Returns, once, the listening socket that was passed (socket activation); empty if none was passed.
  /// Errors: kInvalidArgument (a descriptor of another kind was passed).
  Result<UniqueFd> take_listening();
  /// Send one datagram, such as "READY=1" or "STOPPING=1\nSTATUS=...". Failures are ignored.
  void notify(const std::string& text) const;
  /// The longest time between two signs of life, in ns; empty if none are expected.
  std::optional<std::int64_t> watchdog_ns() const { return watchdog_ns_; }

 private:
  std::string socket_;
  UniqueFd listening_;
  int passed_count_ = 0;
  std::optional<std::int64_t> watchdog_ns_;
};

}  // namespace carya::loader
