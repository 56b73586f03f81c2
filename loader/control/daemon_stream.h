#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "base/poller.h"
#include "loader/control/channel.h"
#include "loader/control/documents.h"
#include "loader/control/store_lender.h"
#include "loader/data/dataset.h"
#include "loader/job/job.h"

namespace carya::loader {

/// What a job tells the daemon, and what it does without one.
struct DaemonOptions {
  std::string socket;
  std::string job;  ///< the name that its ranks share
  std::uint32_t replica = 0;
  std::uint32_t replicas = 1;  ///< the number of readers that lease the same slots
  std::string share;           ///< AttachRequest::share
  std::uint32_t share_jobs = 1;
  std::string cache_dir;
  std::map<std::string, ArrayMemory>
      arrays;                      ///< arrays of an `arrays` source; copied once into sealed memory
  double attach_timeout_s = 300;   ///< limit of the first attachment: a first listing may take long
  double reattach_timeout_s = 30;  ///< limit of an attachment after the daemon was lost
  /// Makes the stream in this process if the daemon does not come back; empty: the job then fails.
  std::function<Result<Attach>()> embedded;
  std::function<bool(std::uint64_t)>
      progress;  ///< called with the records listed so far; false stops the listing
};

/// A connection by which a job takes turns with those of a daemon: other processes of this machine do its work, as
/// Python functions are. Threads: one at a time.
class TurnSeat {
 public:
  /// Errors: those of Channel::connect; kUnsupported (an earlier daemon, which knows no turns).
  static Result<TurnSeat> take(const std::string& socket);
  /// The next report is to come within some milliseconds, or 100 where nobody else wants the cores.
  /// Errors: kTimeout, kClosed (the daemon is gone), those that it answers. The seat is of no use any more then.
  Result<TurnIs> report(const TurnRequest& report);

 private:
  explicit TurnSeat(Channel channel) : channel_(std::move(channel)) {}
  Channel channel_;
  std::uint32_t questions_ = 2;
};

/// A stream that a daemon makes. Requests go over a control connection. Threads: as Stream says.
class DaemonStream : public Stream {
 public:
  /// Copy the pipeline and the arrays, once, into the memory files that go with each attachment. Errors: kExhausted.
  static Result<std::vector<UniqueFd>> seal(const transforms::Pipeline& pipeline,
                                            const DaemonOptions& options);
  /// Make one attempt to attach, with the memory files of seal(). `lender`: of a pipeline with URLs. Errors: those of
  /// Channel::connect; those that the daemon answers; kTimeout, kExhausted; kUnsupported (an earlier daemon).
  static Result<Attachment> attach(const std::vector<UniqueFd>& sealed, const JobOptions& job,
                                   const DaemonOptions& options,
                                   std::shared_ptr<const StoreLender> lender = nullptr);
  ~DaemonStream() override { end_lending(); }

  Result<std::uint64_t> seek(std::uint64_t epoch, std::uint64_t position) override;
  Result<bool> set_on_error(transforms::OnError policy) override;
  Result<DeliveredErrors> take_errors(std::uint64_t sequence) override;
  Result<StreamStats> stats() const override;
  Status check() override;
  void note_demand(double per_s) override { demand_per_s_ = per_s; }
  void close() override;

 private:
  DaemonStream(Channel channel, std::uint32_t requests_made, std::shared_ptr<const StoreLender> lender)
      : channel_(std::move(channel)), request_(requests_made), lender_(std::move(lender)) {}

  Status hear(const Message& message) const REQUIRES(mutex_);
  void note_wish(bool refused) const REQUIRES(mutex_);
  Status start_lending();
  void lend_when_asked();
  std::optional<bool> take_wish();
  void end_lending();

  Result<std::string> ask_for(MessageType question, std::string body, MessageType wanted) const;

  mutable Mutex mutex_;  // one question at a time
  mutable Channel channel_ GUARDED_BY(mutex_);
  mutable std::uint32_t request_ GUARDED_BY(mutex_) = 0;
  mutable std::optional<Error> notice_ GUARDED_BY(mutex_);  // its last words
  const std::shared_ptr<const StoreLender> lender_;         // null: there are no URLs
  mutable std::optional<bool> wish_
      GUARDED_BY(mutex_);          // the daemon wants other credentials; it has refused ones
  std::optional<Poller> lending_;  // where the thread waits
  std::atomic<bool> lending_ends_{false};
  std::thread lends_;
  std::atomic<double> demand_per_s_{0};  // told at the end
};

/// Ask a daemon one question and return the body of its answer: status, drain, logs.
/// Errors: those of Channel::connect; those that the daemon answers; kTimeout.
Result<std::string> ask_daemon(const std::string& socket, MessageType question, const std::string& body,
                               MessageType answer, int timeout_ms);

/// Attach to the daemon, attach again after it was lost, and at last make the stream in this process.
Attach attach_to_daemon(std::shared_ptr<const transforms::Pipeline> pipeline, const JobOptions& job,
                        const DaemonOptions& options);

/// The socket of a user's daemon: $CARYA_DAEMON_SOCKET, else carya/caryad.sock in $XDG_RUNTIME_DIR, else in
/// /run/user/UID, else caryad.sock in /tmp/carya-UID.
std::string default_socket_path();
/// Where a loader looks: default_socket_path(), or the daemon of all users of the machine, where that one listens for this
/// user, CARYA_DAEMON_SOCKET says nothing, and no daemon has made a socket of this user's.
std::string loader_socket_path();

}  // namespace carya::loader
