#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "loader/control/channel.h"
#include "loader/control/documents.h"
#include "loader/data/dataset.h"
#include "loader/job/job.h"

namespace carya::loader {

/// What a job says to the daemon, and what it does when there is none.
struct DaemonOptions {
  std::string socket;
  std::string job;  ///< the name that its ranks share
  std::uint32_t replica = 0;
  std::uint32_t replicas = 1;  ///< readers that lease the same slots
  std::string cache_dir;
  std::map<std::string, ArrayMemory> arrays;  ///< of an `arrays` source; copied once into sealed memory
  double attach_timeout_s = 300;              ///< of the first attachment: a first listing may take long
  double reattach_timeout_s = 30;             ///< after the daemon was lost
  /// The stream in this process, for when the daemon does not come back; empty: that is an error.
  std::function<Result<Attach>()> embedded;
  std::function<bool(std::uint64_t)> progress;  ///< records listed so far; false stops it
};

/// A stream that a daemon makes: requests over a control connection. Threads: as Producer says.
class DaemonStream : public Producer {
 public:
  /// What goes with each attachment: the pipeline and the arrays, copied once. Errors: kExhausted.
  static Result<std::vector<UniqueFd>> seal(const transforms::Pipeline& pipeline,
                                            const DaemonOptions& options);
  /// One attempt to attach, with what seal() gave. Errors: those of Channel::connect; what the daemon
  /// answers; kTimeout, kExhausted.
  static Result<Attachment> attach(const std::vector<UniqueFd>& sealed, const JobOptions& job,
                                   const DaemonOptions& options);

  Result<std::uint64_t> seek(std::uint64_t epoch, std::uint64_t position) override;
  Result<bool> set_on_error(transforms::OnError policy) override;
  Result<Found> take_found(std::uint64_t sequence) override;
  Result<ProducerStats> stats() const override;
  Status check() override;
  void note_demand(double per_s) override { demand_per_s_ = per_s; }
  void close() override;

 private:
  explicit DaemonStream(Channel channel) : channel_(std::move(channel)) {}

  Result<std::string> ask_for(MessageType question, std::string body, MessageType wanted) const;

  mutable std::mutex mutex_;  // one question at a time
  mutable Channel channel_;
  mutable std::uint32_t request_ = 0;
  mutable std::optional<Error> notice_;  // its last words
  std::atomic<double> demand_per_s_{0};  // told at the end
};

/// A question to a daemon and its answer's body. For programs that ask once: status, drain, logs.
/// Errors: those of Channel::connect; what the daemon answers; kTimeout.
Result<std::string> ask_daemon(const std::string& socket, MessageType question, const std::string& body,
                               MessageType answer, int timeout_ms);

/// Attachments to the daemon, again after it was lost, and at last in this process.
Attach attach_to_daemon(std::shared_ptr<const transforms::Pipeline> pipeline, const JobOptions& job,
                        const DaemonOptions& options);

/// Where a user's daemon listens: $CARYA_DAEMON_SOCKET, else carya/caryad.sock in $XDG_RUNTIME_DIR, else in
/// /run/user/UID, else caryad.sock in /tmp/carya-UID.
std::string default_socket_path();

}  // namespace carya::loader
