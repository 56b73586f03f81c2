#include "remote/byte_stream.h"

#include <poll.h>
#include <sys/socket.h>

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

  bool wants_write() const override { return connecting_; }

 private:
  bool connecting_ = true;
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
