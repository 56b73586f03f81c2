#include "remote/protocol/tls.h"

#include <gtest/gtest.h>
#include <openssl/err.h>
#include <openssl/ssl.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>

#include "tests/remote/certificates.h"
#include "tests/remote/wire.h"

namespace carya::remote {
namespace {

/// A client and a server over one socket pair, and how it went.
struct Talk {
  Talk(TlsContext& client_side, TlsContext& server_side, const std::string& host, TlsSession& session,
       std::vector<std::string> names = {}) {
    auto ends = socket_pair();
    auto client_stream = client_side.connect(std::move(ends.first), host, session);
    auto server_stream = server_side.accept(std::move(ends.second), std::move(names));
    CHECK(client_stream && server_stream);
    client.emplace(std::move(*client_stream), client_sink);
    server.emplace(std::move(*server_stream), server_sink);
    client->set_limits({.body_bytes = 4096, .payload_bytes = 64 << 20});
    server->set_limits({.body_bytes = 4096, .payload_bytes = 64 << 20});
  }

  /// Both go on until a frame of the client has been answered, or one of them says no.
  void run() {
    client->send(Request{1, "hello", 0}, 1, payload_of(pattern(3'000'000, 1)));
    while (client_sink.frames.empty() && client_status && server_status) step();
    for (int i = 0; i < 4; ++i) step();  // who was refused hears it
  }
  void step() {
    if (client_status) client_status = client->on_ready();
    if (!client_status) client->close();
    if (server_status) server_status = server->on_ready();
    if (server_status && server_sink.frames.size() == 1 && !answered) {
      server->send(ChunkResult{}, 1, payload_of(pattern(3'000'000, 2)));
      answered = true;
    }
  }

