#include "base/unix_socket.h"

#include <poll.h>

#include <fmt/core.h>
#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/clock.h"

namespace carya {

Result<sockaddr_un> unix_address(const std::string& path, const std::string& subject) {
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  if (path.empty() || path.size() >= sizeof(address.sun_path))
    return fail(Code::kInvalidArgument,
                fmt::format("{}: socket path {} is {} bytes long; give 1 to {}", subject, path, path.size(),
                            sizeof(address.sun_path) - 1));
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

void put_fds(msghdr& message, std::span<char> room, std::span<const int> fds) {
  const std::size_t space = CMSG_SPACE(fds.size_bytes());
  CHECK(space <= room.size());
  message.msg_control = room.data();
  message.msg_controllen = space;
  cmsghdr* const rights = CMSG_FIRSTHDR(&message);
  rights->cmsg_level = SOL_SOCKET;
  rights->cmsg_type = SCM_RIGHTS;
  rights->cmsg_len = CMSG_LEN(fds.size_bytes());
  std::memcpy(CMSG_DATA(rights), fds.data(), fds.size_bytes());
}

void take_fds(msghdr& message, std::vector<UniqueFd>& fds) {
  for (cmsghdr* part = CMSG_FIRSTHDR(&message); part != nullptr; part = CMSG_NXTHDR(&message, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(part) + i * sizeof(int), sizeof(int));
      fds.emplace_back(fd);
    }
  }
}

bool is_again(int error) {
  return error == EAGAIN || error == EWOULDBLOCK || error == EINTR;
}

int poll_until(int fd, short events, std::int64_t end_ns) {
  for (;;) {
    const std::int64_t left_ms = std::max<std::int64_t>(0, (end_ns - monotonic_ns() + 999'999) / 1'000'000);
    pollfd watched{fd, events, 0};
    const int ready = poll(&watched, 1, static_cast<int>(std::min<std::int64_t>(left_ms, 1000)));
    if (ready != 0) return ready > 0 ? 1 : -errno;
    if (left_ms == 0) return 0;
  }
}

}  // namespace carya
