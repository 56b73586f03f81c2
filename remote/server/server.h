#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "remote/protocol/connection.h"
#include "remote/protocol/messages.h"
#include "remote/protocol/tls.h"
#include "remote/server/user_proof.h"

namespace carya::remote {

struct ServerOptions {
  std::string listen;           ///< "host:port" (port 0: any), "unix:/path"
  std::optional<TlsFiles> tls;  ///< none: no TLS; Unix sockets never use it
  std::vector<std::string>
      client_names;       ///< names in accepted certificates; empty: every name that the authority signed
  bool insecure = false;  ///< allow TCP without TLS beyond the loopback device
  /// Secrets, of which a client must send one; none: it must send no token.
  std::vector<UserToken> tokens;
  /// Asked at each Hello, in the thread of run(): tokens that take the place of those from before, nothing where they have
  /// not changed. An error leaves those from before, and is told to the handler (not_renewed). May be empty.
  std::function<Result<std::optional<std::vector<UserToken>>>()> renew_tokens;
  bool proven_users = false;  ///< refuse clients whose certificate or token says no user
  /// The most that the weights of one user's clients count together.
  double user_weight_max = std::numeric_limits<double>::infinity();
  std::string server;                  ///< what this server calls itself: "carya-worker 0.1.0"
  std::uint32_t connections_max = 64;  ///< clients that said who they are; one more is refused with a message
  std::uint32_t strangers_max = 64;    ///< clients that have not said who they are; see ChunkServer
  std::uint32_t handling_max = 8;      ///< chunks that the handler has at a time
  std::uint32_t threads = 1;           ///< threads of the handler
  std::uint64_t requests_max = 64;     ///< window of a single connection; several share it
  std::uint64_t bytes_max = 2ULL << 30;  ///< memory for payloads of requests, and as much again for results
  std::uint64_t request_bytes_max = 256 << 20;
  std::uint64_t result_bytes_max = 512 << 20;
  std::uint64_t heartbeat_ms = 1000;
  std::uint64_t silent_ms = 3000;   ///< a connection without a byte for so long is dead
  std::uint64_t hello_ms = 10'000;  ///< the limit for a new connection's Hello
  std::uint64_t chunk_ms = 60'000;  ///< the limit for one chunk, and for the arrival of one frame
  std::uint64_t grace_ms =
      25'000;  ///< from drain() on; what is not done by then is given back to its clients
};

/// Identifies one call of the handler.
struct Ticket {
  std::uint64_t connection = 0;
  std::uint64_t serial = 0;  ///< never used twice
};

/// A payload that was received.
struct ReceivedBytes {
  std::unique_ptr<std::byte[]> data;
  std::uint64_t bytes = 0;
  std::span<const std::byte> span() const { return {data.get(), bytes}; }
};

/// A plan to register, or a chunk to compute. Each connection numbers its own plans.
struct Asked {
  Ticket ticket;
  std::uint64_t plan = 0;
  std::string about;
  std::shared_ptr<const ReceivedBytes> payload;  ///< never null
  std::uint64_t result_bytes = 0;                ///< chunks: the largest result that the client accepts
};

struct Answer {
  std::string about;
  Payload payload{};           ///< chunks only
  std::int64_t thread_ns = 0;  ///< how long one of the handler's threads had the chunk
};

/// Compiles plans and computes chunks. The thread in run() makes all calls and serves nobody until they return: work
/// belongs to other threads, which call ChunkServer::answer(). answer() may also be called from inside of a call.
class ChunkHandler {
 public:
  virtual ~ChunkHandler() = default;
  /// Accept a client by what it says of itself, and return what to tell it of this side. `user` is whose work it
  /// brings. An error refuses the client, which is told its message.
  virtual Result<std::vector<Fact>> admit(std::uint64_t connection, const Hello& hello,
                                          const ClientUser& user) = 0;
  virtual void register_plan(Asked asked) = 0;
  virtual void compute(Asked asked) = 0;
  /// The client withdrew this chunk. If it is not begun, it need not be; answer it with kClosed.
  virtual void cancel(const Ticket&) {}
  /// The client has dropped the plan.
  virtual void forget_plan(std::uint64_t connection, std::uint64_t plan) = 0;
  /// The connection has ended, with all of its plans. Answers to it are dropped. `peer` and `reason` are for the log.
  virtual void gone(std::uint64_t connection, const std::string& peer, const Error& reason) = 0;
  /// A client was refused before it became a connection. For the log.
  virtual void refused(const std::string& /*peer*/, const Error& /*reason*/) {}
  /// New certificates or tokens cannot be used, and those from before stay. Said once of each. For the log.
  virtual void not_renewed(const Error& /*reason*/) {}
};

struct ServerStats {
  bool drains = false;
  std::uint64_t connections = 0, connections_so_far = 0, refused = 0;
  std::uint64_t queued = 0;    ///< requests that wait for the handler
  std::uint64_t handling = 0;  ///< requests that the handler has, also those whose client is gone
  std::uint64_t answered = 0, failed = 0, late = 0;
  std::uint64_t request_bytes = 0, result_bytes = 0;  ///< bytes held now
};

/// The worker's side: accepts connections, gives requests to a handler, fairly between connections, and sends the
/// answers. Everything that is received is checked and bounded by the options.
///
/// A client that has not said who it is takes no place of one that has. When there are too many of them, the address
/// with the most loses its oldest one, so that nobody can keep others out by connecting and saying nothing.
///
/// Threads: one thread in run(); stop(), drain(), answer() and stats() are thread-safe.
class ChunkServer {
 public:
  /// Listen. `handler` must outlive the server. Errors: kInvalidArgument (TCP without TLS beyond the loopback device
  /// and without `insecure`; the address; the files of TLS), kIo, kPermission, kExhausted.
  static Result<std::unique_ptr<ChunkServer>> create(const ServerOptions& options, ChunkHandler& handler);
  ~ChunkServer();

  /// Serve until stop(), or until drain() has finished.
  void run();
  /// Close all connections at once.
  void stop();
  /// Accept no new request and finish those that were accepted, or give them back when the grace time is over. A
  /// client that waits for nothing more closes its connection, or has it closed.
  void drain();
  /// Answer a ticket, once. A result that is longer than the client accepts fails its chunk.
  void answer(const Ticket& ticket, Result<Answer> answer);

  std::uint16_t port() const;  ///< 0 for a Unix socket
  ServerStats stats() const;

 private:
  class Loop;
  explicit ChunkServer(std::unique_ptr<Loop> loop);
  std::unique_ptr<Loop> loop_;
};

}  // namespace carya::remote
