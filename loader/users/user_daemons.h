#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "base/poller.h"
#include "base/unique_fd.h"
#include "loader/program/log_level.h"
#include "loader/users/closing_process.h"
#include "loader/users/page_process.h"
#include "loader/users/rights.h"
#include "loader/users/user_groups.h"

namespace carya::loader {

/// What may change while it runs.
struct UserRules {
  Admitted admitted;
  UserShare share{};                    ///< of a user that `shares` does not name
  std::map<uid_t, UserShare> shares{};  ///< of users: what each may have beside the others
  const UserShare& share_of(uid_t user) const {
    const auto own = shares.find(user);
    return own != shares.end() ? own->second : share;
  }
};

struct UserDaemonsOptions {
  std::string socket;                     ///< where clients of all users connect
  UniqueFd listening{};                   ///< by socket activation: it listens already
  std::vector<std::string> command;       ///< the program of a user's daemon, with its arguments
  UniqueFd page{};                        ///< where the page of all users listens; empty: there is none
  std::vector<std::string> page_command;  ///< the program that serves it
  UserRules rules;
  std::uint64_t users_max = 1024;  ///< daemons at the same time
  double drain_s = 5;              ///< after SIGTERM daemons have so long to end
  std::optional<std::int64_t> watchdog_ns{};
  std::function<void()> alive{};  ///< is called twice in that time
  Log log;
};

/// Gives each user of a host a daemon of their own, behind one socket that all of them connect to.
///
/// It takes a connection, asks the kernel who is at its other end, and passes it on, unread, to the daemon that runs with
/// just these rights: user, group and supplementary groups. That daemon is started when there is none, and ends when it
/// has had no client for a while. So the files, the memory, the threads and the failures of a user are those of that
/// user's process, and what separates users is the kernel. No byte of a client is read here.
///
/// Beside the socket is a folder "users" of root, with a socket for each daemon by the user's number: who connects there
/// talks to that user's daemon (`carya status --all-users`).
///
/// A user whose daemon the kernel ended for its memory (UserShare::memory_bytes) is refused for kMemoryPauseNs, and told why:
/// what it lost ends with this error, where it would be the same again.
///
/// What a daemon notes of its crash (CrashNotes) lies in a memory file of this process, which is given to the next daemons
/// of that user. It is not read here.
///
/// A daemon gets its connections over a socket that is its descriptor kHandedFd, one descriptor a message. While this
/// process is gone the daemons go on for the clients that they have.
/// Threads: run() by one; drain(), stop() and set_rules() by any.
class UserDaemons {
 public:
  /// Errors: kInvalidArgument (the path), kPermission, kExhausted, kClosed (another daemon listens there).
  static Result<std::unique_ptr<UserDaemons>> create(UserDaemonsOptions options);
  ~UserDaemons();
  UserDaemons(const UserDaemons&) = delete;
  UserDaemons& operator=(const UserDaemons&) = delete;

  /// Serve until stop(), or until all daemons have ended after a drain().
  void run();
  /// After run(): remove the sockets.
  void end();
  /// Take nothing new, have the daemons drain, and end; those that do not end are killed. Signal-safe.
  void drain();
  /// End at once; the daemons end when their clients have gone. Signal-safe.
  void stop();
  /// Take over rules, and have the daemons read their configuration again.
  void set_rules(UserRules rules);

 private:
  struct Daemon;
  /// What one user may still ask for.
  struct Allowance {
    double starts = 0;  // of daemons, at `since_ns`
    std::int64_t since_ns = 0;
    std::int64_t refused_ns = 0;  // when a refusal was last logged
    std::uint64_t killed = 0;     // UserGroups::killed() at the last look
    std::int64_t memory_ns = 0;   // when a process of the user was last found killed for its memory; 0: never
    std::shared_ptr<const UniqueFd> notes{};  // of the daemon that crashed last; null: none has
    std::int64_t crashed_ns = 0;              // when it was seen
  };
  UserDaemons(UserDaemonsOptions options, Poller poller, UniqueFd listening);
  void accept_clients(int listening, Daemon* only);
  void serve(UniqueFd client, const Rights& rights);
  void refuse(UniqueFd client, uid_t user, const Error& error);
  Allowance& allowance_of(uid_t user);
  Result<Daemon*> daemon_for(const Rights& rights);
  Result<Daemon*> start(const Rights& rights);
  std::vector<UniqueFd> groups_of(uid_t user);
  std::shared_ptr<const UniqueFd> notes_for(uid_t user);
  void say_unkept();
  Status check_memory(uid_t user);
  std::string own_folder() const;
  void remove_left();
  void open_own_socket(Daemon& daemon);
  void start_page();
  void answer_page();
  void reap(std::uint64_t tag);
  void look_after();
  void take_rules();
  void signal_all(int number);
  int wait_ms();

  UserDaemonsOptions options_;
  Poller poller_;
  UniqueFd listening_;
  bool own_path_ = false;  // the socket's file is removed at the end
  std::optional<UserGroups> groups_;
  bool said_without_groups_ = false;
  std::optional<PageProcess> page_;
  std::int64_t page_again_ns_ = 0;  // when it is started again; 0: it runs, or there is none
  ClosingProcess closing_;
  std::uint64_t next_tag_ = 0;
  std::map<std::uint64_t, std::unique_ptr<Daemon>> daemons_;  // all that run, by tag
  std::map<Rights, Daemon*> current_;                         // those that get connections
  std::map<uid_t, Allowance> allowances_;
  std::atomic<bool> stop_{false}, drain_{false};
  std::int64_t drain_until_ns_ = 0;
  std::int64_t next_alive_ns_ = 0;
  Mutex mutex_;
  std::optional<UserRules> next_rules_ GUARDED_BY(mutex_);
};

}  // namespace carya::loader
