#include "remote/protocol/connection.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <atomic>
#include <random>
#include <thread>

#include "tests/remote/wire.h"

namespace carya::remote {
namespace {

constexpr FrameLimits kLimits{.body_bytes = 4096, .payload_bytes = 64 << 20};

/// A connection, and the raw other end of its socket.
struct Wire {
  Wire() : Wire(socket_pair()) {}
  explicit Wire(std::pair<UniqueFd, UniqueFd> ends)
      : raw(std::move(ends.second)), connection(plain_stream(std::move(ends.first)), sink) {
    connection.set_limits(kLimits);
  }

  /// All bytes, while the connection reads.
  void say(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = send(raw.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent > 0) bytes.remove_prefix(static_cast<std::size_t>(sent));
      if (sent < 0) {
        ASSERT_EQ(errno, EAGAIN);
      }
      status = connection.on_ready();
      if (!status) return;
    }
    status = connection.on_ready();
  }

  Collector sink;
  UniqueFd raw;
  Connection connection;
  Status status;
};

TEST(Connection, FramesArriveInWhateverPieces) {
  const std::string payload = pattern(5000, 1);
  const std::string bytes = frame_bytes(Ping{}, 1) + frame_bytes(Request{1, "x", 7}, 2, payload) +
                            frame_bytes(Credit{{3, 4}}) + frame_bytes(ChunkResult{"y"}, 3, payload);
  std::mt19937_64 random(5);
  for (const std::size_t piece_max : {1, 7, 100, 3000, 100'000}) {
    Wire wire;
    for (std::size_t at = 0; at < bytes.size();) {
      const std::size_t piece = std::min<std::size_t>(1 + random() % piece_max, bytes.size() - at);
      wire.say(bytes.substr(at, piece));
      ASSERT_TRUE(wire.status) << wire.status.error().message;
      at += piece;
    }
    ASSERT_EQ(wire.sink.frames.size(), 4u) << piece_max;
    EXPECT_EQ(wire.sink.frames[0].header.type, FrameType::kPing);
    EXPECT_EQ(wire.sink.frames[1].payload, payload);
    EXPECT_EQ(wire.sink.frames[1].header.request, 2u);
    EXPECT_TRUE(wire.sink.frames[1].placed);
    EXPECT_EQ(decode<Credit>(wire.sink.frames[2].body)->window, (Window{3, 4}));
    EXPECT_EQ(wire.sink.frames[3].payload, payload);
  }
}

TEST(Connection, APayloadGoesStraightIntoItsParts) {
  const std::string payload = pattern(3'000'000, 2);
  std::string memory(payload.size() + 2, '.');
  const auto all = std::as_writable_bytes(std::span(memory));
  Wire wire;
  wire.sink.parts = {all.subspan(1, 1'000'000), all.subspan(1'000'001, 10),
                     all.subspan(1'000'011, 1'999'990)};
  wire.say(frame_bytes(ChunkResult{}, 9, payload) + frame_bytes(Ping{}, 1));
  ASSERT_TRUE(wire.status) << wire.status.error().message;
  ASSERT_EQ(wire.sink.frames.size(), 2u);
  EXPECT_TRUE(memory == "." + payload + ".");
  EXPECT_LE(wire.connection.copied_bytes(), Connection::kInputBytes);
}

TEST(Connection, WhatIsSentArrivesAndItsOwnerIsLetGo) {
  Wire wire;
  Collector far_sink;
  Connection far(plain_stream(std::move(wire.raw)), far_sink);
  far.set_limits(kLimits);
  const std::string payload = pattern(2'500'000, 3);
  auto owned = std::make_shared<const std::string>(payload);
  const std::weak_ptr<const std::string> watched = owned;
  const auto bytes = std::as_bytes(std::span(*owned));
  wire.connection.send(Ping{}, 4);
  wire.connection.send(ChunkResult{"a"}, 5, {{bytes.first(1'000'000), bytes.subspan(1'000'000)}, owned});
  owned.reset();
  while (far_sink.frames.size() < 2) {
    ASSERT_TRUE(wire.connection.on_ready());
    ASSERT_TRUE(far.on_ready());
  }
  EXPECT_TRUE(far_sink.frames[1].payload == payload);
  EXPECT_TRUE(watched.expired());
  EXPECT_FALSE(wire.connection.wants_write());
  EXPECT_EQ(wire.connection.sent_bytes(), far.received_bytes());
}

// What a connection without TLS sends, as bytes.
std::string sent_bytes(const ChunkResult& message, std::uint64_t request, const std::string& payload) {
  Wire wire;
  wire.connection.send(message, request, payload_of(payload));
  std::string bytes;
  char buffer[4096];
  while (wire.connection.wants_write() || bytes.size() < wire.connection.sent_bytes()) {
    EXPECT_TRUE(wire.connection.on_ready());
    const ssize_t got = recv(wire.raw.get(), buffer, sizeof buffer, 0);
    if (got > 0) bytes.append(buffer, static_cast<std::size_t>(got));
  }
  return bytes;
}

TEST(Connection, BytesThatChangeOnTheWayEndIt) {
  const std::string payload = pattern(5'000, 8);
  const std::string bytes = sent_bytes(ChunkResult{"about"}, 7, payload);
  constexpr std::size_t kFlags = 8;
  {
    Wire whole;
    whole.say(bytes);
    ASSERT_TRUE(whole.status) << whole.status.error().message;
    ASSERT_EQ(whole.sink.frames.size(), 1u);
    EXPECT_TRUE(whole.sink.frames[0].payload == payload);
  }
  for (std::size_t at = 0; at < bytes.size(); at += at < 100 ? 1 : 97) {
    if (at == kFlags) continue;  // it says that there is a hash
    std::string changed = bytes;
    changed[at] = static_cast<char>(changed[at] ^ 0x10);
    Wire wire;
    wire.say(changed);
    EXPECT_TRUE(wire.sink.frames.empty()) << "byte " << at;
  }
}

TEST(Connection, AWithdrawnPayloadIsThrownAwayWhileTheMemoryIsReused) {
  Wire wire;
  std::string memory(100'000, '.');
  wire.sink.parts = {std::as_writable_bytes(std::span(memory))};
  const std::string late = frame_bytes(ChunkResult{}, 7, pattern(memory.size(), 4));
  wire.say(late.substr(0, 40'000));
  EXPECT_FALSE(wire.connection.withdraw(8)) << "another request";
  EXPECT_TRUE(wire.connection.withdraw(7));
  EXPECT_FALSE(wire.connection.withdraw(7)) << "it was withdrawn already";
  for (int reuse = 0; reuse < 3; ++reuse) {
    memory.assign(memory.size(), static_cast<char>('a' + reuse));
    wire.say(late.substr(40'000 + static_cast<std::size_t>(reuse) * 20'000, 20'000));
    EXPECT_EQ(memory, std::string(memory.size(), static_cast<char>('a' + reuse)));
  }
  wire.say(late.substr(100'000));
  ASSERT_EQ(wire.sink.frames.size(), 1u);
  EXPECT_FALSE(wire.sink.frames[0].placed);
  EXPECT_EQ(memory, std::string(memory.size(), 'c'));
  // The connection goes on, and the memory takes the next one.
  wire.say(frame_bytes(ChunkResult{}, 9, pattern(memory.size(), 5)));
  ASSERT_EQ(wire.sink.frames.size(), 2u);
  EXPECT_TRUE(wire.sink.frames[1].placed);
  EXPECT_TRUE(memory == pattern(memory.size(), 5));
}

TEST(Connection, OneWriterAlsoWhenAnotherThreadWithdraws) {
  constexpr std::size_t kBytes = 400'000;
  for (std::uint64_t round = 0; round < 50; ++round) {
    Wire wire;
    std::string memory(kBytes, '.');
    wire.sink.parts = {std::as_writable_bytes(std::span(memory))};
    const std::string bytes = frame_bytes(ChunkResult{}, 7, pattern(kBytes, round));
    // The other thread waits for some of it to have come, withdraws, and is the only writer from then on.
    std::thread other([&] {
      while (wire.connection.received_bytes() < round * 8000) std::this_thread::yield();
      while (!wire.connection.withdraw(7)) std::this_thread::yield();
      for (int reuse = 0; reuse < 3; ++reuse) {
        memory.assign(kBytes, static_cast<char>('a' + reuse));
        std::this_thread::yield();
        if (memory != std::string(kBytes, static_cast<char>('a' + reuse))) memory = "torn";
      }
    });
    // The last byte stays out until the other thread is through: its withdraw() always finds the payload.
    wire.say(std::string_view(bytes).substr(0, bytes.size() - 1));
    other.join();
    wire.say(std::string_view(bytes).substr(bytes.size() - 1));
    ASSERT_EQ(wire.sink.frames.size(), 1u);
    EXPECT_FALSE(wire.sink.frames[0].placed);
    EXPECT_TRUE(memory == std::string(kBytes, 'c')) << round;
  }
}

TEST(Connection, NothingIsWrittenAfterClose) {
  Wire wire;
  std::string memory(1000, '.');
  wire.sink.parts = {std::as_writable_bytes(std::span(memory))};
  const std::string bytes = frame_bytes(ChunkResult{}, 7, std::string(1000, 'x'));
  wire.say(bytes.substr(0, bytes.size() - 500));
  wire.connection.close();
  memory.assign(1000, '-');
  ASSERT_GT(send(wire.raw.get(), bytes.data() + bytes.size() - 500, 500, MSG_NOSIGNAL), 0);
  EXPECT_EQ(wire.connection.on_ready().error().code, Code::kClosed);
  EXPECT_EQ(memory, std::string(1000, '-'));
}

TEST(Connection, APayloadCanWaitForItsPlace) {
  Wire wire;
  wire.sink.later = true;
  const std::string payload = pattern(5000, 6);
  wire.say(frame_bytes(Request{}, 1, payload) + frame_bytes(Ping{}, 2));
  EXPECT_TRUE(wire.connection.is_paused());
  EXPECT_FALSE(wire.connection.wants_read());
  EXPECT_TRUE(wire.sink.frames.empty());
  ASSERT_TRUE(wire.connection.resume());
  EXPECT_TRUE(wire.connection.is_paused()) << "still no room";
  wire.sink.later = false;
  ASSERT_TRUE(wire.connection.resume());
  ASSERT_TRUE(wire.connection.on_ready());
  ASSERT_EQ(wire.sink.frames.size(), 2u);
  EXPECT_TRUE(wire.sink.frames[0].payload == payload);
  wire.sink.later = true;
  wire.say(frame_bytes(Request{}, 3, "x"));
  wire.raw.reset();
  EXPECT_EQ(wire.connection.on_ready().error().code, Code::kClosed) << "seen though nothing is read";
}

TEST(Connection, ADiscardedPayloadCostsNoMemoryOfItsSize) {
  Wire wire;
  wire.sink.discard = true;
  wire.say(frame_bytes(ChunkResult{}, 1, pattern(1'000'000, 7)) + frame_bytes(Ping{}, 2));
  ASSERT_EQ(wire.sink.frames.size(), 2u);
  EXPECT_FALSE(wire.sink.frames[0].placed);
}

TEST(Connection, WhatIsNoFrameEndsIt) {
  const std::string good = frame_bytes(Request{1, "x", 7}, 2, "abc");
  std::string magic = good, body = good, payload = good;
  magic[0] = 'X';
  body[kHeaderBytes] = '\xff';
  payload[31] = '\x7f';
  for (const std::string& bad : {magic, body, payload}) {
    Wire wire;
    wire.say(bad);
    ASSERT_FALSE(wire.status);
    EXPECT_EQ(wire.status.error().code, Code::kCorrupt) << wire.status.error().message;
    EXPECT_TRUE(wire.sink.frames.empty());
  }
}

TEST(Connection, AnEndInTheMiddleIsSaid) {
  for (const std::size_t cut : {0, 10, 35, 45}) {
    Wire wire;
    wire.say(frame_bytes(ChunkResult{}, 2, pattern(100, 8)).substr(0, cut));
    wire.raw.reset();
    EXPECT_EQ(wire.connection.on_ready().error().code, Code::kClosed);
    EXPECT_TRUE(wire.sink.frames.empty());
  }
}

TEST(Connection, RubbishIsAnErrorAndNothingElse) {
  std::mt19937_64 random(9);
  const std::string good = frame_bytes(Request{1, "x", 7}, 2, pattern(300, 9)) + frame_bytes(Ping{}, 3);
  for (int round = 0; round < 3000; ++round) {
    std::string bad = good;
    for (int change = 0; change < 3; ++change) bad[random() % bad.size()] = static_cast<char>(random());
    bad.resize(1 + random() % bad.size());
    Wire wire;
    wire.say(bad);
    EXPECT_LE(wire.sink.frames.size(), 2u);
  }
}

TEST(Connection, WhoNeverTakesItsAnswersIsClosed) {
  Wire wire;
  ASSERT_TRUE(wire.connection.on_ready());
  for (std::size_t i = 0; i <= Connection::kQueueMax; ++i) wire.connection.send(Pong{}, i);
  EXPECT_EQ(wire.connection.on_ready().error().code, Code::kExhausted);
}

}  // namespace
}  // namespace carya::remote
