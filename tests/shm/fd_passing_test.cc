#include "shm/fd_passing.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <cstring>
#include <filesystem>
#include <optional>

#include "tests/shm/ring_fixture.h"

namespace carya::shm {
namespace {

struct Sockets {
  explicit Sockets(int type = SOCK_STREAM) {
    int ends[2];
    CHECK(socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, ends) == 0);
    a.reset(ends[0]);
    b.reset(ends[1]);
  }
  UniqueFd a, b;
};

std::size_t open_fds() {
  const std::filesystem::directory_iterator folder("/proc/self/fd");
  return static_cast<std::size_t>(std::distance(begin(folder), end(folder)));
}

TEST(FdPassing, ARingGoesOverStreamAndSeqpacket) {
  for (const int type : {SOCK_STREAM, SOCK_SEQPACKET}) {
    auto ring = make_ring({.slots = 130});
    const auto index = ring->attach_reader();
    Sockets sockets(type);
    ASSERT_TRUE(send_reader_fds(sockets.a.get(), *index, ring->reader_fds(*index), 1000).has_value());
    const auto received = receive_reader_fds(sockets.b.get(), 1000);
    ASSERT_TRUE(received.has_value()) << received.error().message;
    EXPECT_EQ(received->reader, *index);
    EXPECT_EQ(received->slots.size(), 130u);
    auto reader = RingReader::attach(received->fds(), received->reader);
    ASSERT_TRUE(reader.has_value()) << reader.error().message;
    publish_value(*ring, 1, 8);
    EXPECT_TRUE(all_bytes_are((*reader)->layout(), (*reader)->next(0)->data(), 8));
  }
}

TEST(FdPassing, SilenceTimesOutAndHangUpIsClosed) {
  Sockets sockets;
  EXPECT_EQ(receive_reader_fds(sockets.b.get(), 5).error().code, Code::kTimeout);
  sockets.a.reset();
  EXPECT_EQ(receive_reader_fds(sockets.b.get(), 1000).error().code, Code::kClosed);
  auto ring = make_ring();
  const auto index = ring->attach_reader();
  Sockets gone;
  gone.b.reset();
  EXPECT_EQ(send_reader_fds(gone.a.get(), *index, ring->reader_fds(*index), 1000).error().code,
            Code::kClosed);
}

/// Send six words and `count` copies of a descriptor, as a hostile peer may.
void send_raw(int socket, const std::array<std::uint32_t, 6>& words, std::size_t count) {
  alignas(cmsghdr) char control[CMSG_SPACE(200 * sizeof(int))] = {};
  iovec part{const_cast<std::uint32_t*>(words.data()), sizeof(words)};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (count > 0) {
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(count * sizeof(int));
    cmsghdr* rights = CMSG_FIRSTHDR(&message);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(count * sizeof(int));
    const std::vector<int> fds(count, socket);
    std::memcpy(CMSG_DATA(rights), fds.data(), count * sizeof(int));
  }
  ASSERT_EQ(sendmsg(socket, &message, 0), static_cast<ssize_t>(sizeof(words)));
}

TEST(FdPassing, HostileMessagesAreRefusedAndLeakNothing) {
  constexpr std::uint32_t magic = 0x44465243;
  struct Case {
    std::array<std::uint32_t, 6> words;
    std::size_t fds;
    Code code;
  };
  const Case cases[] = {
      {{1, 1, 0, 4, 0, 4}, 4, Code::kCorrupt},              // magic
      {{magic, 2, 0, 4, 0, 4}, 4, Code::kCorrupt},          // version
      {{magic, 1, 99, 4, 0, 4}, 4, Code::kCorrupt},         // reader
      {{magic, 1, 0, 3, 0, 3}, 3, Code::kCorrupt},          // no slots
      {{magic, 1, 0, 100'000, 0, 4}, 4, Code::kCorrupt},    // more than any ring has
      {{magic, 1, 0, 4, 1, 3}, 4, Code::kCorrupt},          // not the first
      {{magic, 1, 0, 4, 0, 0}, 4, Code::kCorrupt},          // none, it says
      {{magic, 1, 0, 4, 0, 5}, 5, Code::kCorrupt},          // more than in all
      {{magic, 1, 0, 4, 0, 4}, 3, Code::kCorrupt},          // fewer than said
      {{magic, 1, 0, 4, 0, 4}, 5, Code::kCorrupt},          // more than said
      {{magic, 1, 0, 4, 0, 4}, 0, Code::kCorrupt},          // none
      {{magic, 1, 0, 200, 0, 200}, 200, Code::kExhausted},  // more than one message carries
  };
  for (const Case& one : cases) {
    const std::size_t before = open_fds();
    {
      Sockets sockets;
      send_raw(sockets.a.get(), one.words, one.fds);
      const auto received = receive_reader_fds(sockets.b.get(), 1000);
      ASSERT_FALSE(received.has_value());
      EXPECT_EQ(received.error().code, one.code) << received.error().message;
    }
    EXPECT_EQ(open_fds(), before);
  }
}

}  // namespace
}  // namespace carya::shm
