#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "remote/protocol/connection.h"
#include "remote/protocol/messages.h"
#include "remote/protocol/tls.h"

namespace carya::remote {

struct PoolOptions {
  std::optional<TlsFiles> tls;  ///< none: plain; Unix sockets are plain in any case
  std::string server_name;      ///< that certificates must have; "": the host that was given
  bool insecure = false;        ///< plain TCP also to other machines
  Hello hello;                  ///< what is said of this side
  std::uint64_t heartbeat_ms = 1000;
  std::uint64_t silent_ms = 3000;     ///< without a byte: the worker is dead
  std::uint64_t connect_ms = 10'000;  ///< until it must have said Welcome
  std::uint64_t backoff_min_ms = 50;  ///< after the first failure; doubled by each further one
  std::uint64_t backoff_max_ms = 5000;
  /// In a row, without a result between: the worker is parked. Ten take about 12 s: whoever is started again
  /// is back by then.
  std::uint32_t failures_max = 10;
  std::uint64_t park_ms = 60'000;
  std::uint64_t seed = 0;  ///< of the jitter: each wait is half of it to all of it
};

/// One chunk to be computed by a worker.
struct Submission {
  std::uint64_t request = 0;  ///< the owner's number for it, never used twice; not 0
  std::uint64_t plan = 0;
  std::string about;
  Payload payload{};
  std::uint64_t result_bytes = 0;  ///< the most that its result may have
};

/// What becomes of it. All calls come from the thread in run(), without a lock, and are to return soon.
/// Each request ends by exactly one of done(), failed(), lost(), or a withdraw() that says true.
class PoolEvents {
 public:
  virtual ~PoolEvents() = default;
  /// A worker is there; an error, by its facts, refuses it.
  virtual Status admit(std::uint64_t member, const Welcome& welcome) = 0;
  /// It is not, or not any more; it is tried again, after a longer time if it is parked. For the log.
  virtual void down(std::uint64_t member, const Error& reason, bool parked) = 0;
  /// It has, or refuses, a plan.
  virtual void registered(std::uint64_t member, std::uint64_t plan, Result<std::string> about) = 0;
  /// Its window has room again, or it can take requests.
  virtual void room(std::uint64_t member) = 0;

  /// Where a result goes whose payload, of `bytes`, is about to arrive: exactly so many, or kDiscard.
  virtual Placement place(std::uint64_t request, const std::string& about, std::uint64_t bytes) = 0;
  /// The result is whole. `placed`: its payload lies where place() said.
  virtual void done(std::uint64_t request, const std::string& about, bool placed) = 0;
  /// The worker says that it cannot.
  virtual void failed(std::uint64_t request, const Error& error) = 0;
  /// The worker died, was closed, went away, or does not know the plan: to be done elsewhere.
  virtual void lost(std::uint64_t request, const Error& reason) = 0;
};

struct WorkerFigures {
  /// kExpelled: removed for good by the pool's owner, who keeps its last figures.
  enum class State : std::uint8_t { kDown, kConnecting, kUp, kDraining, kParked, kExpelled };
  std::uint64_t member = 0;
  std::string address;
  State state = State::kDown;
  std::string kind;  ///< "plain", "TLSv1.3", "TLSv1.3 resumed"
  Window window, in_flight;
  std::uint64_t results = 0, failed = 0, lost = 0, withdrawn = 0;
  std::uint64_t received_bytes = 0, sent_bytes = 0;  ///< payloads
  double results_per_s = 0, bytes_per_s = 0;         ///< over the last seconds
  double round_trip_s = 0;                           ///< of the last Ping; 0: unknown
  double free = 1;                  ///< of the worker, beside those that ask it too; over the last seconds
  double link_out_bytes_per_s = 0;  ///< that the link to it takes; 0: not known, it never was what limits
  double p50_s = 0, p99_s = 0;      ///< from submit() to the whole result, of the last 256; 0: none yet
  std::uint64_t failures = 0;       ///< in a row
  std::string reason;               ///< of the last one
};

/// A host's side: connections to workers, made again when they end; requests and their results.
///
/// Threads: one thread in run(); all else is thread-safe. One writer: after withdraw() has said true nothing
/// is written into the memory that place() named for that request, and none of its events comes.
class WorkerPool {
 public:
  static constexpr std::size_t kPlansMax = 2;  ///< as many as a worker keeps

  /// The events outlive the pool. Errors: kInvalidArgument (the files of TLS), kExhausted.
  static Result<std::unique_ptr<WorkerPool>> create(const PoolOptions& options, PoolEvents& events);
  ~WorkerPool();

  /// Until stop(), which makes all requests lost.
  void run();
  void stop();

  /// Connects to a worker from now on; its number. Looks its name up, which may take seconds. Errors:
  /// kInvalidArgument (plain TCP to another machine without `insecure`; no address, an unknown name).
  Result<std::uint64_t> add_member(const std::string& address);
  /// Its requests are lost.
  void remove_member(std::uint64_t member);

  /// Registered with every worker, also with those that come later, until drop_plan(). Errors: kExhausted
  /// (kPlansMax), kInvalidArgument (the number was used).
  Status add_plan(std::uint64_t plan, std::string about, Payload document);
  void drop_plan(std::uint64_t plan);

  /// Queues a request. Errors: kClosed (the worker is not there, or goes away), kNotFound (it has not the
  /// plan yet), kExhausted (its window has no room; room() will say when), kInvalidArgument (above the
  /// worker's limits, or the number is in use).
  Status submit(std::uint64_t member, Submission submission);
  /// Nobody wants the result any more; the worker is told, and does not begin it. False: its event has come,
  /// or is coming.
  bool withdraw(std::uint64_t request);

  /// What one worker saves this side, in $ per hour, told with each Ping: workers that others ask too serve
  /// those more for whom they save more. Before it is said, and at 0, it gets the least share.
  void set_worth(double worth);

  std::vector<WorkerFigures> figures() const;

 private:
  class Loop;
  explicit WorkerPool(std::unique_ptr<Loop> loop);
  std::unique_ptr<Loop> loop_;
};

}  // namespace carya::remote
