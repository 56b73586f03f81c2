#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/error.h"
#include "base/unique_fd.h"

namespace carya::loader {

/// What a service manager (systemd) gives a daemon and wants to hear from it. Without one nothing happens.
/// Source: sd_notify(3), sd_listen_fds(3), sd_watchdog_enabled(3): the protocols are stable.
class Supervisor {
 public:
  /// Reads and removes the environment variables, so that no child takes them for its own.
  Supervisor();

  /// A socket that listens already and was passed (socket activation), once; empty when none was passed.
  /// Errors: kInvalidArgument: what was passed is of another kind.
  Result<UniqueFd> take_listening();
  /// "READY=1", "STOPPING=1\nSTATUS=...": one datagram. Trouble with it is nobody's.
  void notify(const std::string& text) const;
  /// Nanoseconds between two signs of life that are expected at the least; none when none are.
  std::optional<std::int64_t> watchdog_ns() const { return watchdog_ns_; }

 private:
  std::string socket_;
  UniqueFd listening_;
  int passed_count_ = 0;
  std::optional<std::int64_t> watchdog_ns_;
};

}  // namespace carya::loader
