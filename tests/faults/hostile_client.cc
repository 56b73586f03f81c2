#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <functional>

#include "base/clock.h"
#include "loader/control/channel.h"
#include "loader/control/daemon_stream.h"
#include "loader/control/documents.h"
#include "loader/control/sealed_bytes.h"
#include "shm/fd_passing.h"
#include "shm/ring_format.h"
#include "tests/faults/fault_kinds.h"
#include "tests/faults/trainer.h"

namespace carya::faults {
namespace {

using loader::Channel;
using loader::Message;
using loader::MessageType;

constexpr int kAnswerMs = 120'000;

Result<Channel> greet(const std::string& socket) {
  ASSIGN(Channel channel, Channel::connect(socket));
  TRY(channel.send(
      {.type = MessageType::kHello, .request = 1, .body = loader::encode(loader::Hello{.client = "hostile"})},
      kAnswerMs));
  TRY(channel.receive(kAnswerMs));
  return channel;
}

/// Whether the daemon says no or closes.
bool is_refused(Channel& channel) {
  const Result<Message> answer = channel.receive(kAnswerMs);
  if (!answer) return answer.error().code == Code::kClosed;
  return answer->type == MessageType::kNotice || answer->type == MessageType::kError;
}

/// A valid packet, to be spoilt.
std::string packet(std::uint16_t type, const std::string& body) {
  std::string bytes("CARY\x01\x00", 6);
  bytes.append(reinterpret_cast<const char*>(&type), 2);
  const std::uint32_t words[2] = {7, static_cast<std::uint32_t>(body.size())};
  bytes.append(reinterpret_cast<const char*>(words), 8);
  return bytes + body;
}

Result<UniqueFd> memory_file(bool sealed, const std::string& text) {
  if (sealed) return loader::SealedBytes::copy("hostile", std::as_bytes(std::span(text)));
  UniqueFd file(memfd_create("hostile", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file || write(file.get(), text.data(), text.size()) < 0) return fail_errno("memfd", errno);
  return file;
}

}  // namespace

namespace hostile {

Result<std::uint64_t> send_garbage(const std::string& socket, Random& random) {
  std::uint64_t refused = 0;
  for (int i = 0; i < 40; ++i) {
    ASSIGN(Channel channel, random() % 2 == 0 ? greet(socket) : Channel::connect(socket));
    std::string bytes(1 + random() % 3000, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random());
    if (::send(channel.fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL) < 0) return fail_errno("send", errno);
    if (!is_refused(channel)) return fail(Code::kCorrupt, "garbage was not refused");
    ++refused;
  }
  return refused;
}

Result<std::uint64_t> send_half_messages(const std::string& socket, Random& random) {
  std::uint64_t refused = 0;
  loader::AttachRequest attach;
  attach.job = "hostile";
  const std::string whole = packet(3, loader::encode(attach));
  for (int i = 0; i < 40; ++i) {
    ASSIGN(Channel channel, greet(socket));
    std::string bytes = whole;
    if (i % 2 == 0)
      bytes.resize(1 + random() % (whole.size() - 1));
    else
      for (int flips = 0; flips < 3; ++flips) bytes[random() % bytes.size()] = static_cast<char>(random());
    if (::send(channel.fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL) < 0) return fail_errno("send", errno);
    if (is_refused(channel)) ++refused;
  }
  if (refused < 20) return fail(Code::kCorrupt, "half messages were not refused");
  return refused;
}

Result<std::uint64_t> flood_connections(const std::string& socket, Random& random) {
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  std::memcpy(address.sun_path, socket.data(), socket.size());
  std::vector<UniqueFd> open;
  const std::size_t count = 300 + random() % 600;
  const std::int64_t end_ns = monotonic_ns() + 3'000'000'000;
  while (open.size() < count && monotonic_ns() < end_ns) {
    UniqueFd one(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!one) break;
    if (connect(one.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0)
      open.push_back(std::move(one));
    else
      usleep(500);
  }
  if (open.size() < 128) return fail(Code::kTimeout, "the flood did not come");
  usleep(static_cast<useconds_t>(random() % 50'000));
  return open.size();
}

Result<std::uint64_t> send_wrong_descriptors(const std::string& socket, Random& random) {
  std::uint64_t refused = 0;
  for (int i = 0; i < 24; ++i) {
    ASSIGN(Channel channel, greet(socket));
    loader::AttachRequest attach;
    attach.job = "hostile";
    Message message{.type = MessageType::kAttach, .request = 2, .body = {}};
    const std::size_t count = i % 6 == 5 ? loader::kMessageFdsMax : 1 + random() % 2;
    if (count == 2) attach.arrays.push_back({"x", 1, 1'000'000});
    for (std::size_t at = 0; at < count; ++at) {
      UniqueFd fd;
      const std::uint64_t kind = random() % 6;
      if (kind < 4) {
        const std::array paths{"/dev/null", "/dev/zero", "/proc/self/exe", "/"};
        fd.reset(open(paths[kind], O_RDONLY | O_CLOEXEC));
      } else {
        ASSIGN(fd, memory_file(kind == 4, "no pipeline"));
      }
      message.fds.push_back(std::move(fd));
    }
    message.body = loader::encode(attach);
    TRY(channel.send(message, kAnswerMs));
    if (!is_refused(channel)) return fail(Code::kCorrupt, "wrong descriptors were not refused");
    ++refused;
  }
  return refused;
}

}  // namespace hostile

int run_scribbler(const std::vector<std::string>& words) {
  if (words.size() != 3) return 2;
  Random random(std::stoull(words[2]));
  auto channel = greet(words[0]);
  if (!channel) return 3;
  loader::AttachRequest request;
  request.job = "scribble";
  request.options = rank_options(0);
  const std::string text = pipeline_text(words[1]);
  auto document = loader::SealedBytes::copy("pipeline", std::as_bytes(std::span(text)));
  if (!document) return 3;
  Message attach{.type = MessageType::kAttach, .request = 2, .body = loader::encode(request)};
  attach.fds.push_back(std::move(*document));
  if (!channel->send(attach, kAnswerMs)) return 4;
  Result<Message> answer = channel->receive(kAnswerMs);
  while (answer && answer->type == MessageType::kProgress) answer = channel->receive(kAnswerMs);
  if (!answer || answer->type != MessageType::kAttached) return 5;
  const auto received = shm::receive_reader_fds(channel->fd(), kAnswerMs);
  if (!received) return 6;
  auto reader = shm::RingReader::attach(received->fds(), received->reader);
  if (!reader) return 7;
  std::vector<shm::Lease> held;
  for (int i = 0; i < 2; ++i) {
    auto lease = (*reader)->next(kAnswerMs);
    if (!lease) return 8;
    if (std::byte* bytes = lease->writable_data(); bytes != nullptr)
      for (int at = 0; at < 4096; ++at) bytes[at] = static_cast<std::byte>(random());
    held.push_back(std::move(*lease));
  }
  void* page =
      mmap(nullptr, shm::format::kPageBytes, PROT_READ | PROT_WRITE, MAP_SHARED, received->page.get(), 0);
  if (page == MAP_FAILED) return 9;
  const std::int64_t end_ns = monotonic_ns() + kAnswerMs * 1'000'000LL;
  while (monotonic_ns() < end_ns) {
    for (int i = 0; i < 64; ++i)
      static_cast<volatile std::uint64_t*>(page)[random() % (shm::format::kPageBytes / 8)] = random();
    const std::uint64_t rings = random() % 1000 + 1;
    static_cast<void>(!write(received->bell.get(), &rings, sizeof rings));
    answer = channel->receive(1);
    if (!answer && answer.error().code == Code::kTimeout) continue;
    return answer && answer->type == MessageType::kNotice ? 0 : 10;
  }
  return 11;
}

}  // namespace carya::faults
