#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace carya::loader {

/// A client that speaks the control protocol by hand, from loader/PROTOCOL.md alone: it can say what the
/// library's own never would.
class HandClient {
 public:
  using Json = nlohmann::json;
  enum Type : std::uint16_t {
    kHello = 1,
    kWelcome = 2,
    kAttach = 3,
    kAttached = 4,
    kSeek = 5,
    kPolicy = 7,
    kStatus = 13,
    kStatusIs = 14,
    kStopJob = 16,
    kLogs = 17,
    kLogsAre = 18,
    kDone = 19,
    kError = 20,
    kNotice = 21,
    kProgress = 22,
  };
  struct Answer {
    std::uint16_t type = 0;
    std::uint32_t request = 0;
    Json body;
  };

  /// Connects, and says hello unless it is to be silent.
  explicit HandClient(const std::string& path, bool hello = true) {
    fd_ = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
    std::strncpy(address.sun_path, path.c_str(), sizeof(address.sun_path) - 1);
    EXPECT_EQ(connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0) << errno;
    if (!hello) return;
    const auto welcome = ask(kHello, {{"client", "by hand"}});
    greeted_ = welcome && welcome->type == kWelcome;
  }
  ~HandClient() { close(fd_); }
  HandClient(const HandClient&) = delete;
  HandClient& operator=(const HandClient&) = delete;

  bool greeted() const { return greeted_; }
  int fd() const { return fd_; }

  bool send(std::uint16_t type, const Json& body, const std::vector<int>& fds = {}) {
    return send_bytes(type, Json::to_cbor(body), fds);
  }
  bool send_bytes(std::uint16_t type, const std::vector<std::uint8_t>& body, const std::vector<int>& fds) {
    std::vector<std::uint8_t> packet{'C', 'A', 'R', 'Y', 1, 1};
    const auto put = [&packet](std::uint32_t number, int bytes) {
      for (int i = 0; i < bytes; ++i) packet.push_back(static_cast<std::uint8_t>(number >> (8 * i)));
    };
    put(type, 2);
    put(++request_, 4);
    put(static_cast<std::uint32_t>(body.size()), 4);
    packet.insert(packet.end(), body.begin(), body.end());
    iovec part{packet.data(), packet.size()};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    alignas(cmsghdr) char room[CMSG_SPACE(253 * sizeof(int))] = {};
    if (!fds.empty()) {
      message.msg_control = room;
      message.msg_controllen = CMSG_SPACE(fds.size() * sizeof(int));
      cmsghdr* const rights = CMSG_FIRSTHDR(&message);
      rights->cmsg_level = SOL_SOCKET;
      rights->cmsg_type = SCM_RIGHTS;
      rights->cmsg_len = CMSG_LEN(fds.size() * sizeof(int));
      std::memcpy(CMSG_DATA(rights), fds.data(), fds.size() * sizeof(int));
    }
    return sendmsg(fd_, &message, MSG_NOSIGNAL) >= 0;
  }
  /// The next message; none when the daemon has closed or says nothing for so long.
  std::optional<Answer> receive(int timeout_ms = 60'000) {
    pollfd ready{.fd = fd_, .events = POLLIN, .revents = 0};
    if (poll(&ready, 1, timeout_ms) != 1) return std::nullopt;
    std::vector<std::uint8_t> packet(1 << 17);
    const ssize_t bytes = recv(fd_, packet.data(), packet.size(), 0);
    if (bytes < 16) return std::nullopt;
    Answer answer;
    answer.type = static_cast<std::uint16_t>(packet[6] | packet[7] << 8);
    std::memcpy(&answer.request, packet.data() + 8, 4);
    answer.body = Json::from_cbor(packet.begin() + 16, packet.begin() + bytes, true, false);
    return answer;
  }
  /// What is answered to a question, whatever else is told meanwhile.
  std::optional<Answer> ask(std::uint16_t type, const Json& body, const std::vector<int>& fds = {}) {
    if (!send(type, body, fds)) return std::nullopt;
    while (auto answer = receive())
      if (answer->type != kProgress && (answer->request == request_ || answer->type == kNotice))
        return answer;
    return std::nullopt;
  }
  /// Attach with this pipeline; `change` alters the message's body.
  template <typename Change>
  std::optional<Answer> attach(const std::string& pipeline, Change change) {
    Json body{{"job", "by hand"}, {"options", {{"threads", 1}}}};
    change(body);
    const int document = sealed(pipeline);
    auto answer = ask(kAttach, body, {document});
    close(document);
    return answer;
  }

  /// The messages with the slots' descriptors, which follow kAttached (shm/FORMAT.md); the kernel drops them.
  void skip_descriptors() {
    std::uint32_t header[6] = {};
    do {
      pollfd ready{.fd = fd_, .events = POLLIN, .revents = 0};
      if (poll(&ready, 1, 60'000) != 1 || recv(fd_, header, sizeof(header), 0) != sizeof(header)) return;
    } while (header[4] + header[5] < header[3]);  // first, count and total
  }

  static constexpr unsigned kSeals = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;
  static int sealed(const std::string& bytes) {
    const int fd = memfd_create("by-hand", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    EXPECT_EQ(write(fd, bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
    EXPECT_EQ(fcntl(fd, F_ADD_SEALS, kSeals), 0);
    return fd;
  }

 private:
  int fd_ = -1;
  std::uint32_t request_ = 0;
  bool greeted_ = false;
};

}  // namespace carya::loader
