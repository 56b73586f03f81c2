#include "remote/fleet/child_process.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <utility>

#include "base/clock.h"

extern char** environ;

namespace carya::remote {
namespace {

constexpr int kReapEveryMs = 10;

/// posix_spawn's attributes: no signal blocked or ignored, a group of its own.
struct Attributes {
  Attributes() {
    posix_spawnattr_init(&of);
    sigset_t none, all;
    sigemptyset(&none);
    sigemptyset(&all);
    for (const int signal : {SIGTERM, SIGINT, SIGPIPE, SIGHUP, SIGCHLD}) sigaddset(&all, signal);
    posix_spawnattr_setsigmask(&of, &none);
    posix_spawnattr_setsigdefault(&of, &all);
    posix_spawnattr_setpgroup(&of, 0);
    posix_spawnattr_setflags(&of, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
  }
  ~Attributes() { posix_spawnattr_destroy(&of); }
  Attributes(const Attributes&) = delete;
  Attributes& operator=(const Attributes&) = delete;
  posix_spawnattr_t of{};
};

}  // namespace

Result<ChildProcess> ChildProcess::start(const std::vector<std::string>& command) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    return fail_errno("start " + command.front(), errno);
  ChildProcess child;
  child.socket_.reset(ends[0]);
  const UniqueFd theirs(ends[1]);
  fcntl(ends[0], F_SETFL, O_NONBLOCK);
  const Attributes attributes;
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  for (const int target : {STDIN_FILENO, STDOUT_FILENO})
    posix_spawn_file_actions_adddup2(&actions, theirs.get(), target);
  std::vector<char*> words;
  for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  pid_t pid = 0;
  const int refused = posix_spawnp(&pid, words.front(), &actions, &attributes.of, words.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (refused != 0) return fail_errno("start " + command.front(), refused);
  child.pid_ = pid;
  return child;
}

ChildProcess::ChildProcess(ChildProcess&& other) noexcept
    : pid_(std::exchange(other.pid_, 0)), failed_(other.failed_), socket_(std::move(other.socket_)) {}

ChildProcess& ChildProcess::operator=(ChildProcess&& other) noexcept {
  if (this == &other) return *this;
  kill();
  pid_ = std::exchange(other.pid_, 0);
  failed_ = other.failed_;
  socket_ = std::move(other.socket_);
  return *this;
}

void ChildProcess::end_input() {
  if (socket_) shutdown(socket_.get(), SHUT_WR);
}

bool ChildProcess::wait(std::int64_t end_ns) {
  while (pid_ > 0) {
    int status = 0;
    if (const pid_t ended = waitpid(pid_, &status, WNOHANG); ended != 0) {  // reaped, or somebody else did
      failed_ = ended == pid_ && status != 0;
      pid_ = 0;
      break;
    }
    if (monotonic_ns() >= end_ns) return false;
    poll(nullptr, 0, kReapEveryMs);
  }
  socket_.reset();
  return true;
}

void ChildProcess::kill() {
  if (pid_ <= 0) return;
  ::kill(-pid_, SIGKILL);
  ::kill(pid_, SIGKILL);  // where it left its group
  while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
  pid_ = 0;
  socket_.reset();
}

}  // namespace carya::remote