  Collector client_sink, server_sink;
  std::optional<Connection> client, server;
  Status client_status, server_status;
  bool answered = false;
};

struct Tls : testing::Test {
  std::shared_ptr<TlsContext> context(const Certificates& from, const std::string& who) {
    auto made = TlsContext::create(from.of(who));
    CHECK(made);
    return *made;
  }
  Certificates ours;
  TlsSession session;
};

TEST_F(Tls, FramesGoBothWaysStraightIntoTheirParts) {
  std::string memory(3'000'000, '.');
  Talk talk(*context(ours, "client"), *context(ours, "server"), "w1.test", session);
  talk.client_sink.parts = {std::as_writable_bytes(std::span(memory))};
  talk.run();
  ASSERT_TRUE(talk.client_status) << talk.client_status.error().message;
  ASSERT_TRUE(talk.server_status) << talk.server_status.error().message;
  ASSERT_EQ(talk.client_sink.frames.size(), 1u);
  EXPECT_TRUE(memory == pattern(3'000'000, 2));
  EXPECT_TRUE(talk.server_sink.frames[0].payload == pattern(3'000'000, 1));
  EXPECT_LE(talk.client->copied_bytes(), Connection::kInputBytes);
  EXPECT_EQ(talk.client->kind(), "TLSv1.3");
}

TEST_F(Tls, AWithdrawnPayloadIsThrownAway) {
  std::string memory(3'000'000, '.');
  Talk talk(*context(ours, "client"), *context(ours, "server"), "localhost", session);
  talk.client_sink.parts = {std::as_writable_bytes(std::span(memory))};
  talk.client->send(Request{1, "hello", 0}, 1, payload_of("x"));
  while (talk.client->received_bytes() < 100'000) {
    talk.step();
    ASSERT_TRUE(talk.client_status && talk.server_status);
  }
  ASSERT_TRUE(talk.client->withdraw(1));
  memory.assign(memory.size(), '-');
  while (talk.client_sink.frames.empty()) {
    talk.step();
    ASSERT_TRUE(talk.client_status && talk.server_status);
  }
  EXPECT_FALSE(talk.client_sink.frames[0].placed);
  EXPECT_TRUE(memory == std::string(memory.size(), '-'));
}

TEST_F(Tls, TheServersNameIsChecked) {
  for (const char* good : {"w1.test", "localhost", "127.0.0.1"}) {
    TlsSession none;
    Talk talk(*context(ours, "client"), *context(ours, "server"), good, none);
    talk.run();
    EXPECT_TRUE(talk.client_status) << good << ": " << talk.client_status.error().message;
  }
  for (const char* bad : {"w2.test", "10.0.0.1"}) {
    TlsSession none;
    Talk talk(*context(ours, "client"), *context(ours, "server"), bad, none);
    talk.run();
    ASSERT_FALSE(talk.client_status) << bad;
    EXPECT_EQ(talk.client_status.error().code, Code::kPermission) << talk.client_status.error().message;
    EXPECT_TRUE(talk.server_sink.frames.empty());
  }
}

/// Whether a server lets a client of OpenSSL's own in, which speaks up to that version and may have a
/// certificate.
bool lets_in(TlsContext& server, const TlsFiles& files, int newest, bool certified) {
  auto ends = socket_pair();
  const auto stream = server.accept(std::move(ends.second), {});
  const std::unique_ptr<SSL_CTX, void (*)(SSL_CTX*)> theirs(SSL_CTX_new(TLS_client_method()), SSL_CTX_free);
  EXPECT_EQ(SSL_CTX_set_max_proto_version(theirs.get(), newest), 1);
  if (certified) {
    EXPECT_EQ(SSL_CTX_use_certificate_chain_file(theirs.get(), files.certificate.c_str()), 1);
    EXPECT_EQ(SSL_CTX_use_PrivateKey_file(theirs.get(), files.key.c_str(), SSL_FILETYPE_PEM), 1);
  }
  const std::unique_ptr<SSL, void (*)(SSL*)> client(SSL_new(theirs.get()), SSL_free);
  EXPECT_EQ(SSL_set_fd(client.get(), ends.first.get()), 1);
  SSL_set_connect_state(client.get());
  Result<bool> established = false;
  for (int i = 0; i < 1000 && established && !*established; ++i) {
    SSL_do_handshake(client.get());
    established = (*stream)->establish();
  }
  ERR_clear_error();
  return established && *established;
}

TEST_F(Tls, NothingOlderThanTls13IsSpoken) {
  EXPECT_TRUE(lets_in(*context(ours, "server"), ours.of("client"), TLS1_3_VERSION, true));
  EXPECT_FALSE(lets_in(*context(ours, "server"), ours.of("client"), TLS1_2_VERSION, true));
}

TEST_F(Tls, AClientWithoutACertificateIsRefused) {
  EXPECT_FALSE(lets_in(*context(ours, "server"), ours.of("client"), TLS1_3_VERSION, false));
}

TEST_F(Tls, CertificatesOfAnotherAuthorityAreRefusedBothWays) {
  const Certificates others;
  for (const bool foreign_client : {true, false}) {
    TlsSession none;
    // The foreigner trusts our authority, but shows a certificate of another one.
    TlsFiles files = others.of(foreign_client ? "client" : "server");
    files.authority = ours.of("client").authority;
    auto foreigner = TlsContext::create(files);
    ASSERT_TRUE(foreigner) << foreigner.error().message;
    auto native = context(ours, foreign_client ? "server" : "client");
    Talk talk(foreign_client ? **foreigner : *native, foreign_client ? *native : **foreigner, "localhost",
              none);
    talk.run();
    const Status& refuser = foreign_client ? talk.server_status : talk.client_status;
    const Status& refused = foreign_client ? talk.client_status : talk.server_status;
    ASSERT_FALSE(refuser);
    EXPECT_EQ(refuser.error().code, Code::kPermission) << refuser.error().message;
    ASSERT_FALSE(refused);
    EXPECT_TRUE(talk.server_sink.frames.empty());
  }
}

TEST_F(Tls, AServersCertificateIsNoClients) {
  Talk talk(*context(ours, "server"), *context(ours, "server"), "localhost", session);
  talk.run();
  ASSERT_FALSE(talk.server_status);
  EXPECT_EQ(talk.server_status.error().code, Code::kPermission) << talk.server_status.error().message;
}

TEST_F(Tls, OnlyClientsOfAListedNameMayCome) {
  Talk good(*context(ours, "client"), *context(ours, "server"), "localhost", session, {"x", "client.test"});
  good.run();
  EXPECT_TRUE(good.server_status) << good.server_status.error().message;
  TlsSession none;
  Talk bad(*context(ours, "client"), *context(ours, "server"), "localhost", none, {"other.test"});
  bad.run();
  ASSERT_FALSE(bad.server_status);
  EXPECT_EQ(bad.server_status.error().code, Code::kPermission);
}

TEST_F(Tls, ASessionIsResumed) {
  const auto client = context(ours, "client"), server = context(ours, "server");
  for (int round = 0; round < 3; ++round) {
    Talk talk(*client, *server, "localhost", session, {"client.test"});
    talk.run();
    ASSERT_TRUE(talk.server_status) << talk.server_status.error().message;
    EXPECT_EQ(talk.client->kind(), round == 0 ? "TLSv1.3" : "TLSv1.3 resumed");
  }
}

TEST_F(Tls, TheUrisOfAClientsCertificateAreKnownAlsoOfAResumedSession) {
  const auto client = context(ours, "user-ann"), server = context(ours, "server");
  for (int round = 0; round < 2; ++round) {
    Talk talk(*client, *server, "localhost", session);
    EXPECT_TRUE(talk.server->peer_uris().empty()) << "nothing was shown yet";
    talk.run();
    ASSERT_TRUE(talk.server_status) << talk.server_status.error().message;
    EXPECT_EQ(talk.client->kind(), round == 0 ? "TLSv1.3" : "TLSv1.3 resumed");
    EXPECT_EQ(talk.server->peer_uris(), (std::vector<std::string>{"carya:user:ann", "carya:user:ben"}))
        << "and no other names";
    EXPECT_TRUE(talk.client->peer_uris().empty()) << "the server's certificate has none";
  }
}

TEST_F(Tls, PlainBytesAreNoHandshake) {
  auto ends = socket_pair();
  Collector sink;
  auto stream = context(ours, "server")->accept(std::move(ends.first), {});
  ASSERT_TRUE(stream);
  Connection server(std::move(*stream), sink);
  const std::string hello = frame_bytes(Hello{});
  ASSERT_GT(send(ends.second.get(), hello.data(), hello.size(), 0), 0);
  const Status refused = server.on_ready();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kCorrupt) << refused.error().message;
}

TEST_F(Tls, AnEndWithAndWithoutGoodbyeIsTold) {
  Talk talk(*context(ours, "client"), *context(ours, "server"), "localhost", session);
  talk.run();
  talk.client.reset();  // says goodbye
  EXPECT_EQ(talk.server->on_ready().error().code, Code::kClosed);
}

/// Files of one side that others take the place of.
class Renewed {
 public:
  explicit Renewed(const TlsFiles& first) {
    std::string name = (std::filesystem::temp_directory_path() / "carya_renewed_XXXXXX").string();
    CHECK(mkdtemp(name.data()) != nullptr);
    folder_ = name;
    files = {folder_ + "/own.pem", folder_ + "/own.key", folder_ + "/ca.pem"};
    become(first);
  }
  ~Renewed() { std::filesystem::remove_all(folder_); }
  Renewed(const Renewed&) = delete;
  Renewed& operator=(const Renewed&) = delete;

