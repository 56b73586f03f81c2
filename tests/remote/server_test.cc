#include "remote/server/server.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <random>
#include <thread>

#include "tests/remote/certificates.h"
#include "tests/remote/server_fixture.h"

namespace carya::remote {
namespace {

TEST_F(Server, APlanIsRegisteredAndItsChunksAnswered) {
  start();
  auto one = client();
  EXPECT_EQ(welcome.server, "test");
  EXPECT_EQ(welcome.facts, (std::vector<Fact>{{"jpeg", "3"}}));
  EXPECT_EQ(welcome.window, (Window{options.requests_max, options.bytes_max}));
  const Asked plan = handler.wait(handler.plans, 0);
  EXPECT_EQ(plan.payload->bytes, 8u);
  one->ask(5, 1, 300'000, "record");
  const Asked asked = handler.wait(handler.chunks, 0);
  EXPECT_EQ(asked.about, "r5");
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(asked.payload->data.get()), 6), "record");
  server->answer(asked.ticket, Answer{"done", payload_of(pattern(300'000, 1))});
  const auto* result = one->await(FrameType::kResult);
  ASSERT_NE(result, nullptr);
  EXPECT_EQ(result->header.request, 5u);
  EXPECT_EQ(decode<ChunkResult>(result->body)->about, "done");
  EXPECT_TRUE(result->payload == pattern(300'000, 1));
  until([&] { return server->stats().result_bytes == 0 && server->stats().request_bytes == 0; });
}

TEST_F(Server, TheLastTwoPlansUsedAreKept) {
  start();
  auto one = client();
  for (const std::uint64_t plan : {2, 3}) {
    one->connection.send(Register{plan, ""}, plan, payload_of("d"));
    one->push();
    server->answer(handler.wait(handler.plans, plan - 1).ticket, Answer{});
    EXPECT_EQ(one->expect<Registered>().plan, plan);
  }
  EXPECT_EQ(handler.wait(handler.forgotten, 0), 1u);
  one->ask(7, 1);
  EXPECT_EQ(one->expect<UnknownPlan>().plan, 1u);
  one->connection.send(Register{4, ""}, 4, payload_of("d"));
  one->push();
  server->answer(handler.wait(handler.plans, 3).ticket, fail(Code::kUnsupported, "no such op"));
  EXPECT_EQ(one->told(), "no such op");
  one->ask(8, 2);
  one->push();
  EXPECT_EQ(handler.wait(handler.chunks, 0).plan, 2u) << "the connection goes on";
}

TEST_F(Server, WhoMayNotComeIsToldWhy) {
  options.tokens = {{"", "secret"}};
  start();
  Client stranger(socket());
  stranger.connection.send(Hello{.token = "guess"});
  EXPECT_NE(stranger.told().find("token"), std::string::npos);
  Client other(socket());
  other.connection.send(Hello{.facts = {{"jpeg", "2"}}, .token = "secret"});
  EXPECT_EQ(other.told(), "jpeg 2, this worker has 3");
  EXPECT_EQ(other.await(FrameType::kWelcome), nullptr) << "closed";
}

TEST_F(Server, WhatIsNotForAClientToSayEndsIt) {
  start();
  Client early(socket());
  early.ask(1);
  EXPECT_NE(early.told().find("before Hello"), std::string::npos);
  Client wrong(socket());
  wrong.connection.send(Welcome{});
  EXPECT_NE(wrong.told().find("Welcome"), std::string::npos);
  auto twice = client();
  twice->connection.send(Hello{});
  EXPECT_NE(twice->told().find("second Hello"), std::string::npos);
  auto greedy = client(1);
  greedy->ask(1, 1, options.result_bytes_max + 1);
  EXPECT_NE(greedy->told().find("result"), std::string::npos);
}

TEST_F(Server, TheWindowIsKept) {
  options.requests_max = 2;
  options.bytes_max = options.request_bytes_max = options.result_bytes_max = 1000;
  start();
  auto one = client();
  one->ask(1, 1, 1000);
  one->ask(2, 1, 1);
  EXPECT_NE(one->told().find("window"), std::string::npos) << "too many bytes";
  auto two = client(1);
  for (const std::uint64_t request : {1, 2, 3}) two->ask(request, 1, 1);
  EXPECT_NE(two->told().find("window"), std::string::npos) << "too many requests";
}

TEST_F(Server, TheWindowIsSharedByThoseThatAsk) {
  options.heartbeat_ms = 600'000;  // who has asked, asks
  start();
  auto one = client();
  auto two = client(1);
  one->ask(1);
  one->push();
  handler.wait(handler.chunks, 0);
  two->ask(1);
  two->push();
  EXPECT_EQ(one->expect<Credit>().window.requests, options.requests_max / 2);
  two.reset();
  EXPECT_EQ(one->expect<Credit>().window.requests, options.requests_max);
}

TEST_F(Server, ConnectionsTakeTurns) {
  options.handling_max = 1;
  start();
  auto one = client();
  auto two = client(1);
  for (std::uint64_t request = 1; request <= 8; ++request) one->ask(request);
  one->push();
  handler.wait(handler.chunks, 0);
  until([&] { return server->stats().queued == 7; });
  for (std::uint64_t request = 1; request <= 3; ++request) two->ask(request);
  two->push();
  until([&] { return server->stats().queued == 10; });
  const std::uint64_t first = handler.wait(handler.chunks, 0).ticket.connection;
  std::string order;
  for (std::size_t i = 0; i < 11; ++i) {
    const Asked asked = handler.wait(handler.chunks, i);
    order += asked.ticket.connection == first ? '1' : '2';
    server->answer(asked.ticket, Answer{});
  }
  EXPECT_EQ(order, "11212121111");
}

TEST_F(Server, WhomAWorkerSavesMoreHasMoreTurnsAndMoreOfTheWindow) {
  options.handling_max = 1;
  options.heartbeat_ms = 600'000;  // who has asked, asks
  start();
  auto one = client();
  auto two = client(1);
  one->connection.send(Ping{.worth = 3'000'000}, 1);
  two->connection.send(Ping{.worth = 1'000'000}, 1);
  one->expect<Pong>();
  two->expect<Pong>();
  for (std::uint64_t request = 1; request <= 8; ++request) one->ask(request);
  handler.wait(handler.chunks, 0);
  until([&] { return server->stats().queued == 7; });
  for (std::uint64_t request = 1; request <= 4; ++request) two->ask(request);
  until([&] { return server->stats().queued == 11; });
  EXPECT_EQ(one->expect<Credit>().window.requests, options.requests_max * 3 / 4);
  EXPECT_EQ(two->expect<Credit>().window.requests, options.requests_max / 4);
  const std::uint64_t first = handler.wait(handler.chunks, 0).ticket.connection;
  std::string order;
  for (std::size_t i = 0; i < 12; ++i) {
    const Asked asked = handler.wait(handler.chunks, i);
    order += asked.ticket.connection == first ? '1' : '2';
    server->answer(asked.ticket, Answer{});
  }
  EXPECT_EQ(order, "111121112122");
}

TEST_F(Server, UsersShareByWeightWhateverAWorkerSavesThem) {
  options.handling_max = 1;
  options.heartbeat_ms = 600'000;
  start();
  auto one = client(0, "ann");
  auto two = client(1, "ben");
  one->connection.send(Ping{.worth = 1'000'000, .weight = 3000}, 1);
  two->connection.send(Ping{.worth = 9'000'000, .weight = 1000}, 1);
  one->expect<Pong>();
  two->expect<Pong>();
  for (std::uint64_t request = 1; request <= 8; ++request) one->ask(request);
  handler.wait(handler.chunks, 0);
  until([&] { return server->stats().queued == 7; });
  for (std::uint64_t request = 1; request <= 4; ++request) two->ask(request);
  until([&] { return server->stats().queued == 11; });
  EXPECT_EQ(one->expect<Credit>().window.requests, options.requests_max * 3 / 4);
  EXPECT_EQ(two->expect<Credit>().window.requests, options.requests_max / 4);
  const std::uint64_t first = handler.wait(handler.chunks, 0).ticket.connection;
  std::string order;
  for (std::size_t i = 0; i < 12; ++i) {
    const Asked asked = handler.wait(handler.chunks, i);
    order += asked.ticket.connection == first ? '1' : '2';
    server->answer(asked.ticket, Answer{});
  }
  EXPECT_EQ(order, "111121112122");
}

TEST_F(Server, AWeightIsBounded) {
  options.heartbeat_ms = 600'000;
  start();
  auto one = client(0, "ann");
  auto two = client(1, "ben");
  one->connection.send(Ping{.weight = UINT64_MAX}, 1);
  two->connection.send(Ping{.weight = 100'000}, 1);
  one->expect<Pong>();
  two->expect<Pong>();
  one->ask(1);
  two->ask(1);
  EXPECT_EQ(one->expect<Credit>().window.requests, options.requests_max / 2);
}

TEST_F(Server, WhomAWorkerSavesNothingHasSomeTurnsAllTheSame) {
  options.heartbeat_ms = 600'000;
  start();
  auto one = client();
  auto two = client(1);
  one->connection.send(Ping{.worth = UINT64_MAX}, 1);
  one->expect<Pong>();
  one->ask(1);
  two->ask(1);
  EXPECT_EQ(one->expect<Credit>().window.requests, options.requests_max * 8 / 9);
}

TEST_F(Server, APongSaysWhatOthersLeave) {
  options.heartbeat_ms = 600'000;
  start();
  auto one = client();
  auto two = client(1);
  const auto free_for = [](Client& asking) {
    asking.connection.send(Ping{}, 1);
    return asking.expect<Pong>().free;
  };
  EXPECT_EQ(free_for(*two), Pong::kAll);
  EXPECT_EQ(free_for(*one), Pong::kAll);
  one->ask(1);
  server->answer(handler.wait(handler.chunks, 0).ticket, Answer{.thread_ns = 3'600'000'000'000});
  one->expect<ChunkResult>();
  EXPECT_EQ(free_for(*one), Pong::kAll) << "what it uses itself is no others'";
  EXPECT_EQ(free_for(*two), Pong::kAll / 2) << "its share, if it asks too";
  EXPECT_EQ(free_for(*two), Pong::kAll) << "nothing was used since";
}

TEST_F(Server, AChunkThatTakesTooLongFails) {
  options.chunk_ms = 50;
  options.handling_max = 1;
  start();
  auto one = client();
  one->ask(1);
  EXPECT_EQ(one->expect<ChunkFailed>().error.code, Code::kTimeout);
  one->ask(2);
  one->push();
  until([&] { return server->stats().queued == 1; });
  EXPECT_EQ(server->stats().handling, 1u) << "the handler is still busy with it";
  server->answer(handler.wait(handler.chunks, 0).ticket, Answer{"late"});
  handler.wait(handler.chunks, 1);
  EXPECT_EQ(server->stats().late, 1u);
}

TEST_F(Server, AChunkOnItsWayToTheHandlerIsCountedOnce) {
  options.handling_max = 1;
  start();
  auto one = client();
  one->ask(0);
  one->push();
  handler.wait(handler.chunks, 0);
  std::atomic<bool> ends = false;
  std::atomic<std::uint64_t> least = 1, most = 1;
  std::thread reader([&] {
    while (!ends) {
      const ServerStats now = server->stats();
      const std::uint64_t there = now.queued + now.handling;
      if (there < least) least = there;
      if (there > most) most = there;
    }
  });
  for (std::uint64_t i = 0; i < 2'000; ++i) {  // another one waits before the handler's is done
    one->ask(i + 1);
    one->push();
    until([&] { return server->stats().queued == 1; });
    server->answer(handler.wait(handler.chunks, i).ticket, Answer{});
    handler.wait(handler.chunks, i + 1);
    ASSERT_NE(one->await(FrameType::kResult), nullptr);
  }
  ends = true;
  reader.join();
  EXPECT_EQ(least, 1U);
  EXPECT_EQ(most, 2U);
}

TEST_F(Server, AResultLongerThanAskedForFails) {
  start();
  auto one = client();
  one->ask(1, 1, 9);
  one->push();
  const Ticket ticket = handler.wait(handler.chunks, 0).ticket;
  server->answer(ticket, Answer{"", payload_of("0123456789")});
  server->answer(ticket, Answer{"", payload_of("again")});
  EXPECT_EQ(one->expect<ChunkFailed>().error.code, Code::kInvalidArgument);
  one->ask(2, 1, 10);
  one->push();
  server->answer(handler.wait(handler.chunks, 1).ticket, fail(Code::kIo, "no disk"));
  EXPECT_EQ(one->expect<ChunkFailed>().error.message, "no disk");
}

TEST_F(Server, PayloadsWaitForRoom) {
  options.bytes_max = options.request_bytes_max = options.result_bytes_max = 100'000;
  start();
  auto one = client();
  auto two = client(1);
  one->ask(1, 1, 0, std::string(90'000, 'a'));
  one->push();
  handler.wait(handler.chunks, 0);
  two->ask(1, 1, 0, std::string(90'000, 'b'));
  for (int i = 0; i < 10; ++i) two->push();
  EXPECT_EQ(server->stats().request_bytes, 90'000u);
  EXPECT_EQ(server->stats().handling, 1u);
  server->answer(handler.wait(handler.chunks, 0).ticket, Answer{});
  while (server->stats().handling + server->stats().queued == 0 || server->stats().answered == 0) two->push();
  EXPECT_EQ(handler.wait(handler.chunks, 1).payload->bytes, 90'000u);
}

TEST_F(Server, WhoGoesLeavesNothingBehind) {
  options.handling_max = 1;
  start();
  auto one = client();
  for (const std::uint64_t request : {1, 2, 3}) one->ask(request, 1, 500, "xy");
  one->push();
  handler.wait(handler.chunks, 0);
  until([&] { return server->stats().queued == 2; });
  one.reset();
  EXPECT_EQ(handler.wait(handler.reasons, 0).code, Code::kClosed);
  until([&] { return server->stats().queued == 0; });
  server->answer(handler.wait(handler.chunks, 0).ticket, Answer{"", payload_of("z")});
  until([&] { return server->stats().handling == 0; });
  until([&] { return server->stats().request_bytes + server->stats().result_bytes == 0; });
}

TEST_F(Server, ConnectionsAreLimited) {
  options.connections_max = 2;
  start();
  auto one = client();
  auto two = client(1);
  Client three(socket());
  EXPECT_EQ(three.await(FrameType::kWelcome), nullptr);
  EXPECT_EQ(server->stats().refused, 1u);
  two.reset();
  until([&] { return server->stats().connections == 1; });
  two = client(2);
}

TEST_F(Server, StrangersThatSayNothingKeepNobodyOut) {
  options.connections_max = 2;
  options.strangers_max = 4;
  start();
  auto before = client();
  std::vector<UniqueFd> silent;
  for (int i = 0; i < 40; ++i) silent.push_back(socket());
  auto after = client(1);
  for (int i = 0; i < 40; ++i) silent.push_back(socket());
  before->ask(1, 1, 500, "xy");
  before->push();
  handler.wait(handler.chunks, 0);
  EXPECT_EQ(server->stats().connections, 6u) << "two that are known, and four strangers";
}

TEST_F(Server, ManyStrangersOfOneAddressKeepNoOtherOneOut) {
  options.strangers_max = 4;
  start();
  UniqueFd other(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in here{
      .sin_family = AF_INET, .sin_port = 0, .sin_addr = {htonl(INADDR_LOOPBACK + 1)}, .sin_zero = {}};
  ASSERT_EQ(bind(other.get(), reinterpret_cast<const sockaddr*>(&here), sizeof(here)), 0) << errno;
  sockaddr_in there = here;
  there.sin_port = htons(server->port());
  there.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(connect(other.get(), reinterpret_cast<const sockaddr*>(&there), sizeof(there)), 0) << errno;
  std::vector<UniqueFd> silent;
  for (int i = 0; i < 40; ++i) silent.push_back(socket());
  until([&] { return server->stats().refused >= 37; });
  ASSERT_EQ(fcntl(other.get(), F_SETFL, O_NONBLOCK), 0);
  Client alone(std::move(other));
  alone.connection.send(Hello{.client = "alone"});
  EXPECT_EQ(alone.expect<Welcome>().server, "test");
}

TEST_F(Server, HandshakesThatStopHalfWayHaveALimitOfTheirOwn) {
  options.strangers_max = 3;
  start();
  const std::string half = frame_bytes(Hello{}).substr(0, 20);
  std::vector<UniqueFd> halves;
  for (int i = 0; i < 20; ++i) {
    halves.push_back(socket());
    ASSERT_EQ(send(halves.back().get(), half.data(), half.size(), MSG_NOSIGNAL), 20);
  }
  until([&] { return server->stats().refused >= 17; });
  auto one = client();
  EXPECT_LE(server->stats().connections, 4u);
}

TEST_F(Server, HalvesOfAClientHelloKeepNobodyOutOfTls) {
  const Certificates certificates;
  options.tls = certificates.of("server");
  options.strangers_max = 3;
  options.hello_ms = 600'000;
  start();
  auto context = TlsContext::create(certificates.of("client"));
  ASSERT_TRUE(context);
  auto [end, wire] = socket_pair();
  TlsSession draws, session;
  Client draft(*(*context)->connect(std::move(end), "localhost", draws));
  draft.connection.send(Hello{});
  draft.push();
  std::string half(1 << 14, '\0');
  const ssize_t whole = recv(wire.get(), half.data(), half.size(), 0);
  ASSERT_GT(whole, 100);
  ASSERT_EQ(half.substr(0, 2), "\x16\x03") << "a handshake's record";
  half.resize(static_cast<std::size_t>(whole) / 2);
  std::vector<UniqueFd> halves;
  const auto come = [&] {
    for (int i = 0; i < 40; ++i) {
      halves.push_back(socket());
      ASSERT_EQ(send(halves.back().get(), half.data(), half.size(), MSG_NOSIGNAL), std::ssize(half));
    }
  };
  come();
  until([&] { return server->stats().refused >= 37; });
  Client one(*(*context)->connect(socket(), "localhost", session));
  one.connection.send(Hello{.client = "c"});
  EXPECT_EQ(one.expect<Welcome>().server, "test");
  come();
  until([&] { return server->stats().connections_so_far == 81; });
  EXPECT_EQ(server->stats().connections, 4u) << "one that is known, and three strangers";
  one.connection.send(Ping{}, 7);
  one.expect<Pong>();
}

TEST_F(Server, WhoIsSilentIsClosed) {
  options.heartbeat_ms = 10;
  options.silent_ms = 200;
  start();
  Client gone(socket());
  gone.connection.send(Hello{});
  gone.expect<Welcome>();
  EXPECT_NE(gone.await(FrameType::kPing), nullptr);
  const Error reason = handler.wait(handler.reasons, 0);
  EXPECT_EQ(reason.code, Code::kTimeout) << reason.message;
  EXPECT_NE(reason.message.find("silent"), std::string::npos) << reason.message;
}

TEST_F(Server, WhoDoesNotSayWhoItIsIsClosed) {
  options.hello_ms = 100;
  start();
  Client mute(socket());
  EXPECT_NE(mute.told().find("Hello"), std::string::npos);
}

TEST_F(Server, AFrameThatNeverEndsIsNotWaitedFor) {
  options.chunk_ms = 100;
  options.heartbeat_ms = 20;
  start();
  auto one = client();
  const std::string bytes = frame_bytes(Request{1, "", 0}, 1, std::string(1000, 'x'));
  ASSERT_EQ(send(one->connection.fd(), bytes.data(), bytes.size() - 1, MSG_NOSIGNAL),
            static_cast<ssize_t>(bytes.size() - 1));
  EXPECT_EQ(handler.wait(handler.reasons, 0).code, Code::kTimeout);
  until([&] { return server->stats().request_bytes == 0; });
}

TEST_F(Server, DrainingFinishesWhatItHas) {
  options.heartbeat_ms = 20;
  start();
  auto one = client();
  one->ask(1, 1, 100'000);
  one->push();
  const Asked asked = handler.wait(handler.chunks, 0);
  server->drain();
  one->expect<Drain>();
  one->ask(2);
  EXPECT_EQ(one->expect<ChunkFailed>().error.code, Code::kClosed);
  server->answer(asked.ticket, Answer{"", payload_of(pattern(100'000, 3))});
  const auto* result = one->await(FrameType::kResult);
  ASSERT_NE(result, nullptr);
  EXPECT_TRUE(result->payload == pattern(100'000, 3));
  one.reset();
  thread.join();  // run() has ended by itself
}

TEST_F(Server, WhatIsNotDoneWithinTheGraceTimeIsGivenBack) {
  options.heartbeat_ms = 20;
  options.grace_ms = 30;
  options.handling_max = 1;
  start();
  auto one = client();
  one->ask(1, 1, 100);  // begun
  one->ask(2, 1, 100);  // waits
  one->push();
  const Asked asked = handler.wait(handler.chunks, 0);
  server->drain();
  one->expect<Drain>();
  for (int i = 0; i < 2; ++i) EXPECT_EQ(one->expect<ChunkFailed>().error.code, Code::kClosed);
  EXPECT_EQ(server->stats().queued, 0U);
  server->answer(asked.ticket, Answer{"", payload_of(pattern(100, 3))});  // too late: nobody is told
  one.reset();
  thread.join();
  EXPECT_EQ(handler.chunks.size(), 1U);
}

TEST_F(Server, WhoUsesItIsToldToWhoIsWelcome) {
  start();
  auto host = client();
  host->ask(1, 1, 100);
  host->push();
  const Asked asked = handler.wait(handler.chunks, 0);
  auto looks = client(1);
  looks->connection.send(AskUsage{}, 7);
  looks->push();
  const UsageIs usage = looks->expect<UsageIs>();
  EXPECT_EQ(usage.threads, options.threads);
  EXPECT_EQ(usage.clients_all, 1U);  // who looks is none
  ASSERT_EQ(usage.clients.size(), 1U);
  EXPECT_TRUE(usage.clients[0].asks);
  EXPECT_EQ(usage.clients[0].in_flight, 1U);
  EXPECT_FALSE(usage.drains);
  Client stranger(socket());
  stranger.connection.send(AskUsage{});
  stranger.push();
  EXPECT_NE(stranger.told().find("AskUsage before Hello"), std::string::npos);
  server->answer(asked.ticket, Answer{"", payload_of(pattern(100, 3))});
}

TEST_F(Server, RubbishHarmsNobodyElse) {
  options.heartbeat_ms = 20;
  start();
  auto good = client();
  std::mt19937_64 random(4);
  const std::string talk = frame_bytes(Hello{.client = "x"}) + frame_bytes(Register{1, ""}, 1, "d") +
                           frame_bytes(Request{1, "x", 10}, 2, "payload");
  for (int round = 0; round < 200; ++round) {
    std::string bad = talk;
    for (int change = 0; change < 2; ++change) bad[random() % bad.size()] = static_cast<char>(random());
    bad.resize(1 + random() % bad.size());
    Client client(socket());
    static_cast<void>(is_connected(client.connection.fd()));
    static_cast<void>(send(client.connection.fd(), bad.data(), bad.size(), MSG_NOSIGNAL));
  }
  good->ask(1);
  const auto chunk_of_good = [&] {
    for (std::size_t i = 0;; ++i) {
      const Asked asked = handler.wait(handler.chunks, i);
      if (asked.about == "r1") return asked;
      server->answer(asked.ticket, Answer{});
    }
  };
  good->step();
  server->answer(chunk_of_good().ticket, Answer{"fine"});
  EXPECT_EQ(good->expect<ChunkResult>().about, "fine");
}

TEST_F(Server, PlainTcpBeyondThisMachineIsRefusedUnlessSaid) {
  options.listen = "0.0.0.0:0";
  const auto refused = ChunkServer::create(options, handler);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kInvalidArgument);
  options.insecure = true;
  EXPECT_TRUE(ChunkServer::create(options, handler));
  options.listen = "nonsense";
  EXPECT_FALSE(ChunkServer::create(options, handler));
}

TEST_F(Server, ListensAtAUnixSocketAndReplacesADeadOne) {
  std::string folder = (std::filesystem::temp_directory_path() / "carya_remote_XXXXXX").string();
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  options.listen = "unix:" + folder + "/w";
  for (int round = 0; round < 2; ++round) {
    start();
    EXPECT_FALSE(ChunkServer::create(options, handler)) << "somebody listens there";
    auto one = client(round);
    end();
    server.reset();
  }
  std::filesystem::remove_all(folder);
}

TEST_F(Server, TheFileOfItsUnixSocketGoesWithIt) {
  const std::string folder =
      std::filesystem::temp_directory_path() / ("carya_file_" + std::to_string(getpid()));
  std::filesystem::create_directory(folder);
  const std::string path = folder + "/w";
  options.listen = "unix:" + path;
  for (const bool drains : {false, true}) {
    start();
    EXPECT_TRUE(std::filesystem::exists(path));
    if (drains) {
      server->drain();
      until([&] { return !std::filesystem::exists(path); });
    }
    end();
    server.reset();
    EXPECT_FALSE(std::filesystem::exists(path));
  }
  // Another one's, put in its place meanwhile, stays.
  start();
  std::filesystem::remove(path);
  const UniqueFd other = *Address::resolve(options.listen)->listen();
  end();
  server.reset();
  EXPECT_TRUE(std::filesystem::exists(path));
  std::filesystem::remove_all(folder);
}

TEST_F(Server, SpeaksTls) {
  const Certificates certificates;
  options.tls = certificates.of("server");
  options.client_names = {"client.test"};
  start();
  auto context = TlsContext::create(certificates.of("client"));
  ASSERT_TRUE(context);
  TlsSession session;
  auto stream = (*context)->connect(socket(), "localhost", session);
  ASSERT_TRUE(stream);
  Client one(std::move(*stream));
  one.connection.send(Hello{});
  EXPECT_EQ(one.expect<Welcome>().server, "test");
  Client plain(socket());
  plain.connection.send(Hello{});
  EXPECT_EQ(plain.await(FrameType::kWelcome), nullptr);
}

TEST_F(Server, ACancelledRequestIsNotBegun) {
  options.handling_max = 1;
  start();
  auto one = client();
  for (const std::uint64_t request : {1, 2, 3}) one->ask(request);
  const Ticket first = handler.wait(handler.chunks, 0).ticket;
  one->connection.send(Cancel{}, 2);
  one->push();
  EXPECT_EQ(one->expect<ChunkFailed>().error.code, Code::kClosed);
  EXPECT_EQ(one->sink.frames[one->seen - 1].header.request, 2u);
  one->connection.send(Cancel{}, 1);  // the handler has it: that is the handler's to say
  one->connection.send(Cancel{}, 2);  // has its answer
  one->push();
  EXPECT_EQ(handler.wait(handler.cancelled, 0), first.serial);
  server->answer(first, Answer{"all the same"});
  EXPECT_EQ(one->expect<ChunkResult>().about, "all the same");
  EXPECT_EQ(handler.wait(handler.chunks, 1).about, "r3");
  EXPECT_EQ(handler.cancelled.size(), 1u);
}

}  // namespace
}  // namespace carya::remote
