#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/poller.h"
#include "base/unique_fd.h"
#include "loader/control/channel.h"
#include "loader/control/closer.h"
#include "loader/daemon/attach_threads.h"
#include "loader/daemon/job_table.h"
#include "loader/program/log_level.h"

namespace carya::loader {

struct ServerOptions {
  std::string socket;    ///< where it listens
  UniqueFd listening{};  ///< by socket activation: it listens already
  UniqueFd handed{};     ///< or a socket by which connections come, one descriptor a message (take_handed)
  JobLimits limits{};
  std::uint64_t connections_max = 512;
  double hello_s = 10;     ///< a connection that says no hello is closed after so long
  double silent_s = 60;    ///< and one that asks nothing and reads nothing
  double drain_s = 5;      ///< after SIGTERM readers have so long to give back what they hold
  double idle_exit_s = 0;  ///< run() ends after so long without a reader; 0: never
  std::optional<std::int64_t> watchdog_ns{};  ///< alive() is called at least so often
  std::function<void()> alive{};
  std::function<void()> before_secrets{};  ///< called before a client's credentials are taken; may be empty
  std::string version = "caryad";
  std::shared_ptr<const CrashNotes> crashes{};  ///< of earlier daemons; null: nobody is refused for them
  Log log;
  std::function<std::vector<std::string>(std::uint64_t)> last_lines;  ///< of the log
};

/// The control side of a daemon: accepts readers of its own user, gives them seats in the job table, sees
/// them die. One thread does all of it; attaching, which may take as long as a listing, happens in threads of
/// its own. A client that misbehaves costs itself only: it is told why, and closed. Threads: run() by one;
/// stop(), drain(), set_limits() and status() by any.
class Server {
 public:
  /// Errors: kInvalidArgument (path), kExhausted, kPermission, kClosed (another daemon listens there).
  static Result<std::unique_ptr<Server>> create(ServerOptions options);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  /// Serve until stop(), the end of a drain(), or idle_exit_s.
  void run();
  /// After run(): close the socket, wait for attachments under way, end all jobs.
  void end();
  /// Take nothing new, wait for what readers hold (at most drain_s), end. Signal-safe.
  void drain();
  /// End at once. Signal-safe.
  void stop();
  void set_limits(const JobLimits& limits) { jobs_.set_limits(limits); }
  DaemonStatus status() const;

 private:
  struct Connection;
  Server(ServerOptions options, Poller poller);
  void end_handing();
  void accept_clients();
  void read_message(Connection& connection);
  Status answer(Connection& connection, Message& message);
  Status answer_trace(Connection& connection, const Message& message);
  Status answer_attach(Connection& connection, const Message& message);
  Status answer_seated(Connection& connection, const Message& message);
  void take_made();
  Status seat(Connection& connection, std::uint32_t request, JobTable::Attachment& attachment);
  Status reply(Connection& connection, const Message& question, MessageType type, std::string body);
  void refuse(Connection& connection, std::uint32_t request, const Error& error);
  bool make_room();
  std::int64_t silent_until_ns(const Connection& connection) const;
  void close_dropped();
  void drop(std::uint64_t id, DetachReason how, const std::string& reason);
  void hung_up(Connection& connection);
  void end_hung_up(const AttachRequest& request);
  void find_liars();
  void find_ended();
  bool drained();
  bool idle(std::int64_t now_ns);
  void look_after(std::int64_t now_ns);
  int wait_ms();

  ServerOptions options_;
  JobTable jobs_;
  const std::int64_t started_ns_;
  std::uint64_t instance_ = 0;
  UniqueFd listening_;
  bool handed_ = false;  // connections come by listening_
  Poller poller_;
  bool own_path_ = false;  // the socket's file is removed at the end
  std::uint64_t next_id_ = 0;
  std::map<std::uint64_t, std::unique_ptr<Connection>> connections_;
  Closer closer_;
  std::vector<std::unique_ptr<Connection>>
      dropped_;                    // since the loop last slept; somebody may hold one still
  std::int64_t next_tick_ns_ = 0;  // 0: nothing to look after
  std::atomic<bool> stop_{false}, drain_{false};
  std::int64_t drain_until_ns_ = 0;
  std::int64_t next_alive_ns_ = 0;  // 0: nobody watches
  std::int64_t idle_since_ns_ = 0;
  std::atomic<std::uint64_t> attached_{0}, detached_{0}, killed_{0}, open_{0};
  AttachThreads attachments_;
};

}  // namespace carya::loader
