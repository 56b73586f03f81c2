#include "remote/pool/pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/ioctl.h>

#include <atomic>
#include <condition_variable>
#include <filesystem>
#include <functional>
#include <map>
#include <mutex>
#include <thread>

#include "remote/pool/name_lookups.h"
#include "remote/pool/usage_query.h"
#include "remote/protocol/address.h"
#include "remote/server/server.h"
#include "tests/pace.h"
#include "tests/remote/certificates.h"
#include "tests/remote/recording_handler.h"
#include "tests/remote/wire.h"

namespace carya::remote {
namespace {

using State = WorkerStats::State;
using testing::HasSubstr;
using testing::Not;

/// Writes down what becomes of requests. Each has memory of the test's, or is discarded.
struct Owner : PoolEvents {
  Status admit(std::uint64_t, const Welcome&) override { return {}; }
  void down(std::uint64_t member, const Error& reason, bool parked) override {
    note([&] { downs.push_back({member, reason, parked}); });
  }
  void registered(std::uint64_t member, std::uint64_t, Result<std::string> about) override {
    note([&] { registrations.emplace_back(member, about ? *about : about.error().message); });
  }
  void room(std::uint64_t) override {}
  ReceiveTarget place(std::uint64_t request, const std::string&, std::uint64_t bytes) override {
    const std::lock_guard lock(mutex);
    placed.push_back(request);
    changed.notify_all();
    const auto found = memory.find(request);
    if (found == memory.end() || found->second.size() != bytes) return {};
    return {ReceiveTarget::Where::kParts, {found->second}};
  }
  void done(std::uint64_t request, const std::string& about, bool was_placed) override {
    if (on_done) on_done();
    note([&] { ends[request] = (was_placed ? "done " : "done unplaced ") + about; });
  }
  void failed(std::uint64_t request, const Error& error) override {
    note([&] { ends[request] = "failed " + error.message; });
  }
  void lost(std::uint64_t request, const Error& reason) override {
    note([&] { ends[request] = "lost " + reason.message; });
    if (on_lost) on_lost(request);
  }

  void note(const std::function<void()>& write) {
    {
      const std::lock_guard lock(mutex);
      write();
    }
    changed.notify_all();
  }
  void wait(const std::function<bool()>& condition) {
    std::unique_lock lock(mutex);
    changed.wait(lock, condition);
  }
  /// How the request ended.
  std::string end_of(std::uint64_t request) {
    wait([&] { return ends.contains(request); });
    return ends[request];
  }

