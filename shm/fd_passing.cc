#include "shm/fd_passing.h"

#include <poll.h>
#include <sys/socket.h>

#include <fmt/core.h>
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <string>

#include "base/clock.h"
#include "base/unix_socket.h"

namespace carya::shm {
namespace {

constexpr std::uint32_t kMagic = 0x4446'5243;  // "CRFD", first byte lowest
constexpr std::uint32_t kFixedFds = 3;         // control, page, bell
constexpr std::uint32_t kFdsPerMessage = 128;  // Source: SCM_MAX_FD is 253, unix(7)
constexpr std::uint32_t kFdsMax = kFixedFds + kSlotsMax;

/// One message: this header, with `count` descriptors in its ancillary data.
struct Header {
  std::uint32_t magic;
  std::uint32_t version;
  std::uint32_t reader;
  std::uint32_t total;  // descriptors of all messages
  std::uint32_t first;  // index of this message's first
  std::uint32_t count;  // in this message
};
static_assert(sizeof(Header) == 24);

union Ancillary {
  cmsghdr align;
  char bytes[CMSG_SPACE(kFdsPerMessage * sizeof(int))];
};

/// Wait until the socket is ready for `events` or `end_ns` has come. Signals do not end the wait.
Status wait_for(int socket, short events, std::int64_t end_ns) {
  for (;;) {
    const int ready = poll_until(socket, events, end_ns);
    if (ready > 0) return {};
    if (ready == 0) return fail(Code::kTimeout, "pass descriptors: the peer does not answer");
    if (ready != -EINTR) return fail_errno("pass descriptors: poll", -ready);
  }
}

Status send_message(int socket, const Header& header, const int* fds, std::int64_t end_ns) {
  Ancillary ancillary{};
  std::size_t sent = 0;
  while (sent < sizeof(header)) {
    iovec part{const_cast<char*>(reinterpret_cast<const char*>(&header)) + sent, sizeof(header) - sent};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    // The kernel attaches the descriptors to the first byte.
    if (sent == 0) put_fds(message, ancillary.bytes, {fds, header.count});
    const ssize_t bytes = sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (bytes > 0) {
      sent += static_cast<std::size_t>(bytes);
    } else if (bytes < 0 && is_again(errno)) {
      TRY(wait_for(socket, POLLOUT, end_ns));
    } else if (bytes < 0 && (errno == EPIPE || errno == ECONNRESET)) {
      return fail(Code::kClosed, "pass descriptors: the peer is gone", errno);
    } else {
      const int error = bytes < 0 ? errno : EIO;
      if (error == ETOOMANYREFS)
        return fail(Code::kExhausted, "pass descriptors: too many on their way", error);
      return fail_errno("pass descriptors", error);
    }
  }
  return {};
}

/// Read one header, and append the descriptors that came with it to `fds`.
Result<Header> receive_message(int socket, std::vector<UniqueFd>& fds, std::int64_t end_ns) {
  Header header{};
  std::size_t got = 0;
  while (got < sizeof(header)) {
    Ancillary ancillary{};
    iovec part{reinterpret_cast<char*>(&header) + got, sizeof(header) - got};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = ancillary.bytes;
    message.msg_controllen = sizeof(ancillary.bytes);
    const ssize_t bytes = recvmsg(socket, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    if (bytes < 0) {
      if (!is_again(errno)) return fail_errno("receive descriptors", errno);
      TRY(wait_for(socket, POLLIN, end_ns));
      continue;
    }
    take_fds(message, fds);
    if (bytes == 0) return fail(Code::kClosed, "receive descriptors: the peer is gone");
    if ((message.msg_flags & MSG_CTRUNC) != 0) {  // more than fit, or this process may have no more
      return fail(Code::kExhausted,
                  "receive descriptors: not all could be taken; raise the limit of open files");
    }
    got += static_cast<std::size_t>(bytes);
    if (fds.size() > kFdsMax) return fail(Code::kCorrupt, "receive descriptors: too many");
  }
  return header;
}

}  // namespace

SlotRing::ReaderFds ReceivedReader::fds() const {
  SlotRing::ReaderFds view{control.get(), page.get(), bell.get(), {}};
  for (const UniqueFd& slot : slots) view.slots.push_back(slot.get());
  return view;
}

Status send_reader_fds(int socket, std::uint32_t reader, const SlotRing::ReaderFds& fds, int timeout_ms) {
  const std::int64_t end_ns = monotonic_ns() + timeout_ms * 1'000'000LL;
  std::vector<int> all{fds.control, fds.page, fds.bell};
  all.insert(all.end(), fds.slots.begin(), fds.slots.end());
  const auto total = static_cast<std::uint32_t>(all.size());
  for (std::uint32_t first = 0; first < total; first += kFdsPerMessage) {
    const std::uint32_t count = std::min(kFdsPerMessage, total - first);
    TRY(send_message(socket, Header{kMagic, 1, reader, total, first, count}, all.data() + first, end_ns));
  }
  return {};
}

Result<ReceivedReader> receive_reader_fds(int socket, int timeout_ms) {
  const std::int64_t end_ns = monotonic_ns() + timeout_ms * 1'000'000LL;
  std::vector<UniqueFd> all;
  std::uint32_t total = kFixedFds + 1;
  std::uint32_t reader = 0;
  for (std::uint32_t first = 0; first < total;) {
    ASSIGN(const Header header, receive_message(socket, all, end_ns));
    if (first == 0) {
      total = header.total;
      reader = header.reader;
    }
    const bool sane = header.magic == kMagic && header.version == 1 && header.total == total &&
                      header.reader == reader && reader < kReadersMax && total > kFixedFds &&
                      total <= kFdsMax && header.first == first && header.count >= 1 &&
                      header.count <= total - first;
    if (!sane || all.size() != first + header.count) {
      return fail(Code::kCorrupt,
                  fmt::format("receive descriptors: {} came, the message does not say so", all.size()));
    }
    first += header.count;
  }
  ReceivedReader received;
  received.reader = reader;
  received.control = std::move(all[0]);
  received.page = std::move(all[1]);
  received.bell = std::move(all[2]);
  std::move(all.begin() + kFixedFds, all.end(), std::back_inserter(received.slots));
  return received;
}

}  // namespace carya::shm
