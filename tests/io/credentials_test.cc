// Who asks a store: signatures, profiles, tokens, and when they are renewed.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <ctime>
#include <fstream>
#include <map>
#include <thread>
#include <vector>

#include "io/credentials/aws_keys.h"
#include "io/credentials/aws_profile.h"
#include "io/credentials/base64.h"
#include "io/credentials/google_grant.h"
#include "io/credentials/jwt.h"
#include "io/credentials/lent_grants.h"
#include "io/credentials/program_output.h"
#include "io/credentials/renewal.h"
#include "io/credentials/shared_key.h"
#include "io/credentials/sigv4.h"
#include "io/credentials/token_answer.h"
#include "io/http/store_access.h"
#include "tests/io/temp_dir.h"

namespace carya::io {
namespace {

// Source: AWS Signature Version 4 test suite, get-vanilla and get-vanilla-query-order-key-case.
TEST(Sigv4, GivesThePublishedSignatures) {
  const Grant keys{
      .access_key = "AKIDEXAMPLE", .secret_key = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", .token = {}};
  SigningInput input{.method = "GET",
                     .encoded_path = "/",
                     .query = {},
                     .headers = {{"x-amz-date", "20150830T123600Z"}, {"host", "example.amazonaws.com"}},
                     .payload_sha256 = kEmptySha256,
                     .region = "us-east-1",
                     .service = "service",
                     .date = "20150830T123600Z"};
  EXPECT_EQ(sigv4_authorization(input, keys),
            "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, "
            "SignedHeaders=host;x-amz-date, "
            "Signature=5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31");
  input.query = {{"Param2", "value2"}, {"Param1", "value1"}};
  EXPECT_TRUE(sigv4_authorization(input, keys)
                  .ends_with("b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500"));
}

// Source: Amazon S3 API Reference, "Authenticating Requests: Using the Authorization Header", GET Object.
TEST(Sigv4, GivesTheSignatureOfS3sExample) {
  const SigningInput input{.method = "GET",
                           .encoded_path = "/test.txt",
                           .query = {},
                           .headers = {{"host", "examplebucket.s3.amazonaws.com"},
                                       {"range", "bytes=0-9"},
                                       {"x-amz-content-sha256", std::string(kEmptySha256)},
                                       {"x-amz-date", "20130524T000000Z"}},
                           .payload_sha256 = kEmptySha256,
                           .region = "us-east-1",
                           .service = "s3",
                           .date = "20130524T000000Z"};
  EXPECT_TRUE(sigv4_authorization(input, {.access_key = "AKIAIOSFODNN7EXAMPLE",
                                          .secret_key = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
                                          .token = {}})
                  .ends_with("f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"));
}

TEST(Sigv4, WithoutKeysNothingIsSigned) {
  EXPECT_TRUE(sigv4_headers({.method = "GET", .host = "host", .path = "/a"}, {}, "us-east-1", "s3").empty());
}

TEST(AwsProfile, TakesTheEnvironmentBeforeTheFilesAndMixesNoKeys) {
  TempDir dir;
  std::ofstream(dir.path() + "/credentials")
      << "; a comment\n[default]\naws_access_key_id = A\naws_secret_access_key=B\n"
         "[train]\naws_access_key_id = C\r\naws_secret_access_key = D = E\naws_session_token = F\n";
  std::ofstream(dir.path() + "/config") << "[profile train]\nregion = eu-west-1\ns3 =\n  endpoint_url = no\n";
  Environment environment{.variables = {{"AWS_SHARED_CREDENTIALS_FILE", dir.path() + "/credentials"},
                                        {"AWS_CONFIG_FILE", dir.path() + "/config"}}};
  auto& variables = environment.variables;
  const auto read = [&] { return read_aws_profile(environment); };
  EXPECT_EQ(read().keys, (Grant{"A", "B", ""}));
  EXPECT_EQ(read().region, "us-east-1");
  variables["AWS_PROFILE"] = "train";
  EXPECT_EQ(read().keys, (Grant{"C", "D = E", "F"}));
  EXPECT_EQ(read().region, "eu-west-1");
  EXPECT_EQ(read().endpoint, "");
  variables["AWS_ACCESS_KEY_ID"] = "G";
  EXPECT_EQ(read().keys, (Grant{"C", "D = E", "F"}));
  variables["AWS_SECRET_ACCESS_KEY"] = "H";
  EXPECT_EQ(read().keys, (Grant{"G", "H", ""}));
  variables["AWS_PROFILE"] = "nobody";
  variables.erase("AWS_ACCESS_KEY_ID");
  EXPECT_EQ(read().keys, Grant{});
}

// The expected values are those of azure-storage-blob 12.31.1 (SharedKeyCredentialPolicy).
TEST(SharedKey, GivesTheSignaturesOfAzuresLibrary) {
  const std::string key =
      "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";
  const auto signature = [&](const std::string& account, UnsignedRequest request) {
    request.headers.emplace_back("x-ms-version", "2021-12-02");
    request.unix_seconds = 1435361952;
    const auto lines = shared_key_headers(request, {.access_key = account, .secret_key = key});
    EXPECT_EQ(lines.at(0), "x-ms-date: Fri, 26 Jun 2015 23:39:12 GMT");
    return lines.at(1);
  };
  EXPECT_EQ(signature("devstoreaccount1", {.method = "GET",
                                           .path = "/devstoreaccount1/box/a%20b/%C3%BC.tar",
                                           .headers = {{"x-ms-range", "bytes=0-9"},
                                                       {"if-match", "\"0x8D\""},
                                                       {"accept-encoding", "identity"}}}),
            "Authorization: SharedKey devstoreaccount1:qdYKODIsbVj1gVFeAvqNlDQe/2h+rvqde3uRCQw/uX4=");
  EXPECT_EQ(signature("account",
                      {.method = "GET",
                       .path = "/box",
                       .query = {{"restype", "container"}, {"prefix", "a b/\xc3\xbc"}, {"comp", "list"}}}),
            "Authorization: SharedKey account:idfAKnVGBdr88xWf53kw0Omypw3sfVYfTTjVGR5th8s=");
  EXPECT_EQ(signature("account", {.method = "HEAD", .path = "/box/k"}),
            "Authorization: SharedKey account:oky3oCCcD5hk6EpA65aP9/tDzkekzOn2mQl+pavXYDI=");
  EXPECT_TRUE(
      shared_key_headers({.method = "GET", .path = "/"}, {.access_key = "a", .secret_key = "no"}).empty());
}

TEST(Base64, IsThatOfTheRfc) {
  for (const auto& [plain, text] : std::vector<std::pair<std::string, std::string>>{
           {"f", "Zg=="}, {"fo", "Zm8="}, {"foo", "Zm9v"}, {"foob", "Zm9vYg=="}, {"foobar", "Zm9vYmFy"}}) {
    EXPECT_EQ(base64_encoded(plain), text);
    EXPECT_EQ(base64_decoded(text), plain);
  }
  EXPECT_EQ(base64url_encoded("\xfb\xff\xfe?"), "-__-Pw");
  for (const char* wrong : {"", "Zg", "Zg=", "Z===", "Zm9v!", "####"})
    EXPECT_FALSE(base64_decoded(wrong)) << wrong;
}

TEST(Grant, TimesAreReadAndNothingElseIs) {
  EXPECT_EQ(iso_time_seconds("2015-10-21T07:28:00Z"), 1445412480);
  EXPECT_EQ(iso_time_seconds("2015-10-21T07:28:00.123Z"), 1445412480);
  EXPECT_EQ(iso_time_seconds("2015-10-21T07:28:00+00:00"), 1445412480);
  for (const char* wrong : {"", "tomorrow", "2015-10-21T07:28:00", "2015-10-21T07:28:00+02:00", "2015-10-21"})
    EXPECT_EQ(iso_time_seconds(wrong), 0) << wrong;
}

std::int64_t in(std::int64_t seconds) {
  return static_cast<std::int64_t>(std::time(nullptr)) + seconds;
}

TEST(Renewal, ManyWhoNeedItAskOnce) {
  std::atomic<int> asked = 0;
  Renewal renewal([&]() -> Result<Grant> {
    ++asked;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    return Grant{.access_key = "A", .secret_key = "B"};
  });
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) threads.emplace_back([&] { EXPECT_EQ(renewal.current().access_key, "A"); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(asked, 1);
}

TEST(Renewal, IsRenewedBeforeItExpiresWhileTheOldOneIsUsed) {
  std::atomic<int> asked = 0;
  std::atomic<bool> go = false;
  Renewal renewal([&]() -> Result<Grant> {
    const int number = ++asked;
    while (number == 2 && !go) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return Grant{.token = std::to_string(number), .expires_s = number == 1 ? in(4) : in(3600)};
  });
  EXPECT_EQ(renewal.current().token, "1");
  // Half of its time is over after two seconds; the second ask does not end, and nobody waits for it.
  while (asked < 2) {
    EXPECT_EQ(renewal.current().token, "1");
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  EXPECT_EQ(renewal.current().token, "1");
  go = true;
  while (renewal.current().token != "2") std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_EQ(asked, 2);
}

TEST(Renewal, WhatExpiredIsUsedByNobody) {
  int asked = 0;
  Renewal renewal([&]() -> Result<Grant> {
    if (++asked > 1) return fail(Code::kIo, "away");
    return Grant{.token = "1", .expires_s = in(1)};
  });
  EXPECT_EQ(renewal.current().token, "1");
  while (!renewal.current().empty()) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  ASSERT_TRUE(renewal.failure());
  EXPECT_EQ(renewal.failure()->message, "away");
}

TEST(Renewal, WhatAStoreRefusedIsAskedForAgainOnceASecond) {
  int asked = 0;
  Renewal renewal([&]() -> Result<Grant> { return Grant{.token = std::to_string(++asked)}; });
  EXPECT_EQ(renewal.current().token, "1");
  renewal.refused();
  EXPECT_EQ(renewal.current().token, "1");
  std::this_thread::sleep_for(std::chrono::milliseconds(1100));
  renewal.refused();
  EXPECT_EQ(renewal.current().token, "2");
}

TEST(Renewal, WhatCouldEndAHeaderIsNoGrant) {
  Renewal renewal([&]() -> Result<Grant> { return Grant{.token = "a\r\nHost: evil"}; });
  EXPECT_TRUE(renewal.current().empty());
  EXPECT_TRUE(renewal.failure());
}

FetchAnswer ok(std::string body) {
  return {.status = 200, .body = std::move(body)};
}

TEST(TokenAnswer, IsAGrantOrSaysWhoGaveNone) {
  const auto grant = token_of(ok(R"({"access_token": "t", "expires_in": 3599})"), "the server");
  ASSERT_TRUE(grant);
  EXPECT_EQ(grant->token, "t");
  EXPECT_NEAR(static_cast<double>(grant->expires_s), static_cast<double>(in(3599)), 5);
  for (const char* body :
       {"", "[]", "{}", R"({"access_token": 1})", R"({"access_token": "", "expires_in": 1})",
        R"({"access_token": "t"})", R"({"access_token": "t", "expires_in": -5})", "\xff"})
    EXPECT_EQ(token_of(ok(body), "the server").error().code, Code::kIo) << body;
  EXPECT_EQ(token_of(FetchAnswer{.status = 403}, "the server").error().code, Code::kPermission);
  EXPECT_EQ(token_of(FetchAnswer{.status = 503}, "the server").error().code, Code::kIo);
}

TEST(TokenAnswer, SecretsGoToServersOfTlsOrThisMachineOnly) {
  for (const char* url :
       {"https://host/token", "http://127.0.0.1:8080/", "http://localhost/", "http://[::1]:80/"})
    EXPECT_TRUE(is_private_url(url)) << url;
  for (const char* url :
       {"http://host/token", "http://127.0.0.1.evil/", "http://localhost.evil", "ftp://127.0.0.1", ""})
    EXPECT_FALSE(is_private_url(url)) << url;
}

TEST(GoogleGrant, TakesTheFirstThatThereIs) {
  TempDir home;
  int asked = 0;
  const Fetch fetch = [&](const FetchQuestion& question) -> Result<FetchAnswer> {
    ++asked;
    EXPECT_EQ(question.url, "http://meta:80/computeMetadata/v1/instance/service-accounts/default/token");
    EXPECT_TRUE(question.direct);
    return ok(R"({"access_token": "metadata", "expires_in": 100})");
  };
  Environment environment{.variables = {{"HOME", home.path()}, {"GCE_METADATA_HOST", "meta:80"}}};
  EXPECT_EQ(google_grant(environment, fetch)->token, "metadata");
  environment.variables["GOOGLE_OAUTH_ACCESS_TOKEN"] = "given";
  EXPECT_EQ(google_grant(environment, fetch)->token, "given");
  environment.variables["GS_ACCESS_KEY_ID"] = "id";
  EXPECT_EQ(google_grant(environment, fetch)->token, "given");
  environment.variables["GS_SECRET_ACCESS_KEY"] = "secret";
  EXPECT_EQ(google_grant(environment, fetch)->access_key, "id");
  EXPECT_EQ(asked, 1);
}

TEST(GoogleGrant, AFileThatIsNoneSaysSoWithoutWhatItHolds) {
  TempDir dir;
  const Fetch nobody = [](const FetchQuestion&) -> Result<FetchAnswer> { return fail(Code::kIo, "asked"); };
  const Environment environment{.variables = {{"GOOGLE_APPLICATION_CREDENTIALS", dir.path() + "/a.json"}}};
  EXPECT_EQ(google_grant(environment, nobody).error().code, Code::kNotFound);
  for (const char* text :
       {"geheim", "[]", R"({"type": "external_account", "x": "geheim"})",
        R"({"type": "service_account", "private_key": "geheim", "client_email": "a@b"})",
        R"({"type": "service_account", "private_key": 5})",
        R"({"type": "authorized_user", "token_uri": "http://evil/token", "refresh_token": "geheim"})"}) {
    std::ofstream(dir.path() + "/a.json") << text;
    const auto grant = google_grant(environment, nobody);
    ASSERT_FALSE(grant) << text;
    EXPECT_EQ(grant.error().code, Code::kInvalidArgument) << grant.error().message;
    EXPECT_NE(grant.error().message.find("; give"), std::string::npos) << grant.error().message;
    EXPECT_EQ(grant.error().message.find("geheim"), std::string::npos) << grant.error().message;
  }
}

TEST(ProgramOutput, IsWhatItWritesAndNothingOfAFailure) {
  const std::vector<std::string> environment = {"PATH=/usr/bin:/bin", "GREETING=hello"};
  const auto run = [&](const std::string& command) {
    return program_output(command, environment, "the program");
  };
  EXPECT_EQ(run("printf '%s|' \"a b\" c'd'"), "a b|cd|");
  EXPECT_EQ(run("sh -c 'echo $GREETING'"), "hello\n");
  EXPECT_EQ(run("cat"), "");  // its input is empty
  EXPECT_EQ(run("").error().code, Code::kInvalidArgument);
  EXPECT_EQ(run("echo 'a").error().code, Code::kInvalidArgument);
  EXPECT_EQ(run("no-such-program").error().code, Code::kNotFound);
  EXPECT_EQ(run("head -c 100000 /dev/zero").error().code, Code::kIo);
  const auto failed = run("sh -c 'echo geheim; exit 3'");
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().message.find("geheim"), std::string::npos);
}

/// Who answers questions for keys in the tests: by URL, and what was asked.
struct Servers {
  std::map<std::string, FetchAnswer> answers;
  std::vector<FetchQuestion> asked;

  Fetch fetch() {
    return [this](const FetchQuestion& question) -> Result<FetchAnswer> {
      asked.push_back(question);
      const auto found = answers.find(question.method + " " + question.url);
      if (found == answers.end()) return fail(Code::kIo, "nobody is there");
      return found->second;
    };
  }
};

constexpr const char* kKeys =
    R"({"Code": "Success", "AccessKeyId": "A", "SecretAccessKey": "B", "Token": "T", "Expiration": "2040-01-01T00:00:00Z"})";
constexpr const char* kStsKeys =
    "<R><Credentials><AccessKeyId>S</AccessKeyId><SecretAccessKey>B</SecretAccessKey><SessionToken>T</"
    "SessionToken>"
    "<Expiration>2040-01-01T00:00:00Z</Expiration></Credentials></R>";

TEST(AwsKeys, AMachinesRoleIsAskedForByVersion2AndWhereAVariableNamesIt) {
  Servers servers;
  const std::string at = "http://169.254.169.254:80";
  servers.answers["PUT " + at + "/latest/api/token"] = ok("token");
  servers.answers["GET " + at + "/latest/meta-data/iam/security-credentials/"] = ok("a role\n");
  servers.answers["GET " + at + "/latest/meta-data/iam/security-credentials/a%20role"] = ok(kKeys);
  Environment environment{
      .variables = {{"HOME", "/nowhere"}, {"AWS_EC2_METADATA_SERVICE_ENDPOINT", at + "/"}}};
  const auto keys = aws_keys(environment, servers.fetch());
  ASSERT_TRUE(keys) << keys.error().message;
  EXPECT_EQ(*keys, (Grant{.access_key = "A", .secret_key = "B", .token = "T", .expires_s = 2208988800}));
  ASSERT_EQ(servers.asked.size(), 3u);
  EXPECT_EQ(servers.asked[2].headers.at(0), "X-aws-ec2-metadata-token: token");
  EXPECT_TRUE(servers.asked[0].direct && servers.asked[2].direct);
  environment.variables["AWS_EC2_METADATA_DISABLED"] = "true";
  EXPECT_TRUE(aws_keys(environment, servers.fetch())->empty());
  EXPECT_EQ(servers.asked.size(), 3u);
  environment.variables.erase("AWS_EC2_METADATA_DISABLED");
  servers.answers.clear();
  const auto away = aws_keys(environment, servers.fetch());
  ASSERT_FALSE(away);
  EXPECT_EQ(away.error().code, Code::kIo);
  EXPECT_NE(away.error().message.find("hop limit"), std::string::npos);
}

TEST(AwsKeys, AContainersTokenGoesToAddressesOfTheMachineOnly) {
  Servers servers;
  TempDir dir;
  std::ofstream(dir.path() + "/token") << "secret\n";
  servers.answers["GET http://169.254.170.2/v2/x"] = ok(kKeys);
  Environment environment{.variables = {{"HOME", "/nowhere"},
                                        {"AWS_EC2_METADATA_DISABLED", "true"},
                                        {"AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", dir.path() + "/token"},
                                        {"AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "/v2/x"}}};
  EXPECT_EQ(aws_keys(environment, servers.fetch())->access_key, "A");
  EXPECT_EQ(servers.asked.at(0).headers.at(0), "Authorization: secret");
  environment.variables.erase("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
  for (const char* evil :
       {"http://evil/", "http://169.254.170.2.evil/", "http://169.254.170.234/", "file:///etc/passwd"}) {
    environment.variables["AWS_CONTAINER_CREDENTIALS_FULL_URI"] = evil;
    EXPECT_EQ(aws_keys(environment, servers.fetch()).error().code, Code::kInvalidArgument) << evil;
  }
  EXPECT_EQ(servers.asked.size(), 1u);
}

TEST(AwsKeys, ARoleOfAProfileIsTakenByTheKeysOfAnother) {
  TempDir dir;
  Servers servers;
  servers.answers["POST https://sts.eu-west-1.amazonaws.com/"] = ok(kStsKeys);
  std::ofstream(dir.path() + "/config")
      << "[profile base]\naws_access_key_id = A\naws_secret_access_key = B\n"
         "[profile role]\nrole_arn = arn:aws:iam::1:role/r\nsource_profile = base\n"
         "external_id = x y\nregion = eu-west-1\n"
         "[profile a]\nrole_arn = r\nsource_profile = b\n"
         "[profile b]\nrole_arn = r\nsource_profile = a\n"
         "[profile none]\nrole_arn = r\n"
         "[profile sso]\nsso_session = s\n";
  Environment environment{.variables = {{"AWS_CONFIG_FILE", dir.path() + "/config"},
                                        {"AWS_EC2_METADATA_DISABLED", "true"},
                                        {"AWS_PROFILE", "role"}}};
  const auto keys = aws_keys(environment, servers.fetch());
  ASSERT_TRUE(keys) << keys.error().message;
  EXPECT_EQ(keys->access_key, "S");
  EXPECT_NE(servers.asked.at(0).body.find("ExternalId=x%20y"), std::string::npos);
  EXPECT_NE(servers.asked.at(0).headers.back().find("Credential=A/"), std::string::npos);
  EXPECT_NE(servers.asked.at(0).headers.back().find("/eu-west-1/sts/aws4_request"), std::string::npos);
  for (const char* profile : {"a", "none", "sso"}) {
    environment.variables["AWS_PROFILE"] = profile;
    const auto wrong = aws_keys(environment, servers.fetch());
    ASSERT_FALSE(wrong) << profile;
    EXPECT_NE(wrong.error().message.find("; give"), std::string::npos) << wrong.error().message;
  }
}

LentGrant lent(const std::string& account, std::int64_t for_s = 0) {
  const std::int64_t now = std::time(nullptr);
  return {.account = account,
          .grant = {.access_key = "key of " + account,
                    .secret_key = "secret",
                    .token = "",
                    .expires_s = for_s == 0 ? 0 : now + for_s}};
}

TEST(LentGrants, AreThoseOfTheClientUntilItGoes) {
  int asked = 0;
  LentGrants grants([&asked] { ++asked; });
  EXPECT_TRUE(grants.current("s3").empty());
  ASSERT_TRUE(grants.lend({lent("s3"), lent("az:one")}));
  EXPECT_EQ(grants.current("s3").access_key, "key of s3");
  EXPECT_EQ(grants.current("az:one").access_key, "key of az:one");
  EXPECT_TRUE(grants.current("az:two").empty()) << "of another account there is none";
  EXPECT_FALSE(grants.waits("s3") || grants.waits("az:two"));
  EXPECT_EQ(asked, 0);
  grants.take_back();
  EXPECT_TRUE(grants.current("s3").empty());
  EXPECT_TRUE(grants.is_gone());
  ASSERT_TRUE(grants.lend({lent("s3")}));
  EXPECT_TRUE(grants.current("s3").empty()) << "who has gone lends no more";
  grants.refused();
  EXPECT_EQ(asked, 0);
  EXPECT_FALSE(grants.take_wish());
  ASSERT_TRUE(grants.failure("s3"));
  EXPECT_EQ(grants.failure("s3")->code, Code::kIo);
}

TEST(LentGrants, AreAskedForAgainOnceASecondBeforeTheyExpire) {
  int asked = 0;
  LentGrants grants([&asked] { ++asked; });
  ASSERT_TRUE(grants.lend({lent("s3", 3600)}));
  EXPECT_FALSE(grants.current("s3").empty());
  EXPECT_EQ(asked, 0);
  LentGrant old = lent("s3", 3600);
  ASSERT_TRUE(grants.lend({lent("s3", -1)}));
  EXPECT_TRUE(grants.current("s3").empty()) << "what expired is used by nobody";
  EXPECT_TRUE(grants.waits("s3"));
  EXPECT_EQ(asked, 1) << "once a second";
  ASSERT_TRUE(grants.failure("s3"));
  EXPECT_NE(grants.failure("s3")->message.find("have expired"), std::string::npos);
  const auto wish = grants.take_wish();
  ASSERT_TRUE(wish);
  EXPECT_FALSE(wish->refused);
  EXPECT_FALSE(grants.take_wish());
  ASSERT_TRUE(grants.lend({old}));
  EXPECT_FALSE(grants.waits("s3"));
  EXPECT_FALSE(grants.failure("s3"));
}

TEST(LentGrants, ThatAStoreRefusesAreAskedForAnewAndUsedMeanwhile) {
  LentGrants grants([] {});
  ASSERT_TRUE(grants.lend({lent("s3")}));
  grants.refused();
  EXPECT_FALSE(grants.current("s3").empty());
  const auto wish = grants.take_wish();
  ASSERT_TRUE(wish);
  EXPECT_TRUE(wish->refused);
}

TEST(LentGrants, WhatCouldEndAHeaderIsNone) {
  LentGrants grants([] {});
  ASSERT_TRUE(grants.lend({lent("s3")}));
  LentGrant evil = lent("s3");
  evil.grant.token = "a\r\nHost: elsewhere";
  EXPECT_FALSE(grants.lend({evil}));
  EXPECT_EQ(grants.current("s3").token, "");
}

TEST(LentGrants, RightsAreThoseOfTheSameSecrets) {
  LentGrants one([] {}), same([] {}), other([] {});
  ASSERT_TRUE(one.lend({lent("s3")}) && same.lend({lent("s3", 3600)}));
  LentGrant another = lent("s3");
  another.grant.secret_key = "Secret";
  ASSERT_TRUE(other.lend({another}));
  EXPECT_EQ(one.rights(), same.rights());
  EXPECT_NE(one.rights(), other.rights());
}

TEST(LentGrants, RightsAreNoneWhereAGrantIsEmptyOrWaitedFor) {
  LentGrants grants([] {});
  ASSERT_TRUE(grants.lend({lent("s3")}));
  EXPECT_TRUE(grants.rights());
  ASSERT_TRUE(grants.lend({lent("s3"), {.account = "gs", .grant = {}}}));
  EXPECT_FALSE(grants.rights());
  LentGrant waits = lent("s3");
  waits.for_now = true;
  ASSERT_TRUE(grants.lend({waits}));
  EXPECT_FALSE(grants.rights());
  ASSERT_TRUE(grants.lend({lent("s3")}));
  grants.take_back();
  EXPECT_FALSE(grants.rights());
}

TEST(LentGrants, AreFewAndWhatIsSaidOfThemIsShort) {
  LentGrants grants([] {});
  LentGrant none{.account = "s3", .grant = {}, .why = "\x1b[31m" + std::string(20'000, 'A')};
  ASSERT_TRUE(grants.lend({none}));
  const std::string why = grants.failure("s3")->message;
  EXPECT_LE(why.size(), 1100U);
  EXPECT_EQ(why.find('\x1b'), std::string::npos);
  EXPECT_TRUE(grants.lend(std::vector<LentGrant>(64, lent("s3"))));
  EXPECT_FALSE(grants.lend(std::vector<LentGrant>(65, lent("s3"))));
  EXPECT_TRUE(grants.lend({lent(std::string(64, 'a'))}));
  EXPECT_FALSE(grants.lend({lent(std::string(65, 'a'))}));
}

TEST(StoreAccess, WhatJoinsTheOneIsNotLentToTheOther) {
  const StoreUrl url = *parse_store_url("s3://bucket/a", {});
  const auto first = std::make_shared<LentGrants>([] {}), second = std::make_shared<LentGrants>([] {});
  StoreAccess held({}, {first}), later({}, {second});
  ASSERT_TRUE(first->lend({}) && second->lend({lent("s3")}));
  const auto of_all = held.apart();
  of_all->join(later);
  EXPECT_LT(held.sign(url, {}).headers.size(), of_all->sign(url, {}).headers.size());
}

TEST(StoreAccess, WhoseGrantIsRefusedIsTriedAfterTheOthersInThatBucket) {
  const StoreUrl url = *parse_store_url("s3://bucket/a", {}), other = *parse_store_url("s3://others/a", {});
  std::vector<std::shared_ptr<LentGrants>> all;
  for (int i = 0; i < 3; ++i) {
    all.push_back(std::make_shared<LentGrants>([] {}));
    ASSERT_TRUE(all.back()->lend({lent("s3")}));
  }
  StoreAccess access({}, all);
  const auto by = [&](const StoreUrl& asked) { return access.sign(asked, {}).by; };
  EXPECT_EQ(by(url), all[0]);
  for (int i = 0; i < 100; ++i)
    access.refused(url, {}, all[0]);  // requests that were under way at the same time
  EXPECT_EQ(by(url), all[1]);
  EXPECT_EQ(by(other), all[0]);
  access.refused(url, {}, all[1]);
  EXPECT_EQ(by(url), all[2]);
  ASSERT_TRUE(all[0]->lend({lent("s3")}));  // what it lends anew waits for its turn
  EXPECT_EQ(by(url), all[2]);
  all[2]->take_back();
  EXPECT_EQ(by(url), all[0]);
}

TEST(StoreAccess, WhoHasTheTurnKeepsItWhenOthersGoOrJoin) {
  const StoreUrl url = *parse_store_url("s3://bucket/a", {});
  std::vector<std::shared_ptr<LentGrants>> all;
  for (int i = 0; i < 5; ++i) {
    all.push_back(std::make_shared<LentGrants>([] {}));
    ASSERT_TRUE(all.back()->lend({lent("s3")}));
  }
  StoreAccess access({}, {all[0], all[1], all[2], all[3]}), later({}, {all[4]}), again({}, {all[1]});
  access.refused(url, {}, all[0]);
  all[0]->take_back();
  access.join(later);
  EXPECT_EQ(access.sign(url, {}).by, all[1]);
  access.join(again);
  EXPECT_EQ(access.sign(url, {}).by, all[1]);
  access.refused(url, {}, all[2]);  // it has no turn
  EXPECT_EQ(access.sign(url, {}).by, all[1]);
  access.refused(url, {}, all[1]);  // the last one by now
  EXPECT_EQ(access.sign(url, {}).by, all[2]);
  all[2]->take_back();
  access.join(later);
  EXPECT_EQ(access.sign(url, {}).by, all[3]);
  access.refused(url, {}, all[3]);
  EXPECT_EQ(access.sign(url, {}).by, all[1]);
  all[1]->take_back();
  access.join(later);
  EXPECT_EQ(access.sign(url, {}).by, all[4]) << "the one behind who has gone";
}

TEST(StoreAccess, NobodyElseIsAskedForGrantsWhereOneIsRefused) {
  const StoreUrl url = *parse_store_url("s3://bucket/a", {});
  const auto first = std::make_shared<LentGrants>([] {}), second = std::make_shared<LentGrants>([] {});
  ASSERT_TRUE(first->lend({lent("s3")}) && second->lend({lent("s3")}));
  StoreAccess access({}, {first, second});
  access.refused(url, {}, access.sign(url, {}).by);
  EXPECT_TRUE(first->take_wish());
  EXPECT_FALSE(second->take_wish());
}

TEST(Sha256, ItsHalfIsWhatItsDigitsBeginWith) {
  EXPECT_EQ(sha256_half("").hex(), kEmptySha256.substr(0, 32));
}

TEST(StoreTerms, AreKeyedByWhoeverStandsBetweenAndHaveNoLineEnds) {
  StoreTerms terms;
  EXPECT_EQ(terms.key(), "");
  EXPECT_TRUE(terms.check());
  terms.settings.region = "eu-west-1";
  terms.tls.authority = "/\xc3\xa4.pem";
  EXPECT_TRUE(terms.check());
  const std::string key = terms.key();
  terms.plain.authority = "/ca.pem";
  EXPECT_NE(terms.key(), key);
  for (const char* region : {"x\r\nHost: y", "x/y", "X", "x y"}) {
    terms.settings.region = region;
    EXPECT_FALSE(terms.check()) << region;
  }
  terms = {.settings = {.region = std::string(65, 'a')}, .plain = {}, .tls = {}};
  EXPECT_FALSE(terms.check());
  for (std::string StoreWay::* const text : {&StoreWay::authority, &StoreWay::proxy, &StoreWay::no_proxy}) {
    terms = {};
    terms.plain.*text = "a\nb";
    EXPECT_FALSE(terms.check());
  }
}

TEST(StoreAccess, AuthoritiesOfClientsAreShortRegularFiles) {
  const TempDir folder;
  std::ofstream(folder.path("good")) << "CERTIFICATE";
  std::ofstream(folder.path("long")) << std::string((1 << 20) + 1, 'a');
  ASSERT_EQ(::mkfifo(folder.path("fifo").c_str(), 0600), 0);
  ASSERT_EQ(::symlink(folder.path("good").c_str(), folder.path("link").c_str()), 0);
  for (const char* name : {"long", "fifo", "link", "none", "."}) {
    StoreAccess access({.settings = {}, .plain = {.authority = folder.path(name)}, .tls = {}},
                       {std::make_shared<LentGrants>([] {})});
    EXPECT_FALSE(access.read_authorities()) << name;
    EXPECT_EQ(access.authority(false), nullptr);
  }
  StoreAccess access({.settings = {}, .plain = {}, .tls = {.authority = folder.path("good")}},
                     {std::make_shared<LentGrants>([] {})});
  ASSERT_TRUE(access.read_authorities());
  EXPECT_EQ(access.authority(false), nullptr);
  EXPECT_EQ(*access.apart()->authority(true), "CERTIFICATE");
}

}  // namespace
}  // namespace carya::io
