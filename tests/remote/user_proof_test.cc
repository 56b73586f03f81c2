#include "remote/server/user_proof.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/remote/certificates.h"
#include "tests/remote/server_fixture.h"

namespace carya::remote {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::Pair;

std::string error_of(const std::string& text) {
  const auto tokens = parse_tokens(text);
  return tokens ? "" : tokens.error().message;
}

TEST(UserTokens, AreOfALineEachAndOfAUserWhereItNamesOne) {
  const auto tokens = parse_tokens("ann:one\n\n  ben : two words\r\nann:next\nanybody's\n:with:colon\n*:all");
  ASSERT_TRUE(tokens) << tokens.error().message;
  EXPECT_EQ(*tokens, (std::vector<UserToken>{{"ann", "one"},
                                             {"ben", "two words"},
                                             {"ann", "next"},
                                             {"", "anybody's"},
                                             {"", "with:colon"},
                                             {"*", "all"}}));
}

TEST(UserTokens, MistakesAreNamedByTheirLineAndSecretsAreNotShown) {
  for (const char* none : {"", "\n \n\t\n"}) EXPECT_THAT(error_of(none), HasSubstr("give a token")) << none;
  EXPECT_THAT(error_of("hush\nann:\n"), HasSubstr("line 2: give a token of 1 to 4096 bytes"));
  EXPECT_THAT(error_of(std::string(201, 'a') + ":hush"), HasSubstr("line 1: give"));
  EXPECT_THAT(error_of("ann:" + std::string(4097, 'x')), HasSubstr("line 1: give"));
  const std::string twice = error_of("ann:hush\n\nben:hush\n");
  EXPECT_THAT(twice, HasSubstr("line 3: an earlier line has the same token"));
  EXPECT_THAT(twice, Not(HasSubstr("hush")));
  EXPECT_EQ(error_of("ann:" + std::string(4096, 'x')), "");
}

/// What a client proves by the URIs of its certificate and by its token, "ann" or "ann?" where nothing proves it; why it is
/// refused.
std::string proven(const std::string& says, const std::vector<std::string>& uris,
                   const std::string& token = "", bool required = false) {
  const std::vector<UserToken> tokens{
      {"ann", "of ann"}, {"", "of anybody"}, {"*", "of all"}, {"ann", "of ann too"}};
  const auto user = prove_user({.token = token, .user = says}, uris,
                               token.empty() ? std::vector<UserToken>() : tokens, required);
  return user ? user->name + (user->proven ? "" : "?") : user.error().message;
}

TEST(UserProof, ACertificateSpeaksForItsUsers) {
  const std::vector<std::string> two{"https://example.test/", "carya:user:ann", "carya:user:ben"};
  EXPECT_EQ(proven("ann", two), "ann");
  EXPECT_EQ(proven("ben", two), "ben");
  EXPECT_EQ(proven("", two), "ann") << "a client of before";
  EXPECT_EQ(proven("carl", two),
            "the client says that it is carl, and its certificate speaks for ann, ben: give the certificate "
            "of carl, "
            "or \"user\": \"ann\" in remote_tls, or in [remote] of caryad.toml");
  EXPECT_EQ(proven("carl", {"carya:user:*"}), "carl");
  EXPECT_EQ(proven("", {"carya:user:*"}), "");
  for (const char* other : {"ann ", "an", "anne", "Ann", "*"})
    EXPECT_THAT(proven(other, {"carya:user:ann"}), HasSubstr("speaks for ann")) << other;
  EXPECT_THAT(proven("ann", {std::string("carya:user:ann\0", 15)}), HasSubstr("speaks for"));
}

TEST(UserProof, AUrisPrefixIsTheWholeOfIt) {
  for (const char* uri : {"carya:users:ann", "spiffe://carya:user:ann", "CARYA:user:ann", "carya:user"})
    EXPECT_EQ(proven("ann", {uri}), "ann?") << uri;
}

TEST(UserProof, ATokenIsOfItsUser) {
  EXPECT_EQ(proven("ann", {}, "of ann"), "ann");
  EXPECT_EQ(proven("ann", {}, "of ann too"), "ann");
  EXPECT_EQ(proven("", {}, "of ann"), "ann");
  EXPECT_EQ(proven("ben", {}, "of all"), "ben");
  EXPECT_EQ(proven("ben", {}, "of anybody"), "ben?");
  EXPECT_THAT(
      proven("ben", {}, "of ann"),
      HasSubstr(
          "says that it is ben, and its token speaks for ann: give the token of ben, or \"user\": \"ann\""));
  for (const char* wrong : {"of", "of ann ", "of bnn", "Of ann", "ann:of ann"})
    EXPECT_EQ(proven("ann", {}, wrong), "the client does not know the token") << wrong;
}

TEST(UserProof, TokenAndCertificateAreOfOneUser) {
  EXPECT_EQ(proven("ann", {"carya:user:ben", "carya:user:ann"}, "of ann"), "ann");
  EXPECT_EQ(proven("", {"carya:user:ben", "carya:user:ann"}, "of ann"), "ann");
  EXPECT_EQ(proven("ann", {"carya:user:*"}, "of ann"), "ann");
  EXPECT_EQ(proven("ben", {"carya:user:ben"}, "of all"), "ben");
  EXPECT_EQ(proven("ben", {"carya:user:ben"}, "of anybody"), "ben");
  EXPECT_THAT(proven("ben", {"carya:user:ben", "carya:user:ann"}, "of ann"),
              HasSubstr("its token speaks for ann"));
  EXPECT_THAT(proven("ann", {"carya:user:ben"}, "of all"), HasSubstr("its certificate speaks for ben"));
  for (const char* says : {"", "ann", "ben"})
    EXPECT_THAT(proven(says, {"carya:user:ben"}, "of ann"),
                HasSubstr("token is that of ann, and its certificate speaks for ben"));
}

TEST(UserProof, ProofMayBeRequired) {
  EXPECT_EQ(proven("ann", {"carya:user:ann"}, "", true), "ann");
  EXPECT_EQ(proven("ann", {}, "of ann", true), "ann");
  EXPECT_THAT(proven("ann", {"https://example.test/"}, "", true),
              HasSubstr("carya:user:NAME, or a user's token"));
  EXPECT_THAT(proven("ann", {}, "of anybody", true), HasSubstr("does not prove whose work it brings"));
}

TEST(UserProof, NoClaimIsAProof) {
  EXPECT_NE(party_of({"ann", true}), party_of({"ann", false}));
  EXPECT_NE(party_of({"ann", true}), party_of({"proven ann", false}));
  EXPECT_EQ(proven(std::string(1000, 'x'), {}).size(), 201u) << "cut";
  EXPECT_LT(proven(std::string(1000, 'x'), {"carya:user:" + std::string(1000, 'y')}).size(), 1000u);
}

struct ProvenUsers : Server {
  ProvenUsers() { options.heartbeat_ms = 600'000; }  // who has asked, asks
  /// The requests of its window once it and others have asked.
  static std::uint64_t window_of(Client& client) { return client.expect<Credit>().window.requests; }
  static void say_worth(Client& client, std::uint64_t worth) {
    client.connection.send(Ping{.worth = worth}, 1);
    client.expect<Pong>();
  }
};

TEST_F(ProvenUsers, WhoOnlySaysANameTakesNothingOfWhoProvesIt) {
  options.tokens = {{"ann", "of ann"}, {"", "of anybody"}};
  start();
  auto ann = client(0, "ann", "of ann");
  auto liar = client(1, "ann", "of anybody");
  say_worth(*ann, 1'000'000);
  say_worth(*liar, 9'000'000);
  ann->ask(1);
  handler.wait(handler.chunks, 0);
  liar->ask(1);
  EXPECT_EQ(window_of(*ann), options.requests_max / 2) << "one of nine, if they were of one user";
  EXPECT_EQ(window_of(*liar), options.requests_max / 2);
}

TEST_F(ProvenUsers, ThoseWhoProveOneNameShareWhatIsHis) {
  options.tokens = {{"ann", "of ann"}, {"ann", "of ann too"}};
  start();
  auto one = client(0, "ann", "of ann");
  auto before = client(1, "", "of ann too");
  say_worth(*one, 3'000'000);
  say_worth(*before, 1'000'000);
  one->ask(1);
  handler.wait(handler.chunks, 0);
  before->ask(1);
  EXPECT_EQ(window_of(*one), options.requests_max * 3 / 4);
  EXPECT_EQ(window_of(*before), options.requests_max / 4);
}

TEST_F(ProvenUsers, NoneHasMoreThanTheBoundWhateverHisHostsSay) {
  options.tokens = {{"ann", "of ann"}, {"ben", "of ben"}};
  options.user_weight_max = 2;
  start();
  auto ann = client(0, "ann", "of ann");
  auto ben = client(1, "ben", "of ben");
  ann->connection.send(Ping{.weight = 100'000}, 1);
  ann->expect<Pong>();
  ann->ask(1);
  handler.wait(handler.chunks, 0);
  ben->ask(1);
  EXPECT_EQ(window_of(*ben), options.requests_max / 3);
  EXPECT_EQ(window_of(*ann), options.requests_max * 2 / 3);
}

TEST_F(ProvenUsers, TurnsGoByWhoIsProven) {
  options.tokens = {{"ann", "of ann"}, {"", "of anybody"}};
  options.handling_max = 1;
  start();
  auto ann = client(0, "ann", "of ann");
  auto liar = client(1, "ann", "of anybody");
  say_worth(*ann, 1'000'000);
  say_worth(*liar, 9'000'000);
  for (std::uint64_t request = 1; request <= 5; ++request) ann->ask(request);
  const std::uint64_t first = handler.wait(handler.chunks, 0).ticket.connection;
  until([&] { return server->stats().queued == 4; });
  for (std::uint64_t request = 1; request <= 4; ++request) liar->ask(request);
  until([&] { return server->stats().queued == 8; });
  std::string order;
  for (std::size_t i = 0; i < 9; ++i) {
    const Asked asked = handler.wait(handler.chunks, i);
    order += asked.ticket.connection == first ? '1' : '2';
    server->answer(asked.ticket, Answer{});
  }
  EXPECT_EQ(order, "112121212");
}

TEST_F(ProvenUsers, AWrongUserOrTokenIsRefusedBeforeMemoryIsTaken) {
  options.tokens = {{"ann", "of ann"}, {"ben", "of ben"}};
  start();
  const auto told = [&](const std::string& user, const std::string& token) {
    Client stranger(socket());
    stranger.connection.send(Hello{.token = token, .user = user});
    return stranger.told();
  };
  EXPECT_THAT(told("ben", "of ann"), HasSubstr("its token speaks for ann"));
  EXPECT_EQ(told("ann", "guess"), "the client does not know the token");
  EXPECT_EQ(told("ann", ""), "the client does not know the token");
  until([&] { return server->stats().refused == 3; });
  EXPECT_EQ(server->stats().request_bytes, 0u);
  EXPECT_TRUE(handler.plans.empty());
  EXPECT_EQ(handler.admitted, 0);
}

TEST_F(ProvenUsers, CertificatesSayWhoseWorkItIsAlsoWhenSessionsAreResumed) {
  const Certificates certificates;
  options.tls = certificates.of("server");
  start();
  const auto context = *TlsContext::create(certificates.of("user-ann"));
  TlsSession session;
  const auto come = [&](const std::string& user) {
    auto made = std::make_unique<Client>(*context->connect(socket(), "localhost", session));
    made->connection.send(Hello{.client = "of " + user, .user = user});
    return made;
  };
  const auto ann = come("ann");
  ann->expect<Welcome>();
  EXPECT_EQ(ann->connection.kind(), "TLSv1.3");
  EXPECT_THAT(ann->connection.peer_uris(), ElementsAre()) << "the server's certificate has none";
  const auto ben = come("ben");
  ben->expect<Welcome>();
  EXPECT_EQ(ben->connection.kind(), "TLSv1.3 resumed");
  const auto before = come("");
  before->expect<Welcome>();
  EXPECT_THAT(come("carl")->told(),
              HasSubstr("says that it is carl, and its certificate speaks for ann, ben"));
  ann->connection.send(AskUsage{}, 7);
  ben->ask(1);
  std::map<std::string, std::pair<std::string, bool>> users;
  for (const ClientUsage& one : ann->expect<UsageIs>().clients) users[one.client] = {one.user, one.proven};
  EXPECT_THAT(users, ElementsAre(Pair("of ", Pair("ann", true)), Pair("of ben", Pair("ben", true))));
}

TEST_F(ProvenUsers, AHostOfAllUsersAndOneThatProvesNone) {
  const Certificates certificates;
  options.tls = certificates.of("server");
  start();
  const auto proven = [&](const std::string& certificate) {
    const auto context = *TlsContext::create(certificates.of(certificate));
    TlsSession session;
    Client host(*context->connect(socket(), "localhost", session));
    host.connection.send(Hello{.client = "c", .user = "carl"});
    host.expect<Welcome>();
    host.ask(1);
    Client looks(*context->connect(socket(), "localhost", session));
    looks.connection.send(Hello{.client = "looks"});
    looks.expect<Welcome>();
    looks.connection.send(AskUsage{}, 1);
    const UsageIs usage = looks.expect<UsageIs>();
    EXPECT_EQ(usage.clients.size(), 1u);
    EXPECT_EQ(usage.clients.at(0).user, "carl");
    return usage.clients.at(0).proven;
  };
  EXPECT_TRUE(proven("user-any"));
  until([&] { return server->stats().connections == 0; });
  EXPECT_FALSE(proven("client"));
  end();
  options.proven_users = true;
  start();
  const auto context = *TlsContext::create(certificates.of("client"));
  TlsSession session;
  Client nobody(*context->connect(socket(), "localhost", session));
  nobody.connection.send(Hello{.user = "ann"});
  EXPECT_THAT(nobody.told(), HasSubstr("does not prove whose work it brings"));
}

}  // namespace
}  // namespace carya::remote
