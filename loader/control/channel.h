#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/unique_fd.h"

namespace carya::loader {

/// Kinds of control messages (PROTOCOL.md). A number is never given another meaning.
enum class MessageType : std::uint16_t {
  kHello = 1,
  kWelcome = 2,
  kAttach = 3,
  kAttached = 4,
  kSeek = 5,
  kSession = 6,
  kPolicy = 7,
  kPolicySet = 8,
  kTakeFound = 9,
  kFound = 10,
  kStats = 11,
  kStatsAre = 12,
  kStatus = 13,
  kStatusIs = 14,
  kDrain = 15,
  kStopJob = 16,
  kLogs = 17,
  kLogsAre = 18,
  kDone = 19,
  kError = 20,
  kNotice = 21,
  kProgress = 22,
  kDetach = 23,
  kLong = 24,
  kTrace = 25,
  kTraceIs = 26,
  kWatch = 27,
  kWatchIs = 28,
  kMetrics = 29,
  kMetricsAre = 30,
  kLend = 31,
  kWantGrants = 32,
  kTurn = 33,
  kTurnIs = 34,
};

inline constexpr std::uint8_t kProtocolMajor = 1;
inline constexpr std::uint8_t kProtocolMinor = 4;
inline constexpr std::size_t kMessageBytesMax = 64 << 10;  ///< header and body
inline constexpr std::size_t kHeaderBytes = 16;
inline constexpr std::size_t kMessageFdsMax = 64;

/// One message: a body of CBOR, and the descriptors that come with it.
struct Message {
  MessageType type{};
  std::uint32_t request = 0;  ///< an answer repeats the number of its question; 0: nobody asked
  std::uint8_t minor = kProtocolMinor;
  std::string body{"\xa0", 1};  ///< CBOR; an empty map
  std::vector<UniqueFd> fds{};
};

/// The process at the other end of a Unix socket, as the kernel says.
struct PeerCredentials {
  pid_t pid = 0;
  uid_t uid = 0;
  gid_t gid = 0;
};

/// A control connection: a non-blocking Unix socket of type SOCK_SEQPACKET. It checks what it receives: lengths,
/// version, descriptors, and that the body is well-formed CBOR within its limits. Threads: one at a time.
class Channel {
 public:
  Channel() = default;
  explicit Channel(UniqueFd socket) : socket_(std::move(socket)) {}
  /// Connect to a socket; waits at most 5 s where many wait to be accepted. Errors: kNotFound (there is no socket, or
  /// nobody behind it), kPermission, kTimeout, kInvalidArgument (the path is too long), kExhausted.
  static Result<Channel> connect(const std::string& path);

  int fd() const { return socket_.get(); }
  explicit operator bool() const { return static_cast<bool>(socket_); }
  Result<PeerCredentials> peer() const;
  /// A pidfd of the peer. Empty if the kernel cannot say: before Linux 6.5, if the peer is in another PID namespace (a
  /// container), where peer().pid is 0.
  UniqueFd peer_process() const;

  /// Send a message; waits at most timeout_ms for room. Errors: kTimeout, kClosed, kExhausted, kInvalidArgument (the
  /// message is too long).
  Status send(const Message& message, int timeout_ms);
  /// Receive the next message; waits at most timeout_ms. Errors: kTimeout (nothing came), kClosed (the peer is gone),
  /// kCorrupt (what came is no message: read nothing more), kUnsupported (another major version), kExhausted.
  /// `refused` gets the descriptors that came with no message. Another thread closes them, since the sender decides
  /// how long that takes.
  Result<Message> receive(int timeout_ms, std::vector<UniqueFd>* refused = nullptr);
  /// Tell the peer at once that nothing more is read or sent; closing may then take its time.
  void shut();
  UniqueFd release() { return std::move(socket_); }

 private:
  Status receive_into(Message& message, int timeout_ms);
  UniqueFd socket_;
};

}  // namespace carya::loader
