#include "remote/protocol/byte_stream.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include "base/unix_socket.h"

namespace carya::remote {
namespace {

class PlainStream final : public ByteStream {
 public:
  using ByteStream::ByteStream;

  Result<bool> establish() override {
    auto connected = is_connected(fd());
    connecting_ = connected && !*connected;
    return connected;
  }

  Result<std::size_t> read(std::span<const iovec> parts) override {
    const ssize_t bytes = readv(fd(), parts.data(), static_cast<int>(parts.size()));
    if (bytes == 0) return fail(Code::kClosed, "the peer has ended the connection");
    if (bytes < 0) return is_again(errno) ? Result<std::size_t>(0) : fail_socket("receive", errno);
    return static_cast<std::size_t>(bytes);
  }

  Result<std::size_t> write(std::span<const iovec> parts) override {
    msghdr out{};
    out.msg_iov = const_cast<iovec*>(parts.data());
    out.msg_iovlen = parts.size();
    const ssize_t bytes = sendmsg(fd(), &out, MSG_NOSIGNAL);
    if (bytes < 0) return is_again(errno) ? Result<std::size_t>(0) : fail_socket("send", errno);
    return static_cast<std::size_t>(bytes);
  }

  void set_wanted(std::size_t bytes) override {
    const int wanted = static_cast<int>(std::clamp<std::size_t>(bytes, 1, kWantedMax));
    if (wanted == wanted_) return;
    if (setsockopt(fd(), SOL_SOCKET, SO_RCVLOWAT, &wanted, sizeof(wanted)) == 0) wanted_ = wanted;
  }

  bool wants_write() const override { return connecting_; }

 private:
  // A core's own cache holds as much beside what else is in it. Measured over veth: 1.0 of iperf3's rate,
  // 0.77 when woken for every segment (bench/remote_veth.py).
  static constexpr std::size_t kWantedMax = 256 << 10;

  bool connecting_ = true;
  int wanted_ = 1;
};

}  // namespace

std::unique_ptr<ByteStream> plain_stream(UniqueFd socket) {
  return std::make_unique<PlainStream>(std::move(socket));
}

std::unexpected<Error> fail_socket(const char* what, int sys_errno) {
  auto failed = fail_errno(what, sys_errno);
  if (sys_errno == ECONNRESET || sys_errno == EPIPE) failed.error().code = Code::kClosed;
  if (sys_errno == ETIMEDOUT) failed.error().code = Code::kTimeout;
  return failed;
}

Result<bool> is_connected(int socket) {
  pollfd watched{socket, POLLOUT, 0};
  if (poll(&watched, 1, 0) <= 0) return false;
  int error = 0;
  socklen_t bytes = sizeof(error);
  if (getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &bytes) != 0) error = errno;
  if (error != 0) return fail_socket("connect", error);
  return true;
}

}  // namespace carya::remote
