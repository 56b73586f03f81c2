#include "loader/users/closing_process.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <utility>

#include "base/clock.h"
#include "loader/control/listening.h"

namespace carya::loader {
namespace {

constexpr int kSocket = 3;

/// A message of one byte, with no descriptor.
bool send_byte(int socket) {
  const char byte = 0;
  return send(socket, &byte, 1, MSG_DONTWAIT | MSG_NOSIGNAL) == 1;
}

/// Receives one descriptor after the other, closes each at the message behind it, and answers with a byte. Calls the kernel
/// only: it runs in a copy of a process with other threads.
[[noreturn]] void run(int socket) {
  prctl(PR_SET_NAME, "caryad-closing");
  if (socket != kSocket && dup2(socket, kSocket) < 0) _exit(1);
  syscall(SYS_close_range, kSocket + 1, ~0U, 0);
  for (int fd = 0; fd < kSocket; ++fd) close(fd);
  UniqueFd held;
  for (bool ended = false; !ended;) {
    pollfd next{.fd = kSocket, .events = POLLIN, .revents = 0};
    if (poll(&next, 1, -1) <= 0) continue;  // a signal
    UniqueFd came = take_handed(kSocket, ended);
    if (came) {
      held = std::move(came);
    } else if (!ended) {
      held.reset();
      if (!send_byte(kSocket)) break;
    }
  }
  _exit(0);  // what is still held is closed by the end, which does not wait
}

}  // namespace

bool ClosingProcess::start() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) return false;
  socket_.reset(ends[0]);
  const UniqueFd theirs(ends[1]);
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pid_ = fork();
  if (pid_ == 0) run(theirs.get());
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (pid_ < 0) pid_ = 0, socket_.reset();
  return pid_ != 0;
}

bool ClosingProcess::pass_on(int fd) {
  if ((pid_ == 0 && !start()) || hand_over(socket_.get(), fd) != 0) return false;
  taken_ns_.push_back(monotonic_ns());
  return true;
}

void ClosingProcess::take(UniqueFd fd) {
  look(monotonic_ns());
  if (!fd) return;
  if (!pass_on(fd.get())) {
    end();  // it is busy, and many wait for it
    if (!pass_on(fd.get())) return;
  }
  fd.reset();  // the other process has one, and closes it after the next message only: this close is not the last one
  if (!send_byte(socket_.get())) end();
}

std::int64_t ClosingProcess::look(std::int64_t now_ns) {
  char byte = 0;
  while (!taken_ns_.empty() && recv(socket_.get(), &byte, 1, MSG_DONTWAIT) == 1) taken_ns_.pop_front();
  if (taken_ns_.empty()) return 0;
  if (now_ns - taken_ns_.front() < kPatienceNs) return taken_ns_.front() + kPatienceNs;
  end();
  return 0;
}

/// Whatever it closes or has not closed yet is closed with it, and waits for nothing.
void ClosingProcess::end() {
  if (pid_ == 0) return;
  kill(pid_, SIGKILL);
  socket_.reset();
  while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
  pid_ = 0;
  taken_ns_.clear();
}

}  // namespace carya::loader
