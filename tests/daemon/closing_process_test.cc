#include "loader/users/closing_process.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/unix_socket.h"

namespace carya::loader {
namespace {

/// A TCP socket whose close waits for its peer, which reads nothing, for hours.
struct LingeringConnection {
  UniqueFd listening, peer, socket;
};

LingeringConnection lingering() {
  LingeringConnection made;
  sockaddr_in address{
      .sin_family = AF_INET, .sin_port = 0, .sin_addr = {htonl(INADDR_LOOPBACK)}, .sin_zero = {}};
  socklen_t size = sizeof(address);
  const auto where = reinterpret_cast<sockaddr*>(&address);
  made.listening.reset(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  EXPECT_EQ(bind(made.listening.get(), where, size), 0);
  EXPECT_EQ(listen(made.listening.get(), 1), 0);
  EXPECT_EQ(getsockname(made.listening.get(), where, &size), 0);
  made.socket.reset(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  EXPECT_EQ(connect(made.socket.get(), where, size), 0);
  made.peer.reset(accept(made.listening.get(), nullptr, nullptr));
  const linger hours{.l_onoff = 1, .l_linger = 30'000};
  setsockopt(made.socket.get(), SOL_SOCKET, SO_LINGER, &hours, sizeof(hours));
  const std::vector<char> bytes(1 << 16);
  while (send(made.socket.get(), bytes.data(), bytes.size(), MSG_DONTWAIT) > 0) {
  }
  return made;
}

/// A connection, and in its queue a message with the descriptor: who closes the first end closes that too.
std::pair<UniqueFd, UniqueFd> connection_with(int fd) {
  int ends[2];
  EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
  char byte = 0;
  iovec part{&byte, 1};
  alignas(cmsghdr) char room[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  put_fds(message, room, {&fd, 1});
  EXPECT_EQ(sendmsg(ends[1], &message, 0), 1);
  return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

bool hears_the_end(int fd) {
  pollfd one{.fd = fd, .events = POLLIN, .revents = 0};
  return poll(&one, 1, 20'000) == 1 && (one.revents & POLLHUP) != 0;
}

TEST(ClosingProcess, ClosesWhatItIsGiven) {
  ClosingProcess closing;
  for (int i = 0; i < 50; ++i) {
    int ends[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    const UniqueFd other(ends[1]);
    closing.take(UniqueFd(ends[0]));
    EXPECT_TRUE(hears_the_end(other.get()));
  }
}

TEST(ClosingProcess, ACloseThatWaitsHoldsUpNoOther) {
  ClosingProcess closing;
  std::vector<LingeringConnection> sockets;
  std::vector<UniqueFd> others;
  for (int i = 0; i < 40; ++i) {  // more than wait for one process
    sockets.push_back(lingering());
    auto [connection, other] = connection_with(sockets.back().socket.get());
    sockets.back().socket.reset();  // the queue has the last one
    closing.take(std::move(connection));
    others.push_back(std::move(other));
  }
  for (std::int64_t now_ns = monotonic_ns(), until_ns = 0; (until_ns = closing.look(now_ns)) != 0;
       now_ns = monotonic_ns())
    usleep(static_cast<useconds_t>(std::max<std::int64_t>(until_ns - now_ns, 0) / 1000));
  for (const UniqueFd& other : others) EXPECT_TRUE(hears_the_end(other.get()));
}

}  // namespace
}  // namespace carya::loader
