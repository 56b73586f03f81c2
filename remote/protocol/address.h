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
  /// Takes the text apart. A host is not looked up: is_known() is false. Errors: kInvalidArgument (no such form).
  static Result<Address> parse(std::string_view text);
  /// parse() and look_up().
  static Result<Address> resolve(std::string_view text);
  /// Looks the host up, which may take seconds. Errors: kInvalidArgument (an unknown name, or nobody who could tell);
  /// the message does not name the address.
  Status look_up();
  /// Whether there is something to connect to. The functions below but for text() and host() need it.
  bool is_known() const { return !targets_.empty(); }

  const std::string& text() const { return text_; }
  /// Name or number before the port, as a certificate has it; "" for a Unix socket.
  const std::string& host() const { return host_; }
  bool is_unix() const { return host_.empty(); }
  /// The host is a name, and no number: what it stands for may change.
  bool is_name() const;
  /// Nothing of what goes there leaves this machine.
  bool is_local() const;

  /// A listening socket, non-blocking. A Unix socket that nobody listens at any more is replaced. Its file stays:
  /// see SocketFile. Errors: kPermission, kIo (in use), kExhausted.
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
  std::string port_;             // "" for a Unix socket
  std::vector<Target> targets_;  // at least one, once it is known
};

/// The file of a Unix socket that is listened at. It is removed while the socket is open still, since then no other file
/// can have its number, and only if nobody put another one in its place.
class SocketFile {
 public:
  /// Nothing is removed where the address is no Unix socket.
  explicit SocketFile(const Address& listened_at);
  SocketFile(const SocketFile&) = delete;
  SocketFile& operator=(const SocketFile&) = delete;
  ~SocketFile() { remove(); }
  /// Call it before the socket is closed.
  void remove();

 private:
  std::string path_;  // "": there is nothing to remove
  std::uint64_t device_ = 0, number_ = 0;
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
