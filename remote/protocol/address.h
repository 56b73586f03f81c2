#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/unique_fd.h"

namespace carya::remote {

/// Where a worker listens: "host:port", "[::1]:port" or "unix:/path". A name stands for all that it resolved
/// to.
class Address {
 public:
  /// Looks a name up, which may take seconds. Errors: kInvalidArgument (no such form, an unknown
  /// name).
  static Result<Address> resolve(std::string_view text);

  const std::string& text() const { return text_; }
  /// Name or number before the port, as a certificate has it; "" for a Unix socket.
  const std::string& host() const { return host_; }
  bool is_unix() const { return host_.empty(); }
  /// Nothing of what goes there leaves this machine.
  bool is_local() const;

  /// A listening socket, non-blocking. A Unix socket that nobody listens at any more is replaced. Errors:
  /// kPermission, kIo (in use), kExhausted.
  Result<UniqueFd> listen() const;
  /// A non-blocking socket that connects to what the address resolved to, taken in turns by `attempt`.
  /// Errors: kIo, kNotFound, kExhausted.
  Result<UniqueFd> connect(std::uint64_t attempt) const;

 private:
  struct Target {
    sockaddr_storage address{};
    socklen_t bytes = 0;
  };
  std::string text_;
  std::string host_;
  std::vector<Target> targets_;  // at least one
};

/// Small frames leave at once (TCP_NODELAY), on whatever kind of socket. Best effort.
void send_at_once(int socket);
/// The kernel takes no more bytes while it has so many that it has not sent yet (TCP_NOTSENT_LOWAT), on
/// whatever kind of socket: what waits here can still be taken back. Best effort.
void limit_unsent(int socket, int bytes);
/// The port that a listening TCP socket got; 0 where it has none.
std::uint16_t listening_port(int socket);
/// The other end, for messages: "10.0.0.7:4711", "unix".
std::string peer_text(int socket);

}  // namespace carya::remote
