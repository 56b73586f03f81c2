#pragma once

#include <gtest/gtest.h>
#include <poll.h>

#include <memory>
#include <string>
#include <thread>

#include "remote/protocol/address.h"
#include "remote/server/server.h"
#include "tests/remote/recording_handler.h"
#include "tests/remote/wire.h"

namespace carya::remote {

/// A client that says what the test wants.
struct Client {
  explicit Client(UniqueFd socket) : Client(plain_stream(std::move(socket))) {}
  explicit Client(std::unique_ptr<ByteStream> stream) : connection(std::move(stream), sink) {
    connection.set_limits({.body_bytes = 1 << 20, .payload_bytes = 64 << 20});
  }

  void step() {
    status = connection.on_ready();
    if (!status || connection.has_buffered() || seen < sink.frames.size()) return;
    pollfd watched{connection.fd(), static_cast<short>(POLLIN | (connection.wants_write() ? POLLOUT : 0)), 0};
    poll(&watched, 1, 100);
  }
  /// The next frame of the type that the test has not seen; Pings are answered on the way. Null: it ended.
  const Collector::Frame* await(FrameType type) {
    for (;;) {
      for (; seen < sink.frames.size(); ++seen) {
        const Collector::Frame& frame = sink.frames[seen];
        if (frame.header.type == FrameType::kPing) connection.send(Pong{}, frame.header.request);
        if (frame.header.type == type) return &sink.frames[seen++];
      }
      if (!status) return nullptr;
      step();
    }
  }
  /// What a frame of this kind says, that comes next.
  template <typename Message>
  Message expect() {
    const Collector::Frame* frame = await(Message::kType);
    if (frame == nullptr) {
      ADD_FAILURE() << frame_name(Message::kType) << " never came: " << status.error().message;
      return {};
    }
    return *decode<Message>(frame->body);
  }
  void ask(std::uint64_t request, std::uint64_t plan = 1, std::uint64_t result_bytes = 1000,
           std::string payload = {}) {
    connection.send(Request{plan, "r" + std::to_string(request), result_bytes}, request,
                    payload.empty() ? Payload{} : payload_of(std::move(payload)));
    push();
  }
  void push() { status = connection.on_ready(); }
  std::string told() { return expect<ErrorIs>().error.message; }

  Collector sink;
  Connection connection;
  Status status;
  std::size_t seen = 0;
};

struct Server : testing::Test {
  Server() {
    options.listen = "127.0.0.1:0";
    options.server = "test";
    // No heartbeat comes between on a machine that stands still for a while.
    options.silent_ms = 600'000;
  }
  ~Server() override { end(); }
  void start() {
    auto made = ChunkServer::create(options, handler);
    ASSERT_TRUE(made) << made.error().message;
    server = std::move(*made);
    thread = std::thread([this] { server->run(); });
  }
  void end() {
    if (!thread.joinable()) return;
    server->stop();
    thread.join();
  }
  UniqueFd socket() const {
    const std::string at =
        server->port() == 0 ? options.listen : "127.0.0.1:" + std::to_string(server->port());
    auto connected = Address::resolve(at)->connect(0);
    CHECK(connected);
    return std::move(*connected);
  }
  /// One that is welcome, and has a plan 1.
  std::unique_ptr<Client> client(int nth_plan = 0, const std::string& user = "",
                                 const std::string& token = "") {
    auto made = std::make_unique<Client>(socket());
    made->connection.send(Hello{.client = "c", .token = token, .user = user});
    welcome = made->expect<Welcome>();
    made->connection.send(Register{1, "p"}, 1, payload_of("document"));
    made->push();
    server->answer(handler.wait(handler.plans, static_cast<std::size_t>(nth_plan)).ticket, Answer{"ok"});
    EXPECT_EQ(made->expect<Registered>().plan, 1u);
    return made;
  }
  template <typename Condition>
  void until(Condition condition) {
    while (!condition()) std::this_thread::yield();
  }

  ServerOptions options;
  RecordingHandler handler;
  std::unique_ptr<ChunkServer> server;
  std::thread thread;
  Welcome welcome;
};

}  // namespace carya::remote
