#pragma once

#include <cstdint>
#include <optional>

#include "base/error.h"
#include "base/unique_fd.h"
#include "loader/users/start_process.h"

namespace carya::loader {

/// A daemon of a user, as the process with the page of all of them hears of it.
struct ListedDaemon {
  std::uint64_t tag = 0;  ///< rises from one to the next; 0: there are no more
  std::uint32_t uid = 0;
  std::uint32_t number = 0;    ///< of this user's daemons, from 1
  std::uint32_t draining = 0;  ///< 1: all of them end
};

/// The process that serves the page of all users (loader/daemon/users_page). It runs with the rights of nobody, since it
/// reads what users' daemons say, and asks this process for connections to them: it sends a tag, and gets the daemon with
/// the next one, with a connection to it. This process never waits for it. Threads: owner only.
class PageProcess {
 public:
  PageProcess(UniqueFd listening, StartOptions options)
      : listening_(std::move(listening)), options_(std::move(options)) {}
  ~PageProcess() { end(); }
  PageProcess(const PageProcess&) = delete;
  PageProcess& operator=(const PageProcess&) = delete;

  /// Start it. The port is not given up when it ends. Errors: those of start_process().
  Status start();
  bool runs() const { return static_cast<bool>(socket_); }
  /// Where its questions come.
  int socket() const { return socket_.get(); }
  /// The tag of its next question; none: it asks nothing now. One that ended, or does not keep to this, runs no more.
  std::optional<std::uint64_t> question();
  /// `connection` to the daemon, -1: it takes none now.
  void answer(const ListedDaemon& daemon, int connection);

 private:
  void end();
  UniqueFd listening_;
  StartOptions options_;
  StartedProcess process_;
  UniqueFd socket_;
};

/// In that process, with its kHandedFd: the socket that the page listens at. Errors: kClosed.
Result<UniqueFd> take_listening(int socket);
/// The daemon after that tag, and a connection to it, empty where it takes none. Errors: kClosed (the other end is gone).
struct NextDaemon {
  ListedDaemon daemon;
  UniqueFd connection;
};
Result<NextDaemon> next_daemon(int socket, std::uint64_t tag);

}  // namespace carya::loader