  struct Down {
    std::uint64_t member;
    Error reason;
    bool parked;
  };
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<Down> downs;
  std::vector<std::pair<std::uint64_t, std::string>> registrations;
  std::vector<std::uint64_t> placed;
  std::map<std::uint64_t, std::span<std::byte>> memory;
  std::map<std::uint64_t, std::string> ends;
  std::function<void()> on_done;
  std::function<void(std::uint64_t)> on_lost;
};

/// A worker that registers every plan; chunks are the test's to answer.
struct Worker {
  struct Handler : RecordingHandler {
    void register_plan(Asked asked) override { server->answer(asked.ticket, Answer{"plan"}); }
    ChunkServer* server = nullptr;
  };
  explicit Worker(const ServerOptions& options) : server(std::move(*ChunkServer::create(options, handler))) {
    handler.server = server.get();
    thread = std::thread([this] { server->run(); });
  }
  ~Worker() {
    server->stop();
    thread.join();
  }
  void answer(std::size_t nth, const std::string& about, std::string payload) {
    server->answer(handler.wait(handler.chunks, nth).ticket, Answer{about, payload_of(std::move(payload))});
  }
  Handler handler;
  std::unique_ptr<ChunkServer> server;
  std::thread thread;
};

/// A worker whose every byte the test says: what is sent after the connection came goes at once.
struct Liar {
  Liar() : address(*Address::resolve("127.0.0.1:0")), listener(std::move(*address.listen())) {}
  std::string text() const { return "127.0.0.1:" + std::to_string(listening_port(listener.get())); }
  void accept_and_say(const std::string& bytes) {
    pollfd watched{listener.get(), POLLIN, 0};
    while (poll(&watched, 1, 1000) == 0) {
    }
    socket.reset(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    say(bytes);
  }
  void say(const std::string& bytes) {
    for (std::size_t at = 0; at < bytes.size();) {
      const ssize_t sent = send(socket.get(), bytes.data() + at, bytes.size() - at, MSG_NOSIGNAL);
      if (sent < 0) return;
      at += static_cast<std::size_t>(sent);
    }
  }
  static std::string greeting() {
    return frame_bytes(Welcome{.server = "liar",
                               .window = {10, 1 << 30},
                               .request_bytes_max = 1 << 20,
                               .result_bytes_max = 1 << 20}) +
           frame_bytes(Registered{1, "liar"}, 1);
  }
  Address address;
  UniqueFd listener, socket;
};

struct Pool : testing::Test {
  Pool() {
    std::string name = (std::filesystem::temp_directory_path() / "carya_pool_XXXXXX").string();
    CHECK(mkdtemp(name.data()) != nullptr);
    folder = name;
    worker_options.listen = "unix:" + folder + "/w";
    worker_options.silent_ms = options.silent_ms = 600'000;  // nobody is blamed on a slow machine
    options.connect_ms = 600'000;
    worker_options.heartbeat_ms = options.heartbeat_ms = 20;
    options.backoff_min_ms = options.backoff_max_ms = 1;
  }
  ~Pool() override {
    if (pool) pool->stop();
    if (thread.joinable()) thread.join();
    pool.reset();
    std::filesystem::remove_all(folder);
  }
  void start() {
    auto made = WorkerPool::create(options, owner);
    ASSERT_TRUE(made) << made.error().message;
    pool = std::move(*made);
    ASSERT_TRUE(pool->add_plan(1, "about", payload_of("document")));
    thread = std::thread([this] { pool->run(); });
  }
  /// Its number, when it has the plan.
  std::uint64_t join(const std::string& address) {
    const std::uint64_t member = *pool->add_member(address);
    await_registration(member, 1);
    return member;
  }
  void await_registration(std::uint64_t member, long count) {
    owner.wait([&] {
      return std::count_if(owner.registrations.begin(), owner.registrations.end(),
                           [&](const auto& one) { return one.first == member; }) >= count;
    });
  }
  Status submit(std::uint64_t member, std::uint64_t request, std::uint64_t result_bytes = 0) {
    if (result_bytes > 0) {
      memory[request].assign(result_bytes, '.');
      const std::lock_guard lock(owner.mutex);
      owner.memory[request] = std::as_writable_bytes(std::span(memory[request]));
    }
    return pool->submit(member, {.request = request, .plan = 1, .about = "a", .result_bytes = result_bytes});
  }
  WorkerStats figures(std::uint64_t member) const {
    for (const WorkerStats& one : pool->figures())
      if (one.member == member) return one;
    return {};
  }
  void until(const std::function<bool()>& condition) {
    while (!condition()) std::this_thread::yield();
  }

