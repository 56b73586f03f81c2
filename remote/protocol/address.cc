#include "remote/protocol/address.h"

#include <arpa/inet.h>
#include <linux/tcp.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>
#include <utility>

#include "base/unix_socket.h"

namespace carya::remote {
namespace {

constexpr std::string_view kUnixPrefix = "unix:";
constexpr int kBacklog = 128;
constexpr std::size_t kTargetsMax = 16;

bool is_loopback(const sockaddr_storage& address) {
  if (address.ss_family == AF_INET)
    return ntohl(reinterpret_cast<const sockaddr_in&>(address).sin_addr.s_addr) >> 24 == 127;
  if (address.ss_family == AF_INET6)
    return IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6&>(address).sin6_addr);
  return address.ss_family == AF_UNIX;
}

/// A socket in the file system that a dead server left behind; a connection to any other file is refused likewise.
bool is_left_behind(const Address& address) {
  auto socket = address.connect(0);
  if (!socket) return socket.error().sys_errno == ECONNREFUSED;
  return false;
}

std::unexpected<Error> no_address(std::string_view text) {
  return fail(Code::kInvalidArgument,
              "worker address: got \"" + std::string(text) + "\"; give host:port, [::1]:port or unix:/path");
}

}  // namespace

Result<Address> Address::parse(std::string_view text) {
  Address out;
  out.text_ = text;
  if (text.starts_with(kUnixPrefix)) {
    ASSIGN(const sockaddr_un unix, unix_address(std::string(text.substr(kUnixPrefix.size())), "worker"));
    Target target{.bytes = sizeof(unix)};
    std::memcpy(&target.address, &unix, sizeof(unix));
    out.targets_.push_back(target);
    return out;
  }
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos || colon == 0) return no_address(text);
  std::string_view host = text.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  const std::string port(text.substr(colon + 1));
  std::uint16_t number = 0;
  const auto parsed = std::from_chars(port.data(), port.data() + port.size(), number);
  if (host.empty() || port.empty() || parsed.ec != std::errc{} || parsed.ptr != port.data() + port.size())
    return no_address(text);
  out.host_ = host;
  out.port_ = port;
  return out;
}

Result<Address> Address::resolve(std::string_view text) {
  ASSIGN(Address out, parse(text));
  if (Status found = out.look_up(); !found) {
    found.error().message = "worker address " + out.text_ + ": " + found.error().message;
    return std::unexpected(std::move(found.error()));
  }
  return out;
}

Status Address::look_up() {
  if (is_unix()) return {};
  addrinfo wanted{};
  wanted.ai_family = AF_UNSPEC;
  wanted.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int refused = getaddrinfo(host_.c_str(), port_.c_str(), &wanted, &found);
  if (refused != 0)
    return fail(Code::kInvalidArgument, std::string(gai_strerror(refused)) +
                                            "; give a name that this host can look up, or an IP address");
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> freed(found, freeaddrinfo);
  targets_.clear();
  for (; found != nullptr && targets_.size() < kTargetsMax; found = found->ai_next) {
    Target target{.bytes = found->ai_addrlen};
    std::memcpy(&target.address, found->ai_addr, found->ai_addrlen);
    targets_.push_back(target);
  }
  if (targets_.empty())
    return fail(Code::kInvalidArgument, "its name has no address; give another name, or an IP address");
  return {};
}

bool Address::is_name() const {
  in6_addr number{};
  return !is_unix() && inet_pton(AF_INET, host_.c_str(), &number) != 1 &&
         inet_pton(AF_INET6, host_.c_str(), &number) != 1;
}

bool Address::is_local() const {
  return std::all_of(targets_.begin(), targets_.end(),
                     [](const Target& target) { return is_loopback(target.address); });
}

Result<UniqueFd> Address::listen() const {
  const Target& target = targets_.front();
  const int family = target.address.ss_family;
  UniqueFd socket(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return fail_errno("listen at " + text_, errno);
  const int one = 1;
  if (!is_unix()) setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
  const auto* address = reinterpret_cast<const sockaddr*>(&target.address);
  int refused = bind(socket.get(), address, target.bytes) == 0 ? 0 : errno;
  if (refused == EADDRINUSE && is_unix()) {
    const char* path = text_.c_str() + kUnixPrefix.size();
    struct stat info{};
    if (lstat(path, &info) == 0 && !S_ISSOCK(info.st_mode))
      return fail(Code::kInvalidArgument,
                  "listen at " + text_ + ": it exists and is no socket; remove it, or give another path");
    if (!is_left_behind(*this)) return fail_errno("listen at " + text_, refused);
    unlink(path);
    refused = bind(socket.get(), address, target.bytes) == 0 ? 0 : errno;
  }
  if (refused != 0) return fail_errno("listen at " + text_, refused);
  if (::listen(socket.get(), kBacklog) != 0) return fail_errno("listen at " + text_, errno);
  return socket;
}

Result<UniqueFd> Address::connect(std::uint64_t attempt) const {
  const Target& target = targets_[attempt % targets_.size()];
  UniqueFd socket(::socket(target.address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return fail_errno("connect to " + text_, errno);
  send_at_once(socket.get());
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&target.address), target.bytes) != 0 &&
      errno != EINPROGRESS)
    return fail_errno("connect to " + text_, errno);
  return socket;
}

SocketFile::SocketFile(const Address& listened_at) {
  if (!listened_at.is_unix()) return;
  std::string path = listened_at.text().substr(kUnixPrefix.size());
  struct stat info{};
  if (lstat(path.c_str(), &info) != 0) return;
  path_ = std::move(path);
  device_ = info.st_dev;
  number_ = info.st_ino;
}

void SocketFile::remove() {
  const std::string path = std::exchange(path_, "");
  struct stat info{};
  if (path.empty() || lstat(path.c_str(), &info) != 0) return;
  if (S_ISSOCK(info.st_mode) && info.st_dev == device_ && info.st_ino == number_) unlink(path.c_str());
}

void send_at_once(int socket) {
  const int one = 1;
  setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
}

void limit_unsent(int socket, int bytes) {
  setsockopt(socket, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &bytes, sizeof(bytes));
}

std::uint16_t listening_port(int socket) {
  sockaddr_storage address{};
  socklen_t bytes = sizeof(address);
  if (getsockname(socket, reinterpret_cast<sockaddr*>(&address), &bytes) != 0) return 0;
  if (address.ss_family == AF_INET) return ntohs(reinterpret_cast<sockaddr_in&>(address).sin_port);
  if (address.ss_family == AF_INET6) return ntohs(reinterpret_cast<sockaddr_in6&>(address).sin6_port);
  return 0;
}

std::string peer_text(int socket) {
  sockaddr_storage address{};
  socklen_t bytes = sizeof(address);
  if (getpeername(socket, reinterpret_cast<sockaddr*>(&address), &bytes) != 0) return "nobody";
  if (address.ss_family == AF_UNIX) return "unix";
  char host[NI_MAXHOST], port[NI_MAXSERV];
  if (getnameinfo(reinterpret_cast<sockaddr*>(&address), bytes, host, sizeof(host), port, sizeof(port),
                  NI_NUMERICHOST | NI_NUMERICSERV) != 0)
    return "nobody";
  return std::string(host) + ":" + port;
}

}  // namespace carya::remote
