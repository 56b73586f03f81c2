#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "remote/protocol/address.h"
#include "remote/protocol/connection.h"
#include "remote/protocol/messages.h"
#include "remote/protocol/tls.h"

namespace carya::remote {

class NameLookups;

struct PoolOptions {
  std::optional<TlsFiles> tls;  ///< none: no TLS; Unix sockets never use it
  std::string server_name;      ///< the name in the workers' certificates; "": the host of the address
  bool insecure = false;        ///< allow TCP without TLS to other machines
  /// A name that nobody knows when its member is added is no error: the worker is away, and the name is looked up again
  /// each time that the worker is tried.
  bool unknown_names = false;
  /// How a name is looked up: for tests.
  std::function<Status(Address&)> look_up = [](Address& address) { return address.look_up(); };
  Hello hello;  ///< what this side says of itself
  /// Asked at each connection, in the pool's thread: a token to say in place of the one from before, nothing where it has not
  /// changed. An error leaves that from before. May be empty.
  std::function<Result<std::optional<std::string>>()> renew_token;
  std::uint64_t heartbeat_ms = 1000;
  std::uint64_t silent_ms = 3000;     ///< a worker that sends no byte for so long is dead
  std::uint64_t connect_ms = 10'000;  ///< the limit for connecting, up to the worker's Welcome
  std::uint64_t backoff_min_ms = 50;  ///< the wait after the first failure; each further failure doubles it
  std::uint64_t backoff_max_ms = 5000;
  /// After so many failures in a row without a result the worker is parked. Ten take about 12 s, by which time a
  /// worker that is started again is back.
  std::uint32_t failures_max = 10;
  std::uint64_t park_ms = 60'000;  ///< the wait before a parked worker is tried again
  std::uint64_t seed = 0;          ///< of the jitter: a wait lasts between half of its time and all of it
};

/// One chunk to be computed by a worker.
struct Submission {
  std::uint64_t request = 0;  ///< chosen by the owner, unique over the pool's life, not 0
  std::uint64_t plan = 0;
  std::string about;
  Payload payload{};
  std::uint64_t result_bytes = 0;  ///< the largest result that is accepted
};

/// The pool's owner is told here what happens to workers and requests. The thread in run() makes all calls, without
/// holding a lock, and serves nobody until they return. Each request ends with exactly one of done(), failed(),
/// lost(), or a withdraw() that returns true.
class PoolEvents {
 public:
  virtual ~PoolEvents() = default;
  /// A worker has connected. An error refuses it, by what its Welcome says.
  virtual Status admit(std::uint64_t member, const Welcome& welcome) = 0;
  /// A worker could not be reached, or its connection ended. The pool tries again, after park_ms if it is parked.
  virtual void down(std::uint64_t member, const Error& reason, bool parked) = 0;
  /// The worker has compiled a plan, or refuses it.
  virtual void registered(std::uint64_t member, std::uint64_t plan, Result<std::string> about) = 0;
  /// The worker can take requests, or its window has room again.
  virtual void room(std::uint64_t member) = 0;

  /// Where to write a result whose payload of `bytes` is about to arrive: parts of exactly that length, or kDiscard.
  virtual ReceiveTarget place(std::uint64_t request, const std::string& about, std::uint64_t bytes) = 0;
  /// The result has arrived. `placed`: its payload lies where place() said.
  virtual void done(std::uint64_t request, const std::string& about, bool placed) = 0;
  /// The worker reports that it could not compute the chunk.
  virtual void failed(std::uint64_t request, const Error& error) = 0;
  /// The worker died, was removed, drained, or does not have the plan. The chunk must be computed elsewhere.
  virtual void lost(std::uint64_t request, const Error& reason) = 0;
};

struct WorkerStats {
  /// kExpelled: the owner removed the worker for good and keeps its last numbers.
  enum class State : std::uint8_t { kDown, kConnecting, kUp, kDraining, kParked, kExpelled };
  std::uint64_t member = 0;
  std::string address;
  State state = State::kDown;
  std::string kind;  ///< "plain", "TLSv1.3", "TLSv1.3 resumed"
  Window window, in_flight;
  std::uint64_t results = 0, failed = 0, lost = 0, withdrawn = 0;
  std::uint64_t ended = 0;  ///< connections that were welcome and ended, but for those that drained
  std::uint64_t received_bytes = 0, sent_bytes = 0;  ///< payloads
  double results_per_s = 0, bytes_per_s = 0;         ///< over the last seconds
  double round_trip_s = 0;                           ///< of the last ping; 0: unknown
  double free = 1;  ///< the share of the worker's threads that other clients leave; over the last seconds
  double link_out_bytes_per_s =
      0;  ///< the rate of the link to the worker; 0: unknown, the link was never the limit
  double p50_s = 0, p99_s = 0;  ///< from submit() to the whole result, over the last 256; 0: none yet
  std::uint64_t failures = 0;   ///< failures in a row
  std::string reason;           ///< of the last failure
};

/// The host's side: keeps connections to workers, sends requests and receives results.
///
/// Threads: one thread in run(); all else is thread-safe. One writer: after withdraw() has returned true, the pool
/// writes nothing into the memory that place() named for that request, and reports no event of it.
class WorkerPool {
 public:
  static constexpr std::size_t kPlansMax = 2;  ///< as many plans as a worker keeps

  /// `events` must outlive the pool. Errors: kInvalidArgument (the files of TLS), kExhausted.
  static Result<std::unique_ptr<WorkerPool>> create(const PoolOptions& options, PoolEvents& events);
  ~WorkerPool();

  /// Serve until stop(), which ends every request with lost().
  void run();
  void stop();

  /// Keep a connection to a worker from now on, and return the worker's number. Resolves the name, which may take
  /// seconds. Errors: kInvalidArgument (TCP without TLS to another machine and without `insecure`; a text that is no
  /// address, an unknown name without `unknown_names`).
  Result<std::uint64_t> add_member(const std::string& address);
  /// Close the connection for good. The worker's requests end with lost().
  void remove_member(std::uint64_t member);

  /// Register a plan with every worker, also with those that connect later, until drop_plan(). Errors: kExhausted
  /// (kPlansMax), kInvalidArgument (the number is in use).
  Status add_plan(std::uint64_t plan, std::string about, Payload document);
  void drop_plan(std::uint64_t plan);

  /// Queue a request for one worker. Errors: kClosed (the worker is not connected, or drains), kNotFound (it does not
  /// have the plan yet), kExhausted (its window is full; room() will be called), kInvalidArgument (above the worker's
  /// limits, or the number is in use).
  Status submit(std::uint64_t member, Submission submission);
  /// Give up a request; the worker is told, and does not begin with it. Returns false when the request's last event
  /// was reported already or is being reported.
  bool withdraw(std::uint64_t request);

  /// What one worker saves this host, in $ per hour. Each ping tells it to the workers, which serve the clients of one
  /// user more for whom they save more. At 0, the initial value, this host gets the smallest share.
  void set_worth(double worth);
  /// The weight of this host's work beside that of other users (PoolOptions::hello.user), above 0; at first 1.
  void set_weight(double weight);

  std::vector<WorkerStats> figures() const;

  /// What looks names up again, of workers that do not answer: start a thread in its run() if a member has a name, and
  /// stop() it with the pool. It may outlive the pool, since a resolver takes its time. Null: all addresses are numbers.
  std::shared_ptr<NameLookups> lookups() const;

 private:
  class Loop;
  explicit WorkerPool(std::unique_ptr<Loop> loop);
  std::unique_ptr<Loop> loop_;
};

}  // namespace carya::remote