  void become(const TlsFiles& others) const {
    put(others.certificate, files.certificate);
    put(others.key, files.key);
    put(others.authority, files.authority);
  }

  TlsFiles files;

 private:
  static void put(const std::string& from, const std::string& to) {
    std::filesystem::copy_file(from, to + ".new");
    std::filesystem::rename(to + ".new", to);
  }
  std::string folder_;
};

TEST_F(Tls, CertificatesThatHaveChangedAreThoseOfTheNextConnections) {
  const Renewed own(ours.of("client")), its(ours.of("server"));
  const auto host = *TlsContext::create(own.files), worker = *TlsContext::create(its.files);
  Talk before(*host, *worker, "w1.test", session);
  before.run();
  Talk resumed(*host, *worker, "w1.test", session);
  resumed.run();
  EXPECT_EQ(resumed.client->kind(), "TLSv1.3 resumed");

  const Certificates others;
  its.become(others.of("server"));
  ASSERT_TRUE(worker->renew());
  TlsSession none;
  Talk strange(*host, *worker, "w1.test", none);
  strange.run();
  ASSERT_FALSE(strange.client_status) << "the host's authority did not sign that";
  EXPECT_EQ(strange.client_status.error().code, Code::kPermission);

  own.become(others.of("client"));
  ASSERT_TRUE(host->renew());
  Talk after(*host, *worker, "w1.test", session);
  after.run();
  ASSERT_TRUE(after.client_status) << after.client_status.error().message;
  EXPECT_EQ(after.client->kind(), "TLSv1.3");
  EXPECT_EQ(after.server_sink.frames.size(), 1u);
  before.client->send(Request{2, "hello", 0}, 2, payload_of("x"));
  for (int i = 0; i < 4; ++i) before.step();
  EXPECT_EQ(before.server_sink.frames.size(), 2u) << "connections go on";
}

TEST_F(Tls, AnotherCertificateGoesOnWithNoSessionOfTheOneBefore) {
  const Renewed own(ours.of("client"));
  const auto host = *TlsContext::create(own.files), worker = context(ours, "server");
  for (const char* kind : {"TLSv1.3", "TLSv1.3 resumed"}) {
    Talk talk(*host, *worker, "w1.test", session);
    talk.run();
    EXPECT_EQ(talk.client->kind(), kind);
  }
  own.become(ours.of("user-ann"));
  ASSERT_TRUE(host->renew());
  Talk talk(*host, *worker, "w1.test", session);
  talk.run();
  ASSERT_TRUE(talk.client_status && talk.server_status);
  EXPECT_EQ(talk.client->kind(), "TLSv1.3") << "the worker sees the new certificate";
}

TEST_F(Tls, NewCertificatesThatAreNoGoodLeaveThoseFromBefore) {
  const Renewed its(ours.of("server"));
  const auto host = context(ours, "client"), worker = *TlsContext::create(its.files);
  std::ofstream(its.files.key) << "half a ke";
  const Status renewed = worker->renew();
  ASSERT_FALSE(renewed);
  EXPECT_NE(renewed.error().message.find(its.files.key), std::string::npos) << renewed.error().message;
  EXPECT_TRUE(worker->renew()) << "it was said once";
  Talk talk(*host, *worker, "w1.test", session);
  talk.run();
  EXPECT_TRUE(talk.client_status && talk.server_status);
  std::filesystem::remove(its.files.certificate);
  EXPECT_FALSE(worker->renew());
  its.become(ours.of("server"));
  EXPECT_TRUE(worker->renew());
}

TEST_F(Tls, FilesThatAreNoneAreRefusedWithTheirNames) {
  TlsFiles missing = ours.of("server");
  missing.key += ".not";
  const auto no_key = TlsContext::create(missing);
  ASSERT_FALSE(no_key);
  EXPECT_NE(no_key.error().message.find(missing.key), std::string::npos) << no_key.error().message;
  TlsFiles mixed = ours.of("server");
  mixed.key = ours.of("client").key;
  EXPECT_FALSE(TlsContext::create(mixed));
}

}  // namespace
}  // namespace carya::remote
