#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "remote/protocol/connection.h"
#include "remote/protocol/messages.h"
#include "remote/protocol/tls.h"

namespace carya::remote {

struct ServerOptions {
  std::string listen;                     ///< "host:port" (port 0: any), "unix:/path"
  std::optional<TlsFiles> tls;            ///< none: plain; Unix sockets are plain in any case
  std::vector<std::string> client_names;  ///< of certificates that may come; none: all of the authority
  bool insecure = false;                  ///< plain TCP also where others than this machine can come
  std::string token;                      ///< that a client must know; "": none
  std::string server;                     ///< who this is: "carya-worker 0.1.0"
  std::uint32_t connections_max = 64;     ///< of clients that are known; one more is told so
  std::uint32_t strangers_max = 64;       ///< that have not said who they are; see ChunkServer
  std::uint32_t handling_max = 8;         ///< chunks with the handler at a time
  std::uint32_t threads = 1;              ///< of the handler
  std::uint64_t requests_max = 64;        ///< window of a connection that is alone; others share it
  std::uint64_t bytes_max = 2ULL << 30;   ///< payloads of requests in memory; the same again for results
  std::uint64_t request_bytes_max = 256 << 20;
  std::uint64_t result_bytes_max = 512 << 20;
  std::uint64_t heartbeat_ms = 1000;
  std::uint64_t silent_ms = 3000;   ///< without a byte: the connection is dead
  std::uint64_t hello_ms = 10'000;  ///< until a new connection must have said who it is
  std::uint64_t chunk_ms = 60'000;  ///< for one chunk, and for one frame to arrive
};

/// Names one question to the handler.
struct Ticket {
  std::uint64_t connection = 0;
  std::uint64_t serial = 0;  ///< never given twice
};

/// A payload that was received; it lives as long as somebody holds it.
struct ReceivedBytes {
  std::unique_ptr<std::byte[]> data;
  std::uint64_t bytes = 0;
  std::span<const std::byte> span() const { return {data.get(), bytes}; }
};

/// A plan to be registered, or a chunk to be computed. Plans have numbers of their connection's.
struct Asked {
  Ticket ticket;
  std::uint64_t plan = 0;
  std::string about;
  std::shared_ptr<const ReceivedBytes> payload;  ///< never null
  std::uint64_t result_bytes = 0;                ///< of a chunk: the most that its result may have
};

struct Answer {
  std::string about;
  Payload payload{};           ///< of a chunk
  std::int64_t thread_ns = 0;  ///< for which one of the handler's threads had it
};

/// Does what is asked. All calls come from the thread in run(), and are to return soon: what takes time is
/// done elsewhere and answered by ChunkServer::answer(), from any thread, also from inside of the call.
class ChunkHandler {
 public:
  virtual ~ChunkHandler() = default;
  /// Whether the client may come, by its facts; what it is told of this side. The error is told to it.
  virtual Result<std::vector<Fact>> admit(std::uint64_t connection, const Hello& hello) = 0;
  virtual void register_plan(Asked asked) = 0;
  virtual void compute(Asked asked) = 0;
  /// Nobody wants this chunk any more: one that is not begun need not be, and is answered as closed.
  virtual void cancel(const Ticket&) {}
  /// The plan is not asked for any more.
  virtual void forget_plan(std::uint64_t connection, std::uint64_t plan) = 0;
  /// The connection is over, with all of its plans; answers to it go nowhere. For the log: who, and why.
  virtual void gone(std::uint64_t connection, const std::string& peer, const Error& reason) = 0;
  /// One that never became a connection. For the log.
  virtual void refused(const std::string& /*peer*/, const Error& /*reason*/) {}
};

struct ServerFigures {
  std::uint64_t connections = 0, connections_so_far = 0, refused = 0;
  std::uint64_t queued = 0;    ///< requests that wait for the handler
  std::uint64_t handling = 0;  ///< with the handler, also those whose client is gone
  std::uint64_t answered = 0, failed = 0, late = 0;
  std::uint64_t request_bytes = 0, result_bytes = 0;  ///< held now
};

/// A worker's side: takes connections, hands requests to a handler, fairly between connections, sends the
/// answers. Everything that comes is checked; all of it is bounded by the options.
///
/// Who has not said who it is takes no place of those that have. Of too many such strangers the address with
/// the most loses its oldest one, so that nobody can keep others out by connecting and saying nothing.
///
/// Threads: one thread in run(); stop(), drain(), answer() and figures() are thread-safe.
class ChunkServer {
 public:
  /// Listens. Errors: kInvalidArgument (plain TCP beyond loopback without `insecure`; the address, the
  /// files), kIo, kPermission, kExhausted. The handler outlives the server.
  static Result<std::unique_ptr<ChunkServer>> create(const ServerOptions& options, ChunkHandler& handler);
  ~ChunkServer();

  /// Serves until stop(), or until all is done after drain().
  void run();
  /// At once: connections are closed.
  void stop();
  /// Takes nothing new, finishes what it has; clients that have nothing left here go, or are closed.
  void drain();
  /// Once per ticket. A result that is longer than was asked for fails its chunk.
  void answer(const Ticket& ticket, Result<Answer> answer);

  std::uint16_t port() const;  ///< 0 for a Unix socket
  ServerFigures figures() const;

 private:
  class Loop;
  explicit ChunkServer(std::unique_ptr<Loop> loop);
  std::unique_ptr<Loop> loop_;
};

}  // namespace carya::remote
