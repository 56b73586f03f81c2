// What URLs mean, signatures, and what is believed of an answer.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <map>

#include "io/http/answer.h"
#include "io/http/aws_profile.h"
#include "io/http/joined_ranges.h"
#include "io/http/sigv4.h"
#include "io/http/store_url.h"
#include "tests/io/temp_dir.h"

namespace carya::io {
namespace {

std::string url_of(std::string_view text, const StoreSettings& settings = {}) {
  const auto url = parse_store_url(text, settings);
  return url ? url->url() : std::string(code_name(url.error().code)) + ": " + url.error().message;
}

TEST(StoreUrl, NamesTheObjectAsItIsAskedFor) {
  EXPECT_EQ(url_of("s3://bucket/a/b c~+%.tar"),
            "https://bucket.s3.us-east-1.amazonaws.com/a/b%20c~%2B%25.tar");
  EXPECT_EQ(url_of("s3://my.bucket/\xc3\xa4.tar"), "https://s3.us-east-1.amazonaws.com/my.bucket/%C3%A4.tar");
  EXPECT_EQ(url_of("s3://bucket/a", {.endpoint = "http://host:9000/"}), "http://host:9000/bucket/a");
  EXPECT_EQ(url_of("s3+https://host/bucket/a"), "https://host/bucket/a");
  EXPECT_EQ(url_of("https://host/a%20b c.tar"), "https://host/a%20b%20c.tar");
  EXPECT_EQ(parse_store_url("https://host:443/a", {})->host, "host");
  EXPECT_EQ(parse_store_url("http://[::1]:8080/a", {})->host, "[::1]:8080");
}

TEST(StoreUrl, IsRefusedWithWhatToDoAndWithoutItsSecrets) {
  for (const char* text :
       {"gs://bucket/a", "ftp://host/a", "s3:///a", "s3://b/a", "http:///a", "https://user:geheim@host/a",
        "https://host/a?token=geheim", "https://host/a#geheim", "s3+http://host", "https://ho st/a"}) {
    const auto url = parse_store_url(text, {});
    ASSERT_FALSE(url) << text;
    EXPECT_NE(url.error().message.find("; give"), std::string::npos) << url.error().message;
    EXPECT_EQ(url.error().message.find("geheim"), std::string::npos) << url.error().message;
  }
  EXPECT_FALSE(parse_store_url("s3://bucket/a", {.endpoint = "host:9000"}));
  EXPECT_FALSE(parse_store_url("s3://bucket/a", {.region = "evil/../"}));
  EXPECT_TRUE(has_scheme("gs://b") && !has_scheme("/a://b") && !has_scheme("c://") && !has_scheme("a/b://c"));
}

// Source: AWS Signature Version 4 test suite, get-vanilla and get-vanilla-query-order-key-case.
TEST(Sigv4, GivesThePublishedSignatures) {
  const AwsCredentials keys{.access_key = "AKIDEXAMPLE",
                            .secret_key = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY",
                            .session_token = {}};
  SigningInput input{.method = "GET",
                     .encoded_path = "/",
                     .query = {},
                     .headers = {{"x-amz-date", "20150830T123600Z"}, {"host", "example.amazonaws.com"}},
                     .payload_sha256 = kEmptySha256,
                     .region = "us-east-1",
                     .service = "service",
                     .amz_date = "20150830T123600Z"};
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
                           .amz_date = "20130524T000000Z"};
  EXPECT_TRUE(sigv4_authorization(input, {.access_key = "AKIAIOSFODNN7EXAMPLE",
                                          .secret_key = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
                                          .session_token = {}})
                  .ends_with("f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"));
}

TEST(Sigv4, WithoutKeysNothingIsSigned) {
  EXPECT_TRUE(s3_signature({}, "us-east-1", "GET", "host", "/a", {}, 0).empty());
}

TEST(AwsProfile, TakesTheEnvironmentBeforeTheFilesAndMixesNoKeys) {
  TempDir dir;
  std::ofstream(dir.path() + "/credentials")
      << "; a comment\n[default]\naws_access_key_id = A\naws_secret_access_key=B\n"
         "[train]\naws_access_key_id = C\r\naws_secret_access_key = D = E\naws_session_token = F\n";
  std::ofstream(dir.path() + "/config") << "[profile train]\nregion = eu-west-1\ns3 =\n  endpoint_url = no\n";
  std::map<std::string, std::string> variables{{"AWS_SHARED_CREDENTIALS_FILE", dir.path() + "/credentials"},
                                               {"AWS_CONFIG_FILE", dir.path() + "/config"}};
  const auto read = [&] {
    return read_aws_profile([&](const char* name) {
      const auto found = variables.find(name);
      return found == variables.end() ? nullptr : found->second.c_str();
    });
  };
  EXPECT_EQ(read().credentials, (AwsCredentials{"A", "B", ""}));
  EXPECT_EQ(read().settings.region, "us-east-1");
  variables["AWS_PROFILE"] = "train";
  EXPECT_EQ(read().credentials, (AwsCredentials{"C", "D = E", "F"}));
  EXPECT_EQ(read().settings, (StoreSettings{.region = "eu-west-1"}));
  variables["AWS_ACCESS_KEY_ID"] = "G";
  EXPECT_EQ(read().credentials, (AwsCredentials{"C", "D = E", "F"}));
  variables["AWS_SECRET_ACCESS_KEY"] = "H";
  EXPECT_EQ(read().credentials, (AwsCredentials{"G", "H", ""}));
  variables["AWS_PROFILE"] = "nobody";
  variables.erase("AWS_ACCESS_KEY_ID");
  EXPECT_EQ(read().credentials, AwsCredentials{});
}

Answer answer_of(std::initializer_list<const char*> lines) {
  Answer answer;
  for (const char* line : lines) answer.take(line);
  return answer;
}

constexpr RangeWanted kRange{.offset = 10, .bytes = 5, .object_bytes = 100, .pin = "\"a\""};

Verdict judged(const char* status, const char* range, const char* length = "Content-Length: 5\r\n",
               const char* etag = "ETag: \"a\"\r\n", RangeWanted wanted = kRange) {
  return judge_range(answer_of({status, range, length, etag}), wanted);
}

TEST(Answer, IsGoodOnlyWhereItIsTheRangeOfTheVersion) {
  constexpr const char* kPartial = "HTTP/1.1 206 Partial Content\r\n";
  constexpr const char* kRight = "content-RANGE:  bytes 10-14/100 \r\n";
  EXPECT_EQ(judged(kPartial, kRight), Verdict::kGood);
  EXPECT_EQ(judged(kPartial, kRight, ""), Verdict::kGood);
  EXPECT_EQ(judged(kPartial, kRight, "Content-Length: 6"), Verdict::kAgain);
  EXPECT_EQ(judged(kPartial, kRight, "", "ETag: \"b\""), Verdict::kChanged);
  EXPECT_EQ(judged(kPartial, kRight, "", "ETag: W/\"a\""), Verdict::kChanged);
  EXPECT_EQ(judged(kPartial, kRight, "", ""), Verdict::kChanged);
  EXPECT_EQ(judged(kPartial, kRight, "Content-Encoding: gzip"), Verdict::kWrong);
  for (const char* range :
       {"", "Content-Range: bytes 11-15/100", "Content-Range: bytes 10-14/*", "Content-Range: bytes 10-14",
        "Content-Range: 10-14/100", "Content-Range: bytes -10-14/100", "Content-Range: bytes 10-15/100",
        "Content-Range: bytes 9-14/100", "Content-Range: bytes 10-99999999999999999999/100"})
    EXPECT_EQ(judged(kPartial, range), Verdict::kAgain) << range;
  EXPECT_EQ(judged(kPartial, "Content-Range: bytes 10-14/101"), Verdict::kChanged);
  EXPECT_EQ(judged("HTTP/1.1 416 no", kRight), Verdict::kChanged);
  EXPECT_EQ(judged("HTTP/1.1 412 no", kRight), Verdict::kChanged);
  EXPECT_EQ(judged("HTTP/1.1 404 no", kRight), Verdict::kChanged);
  EXPECT_EQ(judged("HTTP/1.1 403 no", kRight), Verdict::kRefused);
  EXPECT_EQ(judged("HTTP/1.1 503 no", kRight), Verdict::kAgain);
  EXPECT_EQ(judged("HTTP/1.1 302 no", kRight), Verdict::kWrong);
  EXPECT_EQ(judged("HTTP/1.1", kRight), Verdict::kAgain);
}

TEST(Answer, TheWholeObjectIsRightWhereTheRangeIsAllOfIt) {
  const RangeWanted all{.offset = 0, .bytes = 5, .object_bytes = 5, .pin = "\"a\""};
  EXPECT_EQ(judged("HTTP/1.1 200 OK", "", "Content-Length: 5", "ETag: \"a\"", all), Verdict::kGood);
  EXPECT_EQ(judged("HTTP/1.1 200 OK", "", "Content-Length: 6", "ETag: \"a\"", all), Verdict::kChanged);
  EXPECT_EQ(judged("HTTP/1.1 200 OK", ""), Verdict::kWrong);
}

TEST(Answer, TakesNothingThatCouldNotBeSentBack) {
  const Answer answer =
      answer_of({"HTTP/1.1 206 x", "ETag: \"a\x01\"", "Last-Modified: Wed, 21 Oct 2015 07:28:00 GMT",
                 "Retry-After: 999999", "Content-Length: -1"});
  EXPECT_EQ(answer.etag, "");
  EXPECT_EQ(answer.pin(), "Wed, 21 Oct 2015 07:28:00 GMT");
  EXPECT_EQ(answer.retry_after_s, 60u);
  EXPECT_FALSE(answer.length);
  EXPECT_EQ(http_date_seconds(answer.last_modified), 1445412480);
  EXPECT_FALSE(http_date_seconds("yesterday"));
  Answer again = answer;
  again.take("HTTP/1.1 200 OK");  // after a redirect nothing of the answer before counts
  EXPECT_EQ(again.pin(), "");
}

TEST(Answer, SaysTheStoresErrorCodeAndNothingElseOfItsBody) {
  const Answer busy = answer_of({"HTTP/1.1 503 x"});
  EXPECT_NE(
      answer_failure(busy, Verdict::kAgain, &kRange, "<Code>SlowDown</Code>", true).find("503 (SlowDown)"),
      std::string::npos);
  EXPECT_EQ(answer_failure(busy, Verdict::kAgain, &kRange, "<Code>\x1b[2J</Code>", true).find('\x1b'),
            std::string::npos);
}

TEST(JoinedRanges, WritesEachPartAndNothingOfTheGaps) {
  std::string a(4, '-'), b(3, '-'), c(2, '-');
  const auto part = [](std::uint64_t offset, std::string& to) {
    return ReadRequest{
        .offset = offset, .length = to.size(), .dest = reinterpret_cast<std::byte*>(to.data())};
  };
  JoinedRanges ranges;
  ranges.begin(part(10, a));
  EXPECT_FALSE(ranges.add(part(12, b), 100));  // overlaps
  EXPECT_FALSE(ranges.add(part(5, b), 100));   // before
  EXPECT_FALSE(ranges.add(part(15 + JoinedRanges::kGapMax, b), 1 << 20));
  EXPECT_TRUE(ranges.add(part(14, b), 100));
  EXPECT_FALSE(ranges.add(part(19, c), 10));  // too long
  EXPECT_TRUE(ranges.add(part(19, c), 11));
  EXPECT_EQ(ranges.bytes(), 11u);
  const std::string bytes = "aaaabbb..cc";
  std::vector<std::size_t> whole;
  for (const char& byte : bytes) whole.push_back(ranges.take(std::as_bytes(std::span(&byte, 1))));
  EXPECT_EQ(whole, (std::vector<std::size_t>{0, 0, 0, 1, 1, 1, 2, 2, 2, 2, 3}));
  EXPECT_EQ(a + b + c, "aaaabbbcc");
}

}  // namespace
}  // namespace carya::io
