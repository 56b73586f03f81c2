#include "loader/users/page_process.h"

#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <span>
#include <vector>

#include "base/clock.h"
#include "base/unix_socket.h"
#include "loader/control/listening.h"

namespace carya::loader {
namespace {

constexpr std::int64_t kAnswerNs = 5'000'000'000;  // the other process may be busy

Error gone() {
  return {Code::kClosed, "caryad: the daemon of all users is gone", 0};
}

/// A packet that comes in time.
Status wait(int socket) {
  const std::int64_t end_ns = monotonic_ns() + kAnswerNs;
  int ready = -EINTR;
  while (ready == -EINTR) ready = poll_until(socket, POLLIN, end_ns);
  return ready == 1 ? Status() : std::unexpected(gone());
}

}  // namespace

Status PageProcess::start() {
  end();
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0)
    return fail_errno("caryad: socket of the page", errno);
  UniqueFd ours(ends[0]);
  const UniqueFd theirs(ends[1]);
  if (const int refused = hand_over(ours.get(), listening_.get()); refused != 0)
    return fail_errno("caryad: socket of the page", refused);
  ASSIGN(process_, start_process(options_, theirs.get()));
  socket_ = std::move(ours);
  return {};
}

std::optional<std::uint64_t> PageProcess::question() {
  std::uint64_t tag = 0;
  const ssize_t got = recv(socket_.get(), &tag, sizeof(tag), MSG_DONTWAIT | MSG_TRUNC);
  if (got == sizeof(tag)) return tag;
  if (got >= 0 || !is_again(errno)) end();
  return std::nullopt;
}

void PageProcess::answer(const ListedDaemon& daemon, int connection) {
  ListedDaemon said = daemon;
  iovec part{&said, sizeof(said)};
  alignas(cmsghdr) char room[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (connection >= 0) put_fds(message, room, {&connection, 1});
  if (sendmsg(socket_.get(), &message, MSG_DONTWAIT | MSG_NOSIGNAL) < 0) end();
}

void PageProcess::end() {
  if (!socket_) return;
  socket_.reset();
  end_process(process_);
  process_ = {};
}

Result<UniqueFd> take_listening(int socket) {
  TRY(wait(socket));
  bool ended = false;
  UniqueFd listening = take_handed(socket, ended);
  if (!listening) return std::unexpected(gone());
  return listening;
}

Result<NextDaemon> next_daemon(int socket, std::uint64_t tag) {
  if (send(socket, &tag, sizeof(tag), MSG_NOSIGNAL) < 0) return std::unexpected(gone());
  TRY(wait(socket));
  NextDaemon next;
  iovec part{&next.daemon, sizeof(next.daemon)};
  alignas(cmsghdr) char room[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = room;
  message.msg_controllen = CMSG_LEN(sizeof(int));
  const ssize_t got = recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  std::vector<UniqueFd> came;
  if (got > 0) take_fds(message, came);
  if (got != sizeof(next.daemon)) return std::unexpected(gone());
  if (!came.empty()) next.connection = std::move(came.front());
  return next;
}

}  // namespace carya::loader