  std::string folder;
  ServerOptions worker_options;
  PoolOptions options;
  Owner owner;
  std::map<std::uint64_t, std::string> memory;
  std::unique_ptr<WorkerPool> pool;
  std::thread thread;
};

TEST_F(Pool, ResultsArriveInTheirPlaces) {
  Worker one(worker_options);
  worker_options.listen += "2";
  Worker two(worker_options);
  start();
  const std::uint64_t first = join("unix:" + folder + "/w"), second = join("unix:" + folder + "/w2");
  ASSERT_TRUE(submit(first, 10, 500'000));
  ASSERT_TRUE(submit(second, 11, 500'000));
  ASSERT_TRUE(submit(second, 12));
  one.answer(0, "ten", pattern(500'000, 10));
  two.answer(0, "eleven", pattern(500'000, 11));
  two.server->answer(two.handler.wait(two.handler.chunks, 1).ticket, fail(Code::kIo, "no disk"));
  EXPECT_EQ(owner.end_of(10), "done ten");
  EXPECT_EQ(owner.end_of(11), "done eleven");
  EXPECT_NE(owner.end_of(12).find("no disk"), std::string::npos);
  EXPECT_TRUE(memory[10] == pattern(500'000, 10));
  EXPECT_TRUE(memory[11] == pattern(500'000, 11));
  const WorkerStats seen = figures(second);
  EXPECT_EQ(seen.state, State::kUp);
  EXPECT_EQ(seen.results, 1u);
  EXPECT_EQ(seen.failed, 1u);
  EXPECT_EQ(seen.received_bytes, 500'000u);
  EXPECT_EQ(seen.in_flight, (Window{0, 0}));
  EXPECT_GT(seen.p50_s, 0);
  EXPECT_GE(seen.p99_s, seen.p50_s);
  until([&] { return figures(second).round_trip_s > 0; });
}

TEST_F(Pool, WhatCannotBeSubmittedIsSaid) {
  worker_options.requests_max = 2;
  Worker worker(worker_options);
  start();
  EXPECT_EQ(submit(7, 1).error().code, Code::kClosed) << "no such worker";
  const std::uint64_t member = join(worker_options.listen);
  EXPECT_EQ(pool->submit(member, {.request = 1, .plan = 2}).error().code, Code::kNotFound);
  EXPECT_EQ(pool->submit(member, {.request = 1, .plan = 1, .result_bytes = ~0ULL / 2}).error().code,
            Code::kInvalidArgument);
  ASSERT_TRUE(submit(member, 1));
  EXPECT_EQ(submit(member, 1).error().code, Code::kInvalidArgument) << "twice";
  ASSERT_TRUE(submit(member, 2));
  EXPECT_EQ(submit(member, 3).error().code, Code::kExhausted);
  worker.answer(0, "", "");
  EXPECT_EQ(owner.end_of(1), "done unplaced ");
  until([&] { return submit(member, 3).has_value(); });
}

TEST_F(Pool, AWorkersWindowIsKeptInBytesToo) {
  worker_options.bytes_max = worker_options.request_bytes_max = worker_options.result_bytes_max = 10'000;
  Worker worker(worker_options);
  start();
  const std::uint64_t member = join(worker_options.listen);
  const std::uint64_t most = figures(member).window.bytes;
  ASSERT_EQ(most, 10'000u);
  ASSERT_TRUE(submit(member, 1, 6'000));
  EXPECT_EQ(submit(member, 2, 4'001).error().code, Code::kExhausted) << "a byte too many";
  ASSERT_TRUE(submit(member, 2, 4'000));
  EXPECT_EQ(submit(member, 3, 1).error().code, Code::kExhausted);
  worker.answer(0, "", std::string(6'000, 'x'));
  EXPECT_EQ(owner.end_of(1), "done ");
  until([&] { return submit(member, 3, 6'000).has_value(); });
}

// Their loops look at everything once in a tick, which would repair a lost wake-up: a quarter of a second
// each here.
TEST_F(Pool, RequestsAndAnswersWaitForNoTick) {
  constexpr int kHandoffs = 300;
  worker_options.heartbeat_ms = options.heartbeat_ms = 600'000;
  Worker worker(worker_options);
  start();
  const std::uint64_t member = join(worker_options.listen);
  const Pace patience(kHandoffs);
  const auto comes = [&](std::mutex& mutex, std::condition_variable& changed, auto there) {
    std::unique_lock lock(mutex);
    while (!there() && !patience.over()) changed.wait_for(lock, std::chrono::milliseconds(Pace::kLookMs));
    return there();
  };
  int ended = 0;
  for (std::uint64_t i = 1; i <= kHandoffs && !patience.over(); ++i) {
    ASSERT_TRUE(submit(member, i));
    Worker::Handler& handler = worker.handler;
    if (!comes(handler.mutex, handler.came, [&] { return handler.chunks.size() >= i; })) break;
    worker.answer(i - 1, "", "");
    if (!comes(owner.mutex, owner.changed, [&] { return owner.ends.contains(i); })) break;
    ++ended;
  }
  EXPECT_EQ(ended, kHandoffs);
}

TEST_F(Pool, AWorkerIsToldTheUserHisWeightAndWhatItSaves) {
  Worker worker(worker_options);
  options.hello.user = "ann";
  start();
  join(worker_options.listen);
  pool->set_weight(2.5);
  pool->set_worth(0.75);
  until([&] {
    const auto usage = ask_usage(worker_options.listen, {});
    if (!usage || usage->clients.size() != 1) return false;
    const ClientUsage& client = usage->clients[0];
    return client.user == "ann" && client.weight == 2500 && client.worth == 750'000;
  });
}

TEST_F(Pool, ADeadWorkersRequestsAreLostAndItsSuccessorIsFound) {
  options.failures_max = 1'000'000;
  auto worker = std::make_unique<Worker>(worker_options);
  start();
  const std::uint64_t member = join(worker_options.listen);
  ASSERT_TRUE(submit(member, 1, 1000));
  ASSERT_TRUE(submit(member, 2, 1000));
  worker->handler.wait(worker->handler.chunks, 1);
  worker.reset();
  EXPECT_TRUE(owner.end_of(1).starts_with("lost ")) << owner.end_of(1);
  EXPECT_TRUE(owner.end_of(2).starts_with("lost "));
  EXPECT_FALSE(pool->withdraw(1)) << "it was told already";
  worker = std::make_unique<Worker>(worker_options);
  await_registration(member, 2);
  ASSERT_TRUE(submit(member, 3, 4));
  worker->answer(0, "again", "abcd");
  EXPECT_EQ(owner.end_of(3), "done again");
}

TEST_F(Pool, ASilentWorkerIsDead) {
  options.silent_ms = 200;
  options.park_ms = 600'000;
  options.failures_max = 1;
  Liar liar;
  start();
  const std::uint64_t member = *pool->add_member(liar.text());
  liar.accept_and_say(Liar::greeting());
  owner.wait([&] { return !owner.downs.empty(); });
  EXPECT_EQ(owner.downs[0].reason.code, Code::kTimeout) << owner.downs[0].reason.message;
  EXPECT_TRUE(owner.downs[0].parked);
  EXPECT_EQ(figures(member).state, State::kParked);
}

TEST_F(Pool, AWorkerThatLiesIsClosedWithTheReasonAndParkedInTheEnd) {
  options.failures_max = 3;
  options.park_ms = 600'000;
  Liar liar;
  start();
  const std::uint64_t member = *pool->add_member(liar.text());
  liar.accept_and_say(Liar::greeting() + "rubbish that is no frame, and long enough for one");
  owner.wait([&] { return owner.downs.size() == 1; });
  EXPECT_EQ(owner.downs[0].reason.code, Code::kCorrupt) << owner.downs[0].reason.message;
  liar.accept_and_say(Liar::greeting() + frame_bytes(ChunkResult{}, 99, "nobody asked"));
  owner.wait([&] { return owner.downs.size() == 2; });
  EXPECT_NE(owner.downs[1].reason.message.find("not asked"), std::string::npos);
  EXPECT_FALSE(owner.downs[1].parked);
  liar.accept_and_say(frame_bytes(Request{}, 1));
  owner.wait([&] { return owner.downs.size() == 3; });
  EXPECT_TRUE(owner.downs[2].parked);
  EXPECT_EQ(figures(member).failures, 3u);
}

TEST_F(Pool, AResultOfTheWrongLengthEndsTheConnection) {
  Liar liar;
  start();
  const std::uint64_t member = *pool->add_member(liar.text());
  liar.accept_and_say(Liar::greeting());
  await_registration(member, 1);
  ASSERT_TRUE(submit(member, 5, 10));
  liar.say(frame_bytes(ChunkResult{}, 5, std::string(11, 'x')));
  EXPECT_TRUE(owner.end_of(5).starts_with("lost ")) << owner.end_of(5);
  EXPECT_EQ(memory[5], std::string(10, '.'));
}

TEST_F(Pool, WhatANarrowLinkHoldsUpIsWithdrawnForNothing) {
  Liar liar;  // it reads nothing
  start();
  const std::uint64_t member = *pool->add_member(liar.text());
  liar.accept_and_say(Liar::greeting());
  await_registration(member, 1);
  const std::string record(1 << 20, 'r');
  for (std::uint64_t request = 1; request <= 10; ++request)
    ASSERT_TRUE(pool->submit(
        member, {.request = request, .plan = 1, .about = "a", .payload = payload_of(std::string(record))}));
  until([&] {
    int arrived = 0;
    return ioctl(liar.socket.get(), FIONREAD, &arrived) == 0 && arrived > 1 << 15;
  });
  ASSERT_TRUE(pool->withdraw(10));
  EXPECT_EQ(figures(member).in_flight.requests, 9u) << "it was not sent, nobody has to answer it";
}

TEST_F(Pool, ALateLoserWritesNothingWhileItsMemoryIsReused) {
  Worker worker(worker_options);
  Liar late;
  start();
  const std::uint64_t other = join(worker_options.listen);
  const std::uint64_t member = *pool->add_member(late.text());
  late.accept_and_say(Liar::greeting());
  await_registration(member, 1);
  constexpr std::size_t kBytes = 300'000;
  ASSERT_TRUE(submit(member, 50, kBytes));
  const std::string result = frame_bytes(ChunkResult{"loser"}, 50, std::string(kBytes, 'x'));
  late.say(result.substr(0, 100'000));
  owner.wait([&] { return !owner.placed.empty(); });
  ASSERT_TRUE(pool->withdraw(50));
  EXPECT_FALSE(pool->withdraw(50));
  for (std::size_t reuse = 0; reuse < 3; ++reuse) {
    const std::uint64_t request = 60 + reuse;
    {
      const std::lock_guard lock(owner.mutex);
      owner.memory[request] = std::as_writable_bytes(std::span(memory[50]));
    }
    ASSERT_TRUE(pool->submit(other, {.request = request, .plan = 1, .result_bytes = kBytes}));
    worker.answer(reuse, "winner", pattern(kBytes, reuse));
    late.say(result.substr(100'000 + reuse * 50'000, 50'000));
    EXPECT_EQ(owner.end_of(request), "done winner");
    EXPECT_TRUE(memory[50] == pattern(kBytes, reuse));
  }
  late.say(result.substr(250'000) + frame_bytes(Ping{}, 7));
  until([&] { return figures(member).in_flight.requests == 0; });
  EXPECT_TRUE(memory[50] == pattern(kBytes, 2));
  EXPECT_EQ(figures(member).state, State::kUp) << "the connection goes on";
  EXPECT_EQ(figures(member).withdrawn, 1u);
  EXPECT_FALSE(owner.ends.contains(50)) << "a withdrawn request has no event";
}

TEST_F(Pool, AWithdrawnRequestIsNotBegun) {
  worker_options.handling_max = 1;
  Worker worker(worker_options);
  start();
  const std::uint64_t member = join(worker_options.listen);
  for (const std::uint64_t request : {1, 2, 3}) ASSERT_TRUE(submit(member, request));
  until([&] { return worker.server->stats().queued == 2; });
  ASSERT_TRUE(pool->withdraw(2));
  until([&] { return figures(member).in_flight.requests == 2; });
  worker.answer(0, "first", {});
  EXPECT_TRUE(owner.end_of(1).starts_with("done"));
  worker.answer(1, "third", {});
  EXPECT_TRUE(owner.end_of(3).starts_with("done"));
  EXPECT_EQ(worker.handler.chunks.size(), 2u);
  EXPECT_FALSE(owner.ends.contains(2));
}

TEST_F(Pool, AForgottenPlanIsRegisteredAgain) {
  Liar liar;
  start();
  const std::uint64_t member = *pool->add_member(liar.text());
  liar.accept_and_say(Liar::greeting());
  await_registration(member, 1);
  ASSERT_TRUE(submit(member, 5));
  liar.say(frame_bytes(UnknownPlan{1}, 5));
  EXPECT_TRUE(owner.end_of(5).starts_with("lost ")) << owner.end_of(5);
  EXPECT_EQ(submit(member, 6).error().code, Code::kNotFound);
  // Said when the second Register has come; the first frames are read on the way.
  Collector sink;
  Connection connection(plain_stream(std::move(liar.socket)), sink);
  connection.set_limits({.body_bytes = 1 << 20, .payload_bytes = 1 << 20});
  const auto registers = [&] {
    return std::count_if(sink.frames.begin(), sink.frames.end(),
                         [](const auto& frame) { return frame.header.type == FrameType::kRegister; });
  };
  while (registers() < 2) ASSERT_TRUE(connection.on_ready());
  connection.send(Registered{1, ""}, 1);
  ASSERT_TRUE(connection.on_ready());
  await_registration(member, 2);
}

TEST_F(Pool, ADrainingWorkerFinishesAndIsLeft) {
  auto worker = std::make_unique<Worker>(worker_options);
  start();
  const std::uint64_t member = join(worker_options.listen);
  ASSERT_TRUE(submit(member, 1, 3));
  worker->handler.wait(worker->handler.chunks, 0);
  worker->server->drain();
  until([&] { return figures(member).state == State::kDraining; });
  EXPECT_EQ(submit(member, 2).error().code, Code::kClosed);
  worker->answer(0, "last", "abc");
  EXPECT_EQ(owner.end_of(1), "done last");
  owner.wait([&] { return !owner.downs.empty(); });
  EXPECT_EQ(memory[1], "abc");
}

TEST_F(Pool, ARemovedMembersRequestsAreLost) {
  Worker worker(worker_options);
  start();
  const std::uint64_t member = join(worker_options.listen);
  ASSERT_TRUE(submit(member, 1));
  pool->remove_member(member);
  EXPECT_TRUE(owner.end_of(1).starts_with("lost "));
  EXPECT_EQ(submit(member, 2).error().code, Code::kClosed);
}

// The engine withdraws when it likes: also between a member's removal and the news that its requests are lost.
TEST_F(Pool, NothingIsWithdrawnFromAMemberThatIsAlreadyForgotten) {
  Worker one(worker_options);
  const std::string first = worker_options.listen;
  worker_options.listen += "2";
  Worker two(worker_options);
  start();
  const std::uint64_t members[] = {join(first), join(worker_options.listen)};
  std::map<std::uint64_t, bool>
      withdrawn;         // by the request that was lost: whether the other one was withdrawn
  owner.on_done = [&] {  // on the pool's thread, which forgets both at once
    for (const std::uint64_t member : members) pool->remove_member(member);
  };
  owner.on_lost = [&](std::uint64_t request) { withdrawn[request] = pool->withdraw(3 - request); };
  ASSERT_TRUE(submit(members[0], 1));
  ASSERT_TRUE(submit(members[1], 2));
  ASSERT_TRUE(submit(members[0], 3));
  one.answer(1, "third", "");
  EXPECT_TRUE(owner.end_of(1).starts_with("lost "));
  EXPECT_TRUE(owner.end_of(2).starts_with("lost "));
  pool->stop();
  thread.join();
  EXPECT_EQ(withdrawn, (std::map<std::uint64_t, bool>{{1, false}, {2, false}}));
}

TEST_F(Pool, WhenItStopsAllIsLost) {
  Worker worker(worker_options);
  start();
  ASSERT_TRUE(submit(join(worker_options.listen), 1));
  pool->stop();
  thread.join();
  EXPECT_TRUE(owner.end_of(1).starts_with("lost "));
}

TEST_F(Pool, PlainTcpToAnotherMachineIsRefusedUnlessSaid) {
  start();
  EXPECT_EQ(pool->add_member("192.0.2.1:7070").error().code, Code::kInvalidArgument);
  EXPECT_EQ(pool->add_member("nonsense").error().code, Code::kInvalidArgument);
}

TEST_F(Pool, SpeaksTls) {
  const Certificates certificates;
  worker_options.listen = "127.0.0.1:0";
  worker_options.tls = certificates.of("server");
  options.tls = certificates.of("client");
  options.server_name = "w1.test";
  Worker worker(worker_options);
  start();
  const std::string address = "127.0.0.1:" + std::to_string(worker.server->port());
  const std::uint64_t member = join(address);
  EXPECT_EQ(figures(member).kind, "TLSv1.3");
  ASSERT_TRUE(submit(member, 1, 300'000));
  worker.answer(0, "tls", pattern(300'000, 1));
  EXPECT_EQ(owner.end_of(1), "done tls");
  EXPECT_TRUE(memory[1] == pattern(300'000, 1));
}

TEST_F(Pool, AWorkerThatWantsTlsIsSaidToWantIt) {
  const Certificates certificates;
  worker_options.listen = "127.0.0.1:0";
  worker_options.tls = certificates.of("server");
  Worker worker(worker_options);
  start();
  const std::uint64_t member = *pool->add_member("127.0.0.1:" + std::to_string(worker.server->port()));
  until([&] { return !figures(member).reason.empty(); });
  EXPECT_THAT(figures(member).reason,
              HasSubstr("where it wants TLS, this side needs it too; give certificates"));
}

TEST_F(Pool, AWorkerWithoutTlsIsSaidToHaveNone) {
  const Certificates certificates;
  options.tls = certificates.of("client");
  worker_options.listen = "127.0.0.1:0";
  Worker worker(worker_options);
  start();
  const std::uint64_t member = *pool->add_member("127.0.0.1:" + std::to_string(worker.server->port()));
  until([&] { return !figures(member).reason.empty(); });
  EXPECT_THAT(
      figures(member).reason,
      HasSubstr("the peer speaks no TLS; start the worker with --cert, --key and --ca, or say insecure"));
}

TEST_F(Pool, AWorkerThatEndsAfterItsWelcomeIsNotSaidToWantTls) {
  Liar liar;
  start();
  const std::uint64_t member = *pool->add_member(liar.text());
  liar.accept_and_say(Liar::greeting());
  until([&] { return figures(member).state == State::kUp; });
  liar.socket.reset();
  until([&] { return figures(member).ended == 1; });
  EXPECT_THAT(figures(member).reason, Not(HasSubstr("TLS")));
}

// Names that nobody knows.

TEST_F(Pool, AnUnknownNameIsRefusedUnlessWorkersMayBeAway) {
  options.look_up = [](Address&) { return fail(Code::kInvalidArgument, "no such name"); };
  start();
  const auto refused = pool->add_member("w.test:7070");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message, "worker address w.test:7070: no such name");
  EXPECT_EQ(pool->lookups(), nullptr);
}

TEST_F(Pool, AWorkerWhoseNameIsUnknownIsAwayUntilItIsKnown) {
  worker_options.listen = "127.0.0.1:0";
  Worker worker(worker_options);
  std::atomic<bool> known = false;
  options.unknown_names = true;
  options.look_up = [&](Address& address) -> Status {
    if (!known) return fail(Code::kInvalidArgument, "no such name");
    address = *Address::resolve("127.0.0.1:" + std::to_string(worker.server->port()));
    return {};
  };
  start();
  const std::uint64_t member = *pool->add_member("w.test:7070");
  EXPECT_EQ(figures(member).reason, "no such name");
  const auto lookups = pool->lookups();
  ASSERT_NE(lookups, nullptr);
  std::thread names([&] { lookups->run(); });
  owner.wait([&] { return owner.downs.size() > 3; });  // it is tried again and again
  EXPECT_EQ(owner.downs.back().reason.message, "worker w.test:7070: no such name");
  EXPECT_NE(figures(member).state, State::kUp);
  known = true;
  await_registration(member, 1);
  EXPECT_EQ(figures(member).state, State::kUp);
  EXPECT_EQ(figures(member).failures, 0U);
  pool->stop();
  names.join();
}

TEST_F(Pool, AWorkerWhoseNameStandsForAnotherPlaceIsFoundThere) {
  worker_options.listen = "127.0.0.1:0";
  auto worker = std::make_unique<Worker>(worker_options);
  std::atomic<std::uint16_t> port = worker->server->port();
  options.look_up = [&](Address& address) -> Status {
    address = *Address::resolve("127.0.0.1:" + std::to_string(port));
    return {};
  };
  start();
  const std::uint64_t member = *pool->add_member("w.test:7070");
  const auto lookups = pool->lookups();
  ASSERT_NE(lookups, nullptr);
  std::thread names([&] { lookups->run(); });
  await_registration(member, 1);
  auto moved = std::make_unique<Worker>(worker_options);
  ASSERT_NE(moved->server->port(), port);
  worker.reset();
  port = moved->server->port();
  await_registration(member, 2);
  EXPECT_EQ(figures(member).state, State::kUp);
  pool->stop();
  names.join();
}

TEST_F(Pool, AddressesThatAreNumbersAreNotLookedUpAgain) {
  start();
  for (const char* const number : {"127.0.0.1:9", "[::1]:9"}) ASSERT_TRUE(pool->add_member(number));
  EXPECT_EQ(pool->lookups(), nullptr);
  ASSERT_TRUE(pool->add_member("localhost:9"));
  EXPECT_NE(pool->lookups(), nullptr);
}

TEST_F(Pool, AResolverThatDoesNotAnswerIsWaitedForOnce) {
  const auto here = std::this_thread::get_id();
  int waited = 0;
  std::atomic<int> later = 0;
  options.unknown_names = true;
  options.look_up = [&](Address&) {
    if (std::this_thread::get_id() == here) {
      ++waited;
      std::this_thread::sleep_for(std::chrono::milliseconds(1100));
    } else {
      ++later;
    }
    return fail(Code::kInvalidArgument, "no answer");
  };
  start();
  for (const char* const name : {"a.test:7070", "b.test:7070", "c.test:7070"})
    ASSERT_TRUE(pool->add_member(name)) << name;
  EXPECT_EQ(waited, 1);
  const auto lookups = pool->lookups();
  ASSERT_NE(lookups, nullptr);
  std::thread names([&] { lookups->run(); });
  until([&] { return later >= 3; });
  until([&] { return figures(3).reason == "no answer"; });
  pool->stop();
  names.join();
}

TEST_F(Pool, ANameThatBecomesKnownAsAnotherMachineIsNotSpokenToInTheClear) {
  std::atomic<bool> known = false;
  options.unknown_names = true;
  options.look_up = [&](Address& address) -> Status {
    if (!known.exchange(true)) return fail(Code::kInvalidArgument, "no such name");
    address = *Address::resolve("192.0.2.1:7070");
    return {};
  };
  start();
  const std::uint64_t member = *pool->add_member("w.test:7070");
  const auto lookups = pool->lookups();
  std::thread names([&] { lookups->run(); });
  until([&] { return figures(member).reason.starts_with("is another machine: give certificates"); });
  pool->stop();
  names.join();
}

TEST_F(Pool, TlsSessionsAreResumed) {
  const Certificates certificates;
  options.tls = certificates.of("client");
  options.failures_max = 1'000'000;
  worker_options.listen = "127.0.0.1:0";
  worker_options.tls = certificates.of("server");
  // Neither side sends Pings, so that the worker closes the connection again and again.
  worker_options.silent_ms = 100;
  worker_options.heartbeat_ms = options.heartbeat_ms = 200;
  Worker worker(worker_options);
  start();
  const std::uint64_t member = *pool->add_member("127.0.0.1:" + std::to_string(worker.server->port()));
  until([&] { return figures(member).kind == "TLSv1.3 resumed"; });
}

}  // namespace
}  // namespace carya::remote
