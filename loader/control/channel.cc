#include "loader/control/channel.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <fmt/core.h>
#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

#include "base/clock.h"
#include "base/unix_socket.h"
#include "remote/protocol/cbor_check.h"

namespace carya::loader {
namespace {

constexpr int kConnectS = 5;
constexpr std::uint32_t kMagic = 0x5952'4143;  // "CARY", first byte lowest

/// SO_PEERPIDFD. Source: Linux 6.5, asm-generic/socket.h; the headers of Debian 12 are of 6.1.
constexpr int kSoPeerPidfd = 77;

/// Little-endian, as every machine that Carya runs on.
struct Header {
  std::uint32_t magic;
  std::uint8_t major;
  std::uint8_t minor;
  std::uint16_t type;
  std::uint32_t request;
  std::uint32_t body_bytes;
};
static_assert(sizeof(Header) == kHeaderBytes);
static_assert(std::endian::native == std::endian::little);

/// Room for as many descriptors as can come at all: those without room the kernel would close here and now.
/// Source: SCM_MAX_FD, unix(7).
constexpr std::size_t kSystemFdsMax = 253;

union Ancillary {
  cmsghdr align;
  char bytes[CMSG_SPACE(kSystemFdsMax * sizeof(int))];
};

Status wait_for(int socket, short events, std::int64_t end_ns, const char* what) {
  const int ready = poll_until(socket, events, end_ns);
  if (ready > 0) return {};
  if (ready == 0) return fail(Code::kTimeout, std::string("control channel: ") + what);
  if (ready == -EINTR) return fail(Code::kTimeout, "control channel: interrupted by a signal", EINTR);
  return fail_errno("control channel: poll", -ready);
}

}  // namespace

Result<Channel> Channel::connect(const std::string& path) {
  ASSIGN(const sockaddr_un address, unix_address(path, "daemon"));
  UniqueFd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!socket) return fail_errno("daemon: socket", errno);
  const timeval patience{.tv_sec = kConnectS, .tv_usec = 0};  // while many wait to be accepted
  setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
  const auto try_once = [&] {
    return ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address));
  };
  int refused = try_once();
  while (refused != 0 && errno == EINTR) refused = try_once();
  if (refused != 0) {
    if (errno == ECONNREFUSED || errno == ENOENT || errno == ENOTDIR)
      return fail(Code::kNotFound,
                  "daemon: nobody listens at " + path + "; start caryad, or give daemon=\"embedded\"", errno);
    if (errno == EAGAIN)
      return fail(Code::kTimeout, "daemon: " + path + " has too many who wait for it; try again");
    return fail_errno("daemon: connect to " + path, errno);
  }
  fcntl(socket.get(), F_SETFL, O_NONBLOCK);
  return Channel(std::move(socket));
}

Result<PeerCredentials> Channel::peer() const {
  ucred found{};
  socklen_t size = sizeof(found);
  if (getsockopt(socket_.get(), SOL_SOCKET, SO_PEERCRED, &found, &size) != 0)
    return fail_errno("control channel: peer credentials", errno);
  return PeerCredentials{found.pid, found.uid, found.gid};
}

UniqueFd Channel::peer_process() const {
  int process = -1;
  socklen_t size = sizeof(process);
  if (getsockopt(socket_.get(), SOL_SOCKET, kSoPeerPidfd, &process, &size) == 0) return UniqueFd(process);
  const auto found = peer();
  if (!found || found->pid == 0) return {};
  return UniqueFd(static_cast<int>(syscall(SYS_pidfd_open, found->pid, 0)));
}

