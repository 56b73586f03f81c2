#include "loader/program/supervisor.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <fmt/core.h>
#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <cstring>

namespace carya::loader {
namespace {

constexpr int kFirstPassed = 3;  // SD_LISTEN_FDS_START
constexpr int kPassedMax = 64;

std::string take_variable(const char* name) {
  const char* const value = std::getenv(name);
  std::string text = value == nullptr ? "" : value;
  unsetenv(name);
  return text;
}

bool for_this_process(const std::string& pid) {
  return pid == std::to_string(getpid());
}

bool listens(int fd) {
  int accepting = 0, kind = 0;
  socklen_t size = sizeof(int);
  return getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &accepting, &size) == 0 && accepting != 0 &&
         getsockopt(fd, SOL_SOCKET, SO_TYPE, &kind, &size) == 0 && kind == SOCK_SEQPACKET;
}

}  // namespace

Supervisor::Supervisor() : socket_(take_variable("NOTIFY_SOCKET")) {
  const bool ours = for_this_process(take_variable("LISTEN_PID"));
  const std::string count = take_variable("LISTEN_FDS");
  if (ours) passed_count_ = std::clamp(std::atoi(count.c_str()), 0, kPassedMax);
  take_variable("LISTEN_FDNAMES");
  for (int fd = kFirstPassed; fd < kFirstPassed + passed_count_; ++fd) {
    fcntl(fd, F_SETFD, FD_CLOEXEC);
    if (listening_ || !listens(fd)) continue;
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    listening_.reset(fd);
  }
  const std::string watched = take_variable("WATCHDOG_PID");
  const std::string microseconds = take_variable("WATCHDOG_USEC");
  if (!microseconds.empty() && (watched.empty() || for_this_process(watched)))
    if (const long long wanted = std::atoll(microseconds.c_str()); wanted > 0) watchdog_ns_ = wanted * 1000;
}

Result<UniqueFd> Supervisor::take_listening() {
  if (passed_count_ > 0 && !listening_)
    return fail(Code::kInvalidArgument,
                fmt::format("caryad: of the {} sockets passed by the service manager none listens with "
                            "packets; use ListenSequentialPacket= in caryad.socket",
                            passed_count_));
  passed_count_ = 0;
  return std::move(listening_);
}

void Supervisor::notify(const std::string& text) const {
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  if (socket_.empty() || socket_.size() >= sizeof(address.sun_path)) return;
  std::memcpy(address.sun_path, socket_.data(), socket_.size());
  if (address.sun_path[0] == '@') address.sun_path[0] = '\0';  // an abstract name
  const UniqueFd out(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + socket_.size());
  static_cast<void>(sendto(out.get(), text.data(), text.size(), MSG_NOSIGNAL,
                           reinterpret_cast<const sockaddr*>(&address), length));
}

}  // namespace carya::loader