Status Channel::send(const Message& message, int timeout_ms) {
  const std::int64_t end_ns = monotonic_ns() + timeout_ms * 1'000'000LL;
  if (message.body.size() + sizeof(Header) > kMessageBytesMax || message.fds.size() > kMessageFdsMax)
    return fail(Code::kInvalidArgument,
                fmt::format("control channel: a message of {} bytes and {} descriptors is too long",
                            message.body.size(), message.fds.size()));
  Header header{kMagic,          kProtocolMajor,
                message.minor,   static_cast<std::uint16_t>(message.type),
                message.request, static_cast<std::uint32_t>(message.body.size())};
  iovec parts[2] = {{&header, sizeof(header)}, {const_cast<char*>(message.body.data()), message.body.size()}};
  Ancillary ancillary{};
  msghdr out{};
  out.msg_iov = parts;
  out.msg_iovlen = 2;
  std::vector<int> fds;
  for (const UniqueFd& fd : message.fds) fds.push_back(fd.get());
  if (!fds.empty()) put_fds(out, ancillary.bytes, fds);
  for (;;) {
    if (sendmsg(socket_.get(), &out, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0) return {};
    if (errno == EPIPE || errno == ECONNRESET || errno == ENOTCONN)
      return fail(Code::kClosed, "control channel: the peer is gone", errno);
    if (errno == ETOOMANYREFS || errno == ENOBUFS)
      return fail(Code::kExhausted, "control channel: too many descriptors on their way", errno);
    if (!is_again(errno)) return fail_errno("control channel: send", errno);
    TRY(wait_for(socket_.get(), POLLOUT, end_ns, "the peer does not read"));
  }
}

Result<Message> Channel::receive(int timeout_ms, std::vector<UniqueFd>* refused) {
  Message message;
  if (Status received = receive_into(message, timeout_ms); !received) {
    if (refused != nullptr) *refused = std::move(message.fds);
    return std::unexpected(std::move(received.error()));
  }
  return message;
}

void Channel::shut() {
  shutdown(socket_.get(), SHUT_RDWR);
}

Status Channel::receive_into(Message& message, int timeout_ms) {
  const std::int64_t end_ns = monotonic_ns() + timeout_ms * 1'000'000LL;
  Header header{};
  std::string body(kMessageBytesMax - sizeof(Header), '\0');
  for (;;) {
    Ancillary ancillary{};
    iovec parts[2] = {{&header, sizeof(header)}, {body.data(), body.size()}};
    msghdr in{};
    in.msg_iov = parts;
    in.msg_iovlen = 2;
    in.msg_control = ancillary.bytes;
    in.msg_controllen = sizeof(ancillary.bytes);
    const ssize_t bytes = recvmsg(socket_.get(), &in, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    if (bytes < 0) {
      // Said once, when the peer ended and left something unread; what it sent before can still be read.
      if (errno == ECONNRESET) continue;
      if (!is_again(errno)) return fail_errno("control channel: receive", errno);
      TRY(wait_for(socket_.get(), POLLIN, end_ns,
                   "no answer in time; see whether caryad runs (carya status), or restart it"));
      continue;
    }
    take_fds(in, message.fds);
    if (bytes == 0) return fail(Code::kClosed, "control channel: the peer is gone");
    if ((in.msg_flags & MSG_CTRUNC) != 0)
      return fail(Code::kExhausted,
                  "control channel: descriptors could not be taken; raise the limit of open files");
    const auto size = static_cast<std::size_t>(bytes);
    if ((in.msg_flags & MSG_TRUNC) != 0 || size < sizeof(Header) || header.magic != kMagic ||
        header.body_bytes != size - sizeof(Header))
      return fail(Code::kCorrupt, fmt::format("control channel: {} bytes that are no message", size));
    if (message.fds.size() > kMessageFdsMax)
      return fail(Code::kCorrupt,
                  fmt::format("control channel: {} descriptors with a message; give at most {}",
                              message.fds.size(), kMessageFdsMax));
    if (header.major != kProtocolMajor)
      return fail(Code::kUnsupported, fmt::format("control channel: the peer speaks protocol {}, this is {}; "
                                                  "install the same version of carya on both sides",
                                                  header.major, kProtocolMajor));
    body.resize(header.body_bytes);
    TRY(remote::check_cbor(std::as_bytes(std::span(body))));
    message.type = static_cast<MessageType>(header.type);
    message.request = header.request;
    message.minor = header.minor;
    message.body = std::move(body);
    return {};
  }
}

}  // namespace carya::loader
