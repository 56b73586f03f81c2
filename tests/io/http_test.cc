// What URLs mean, and what is believed of an answer.
#include <gtest/gtest.h>

#include "io/http/answer.h"
#include "io/http/hedging.h"
#include "io/http/joined_ranges.h"
#include "io/http/store_url.h"

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
  EXPECT_EQ(url_of("gs://my.bucket/a b"), "https://storage.googleapis.com/my.bucket/a%20b");
  EXPECT_EQ(url_of("gs+http://host:4443/bucket/a"), "http://host:4443/bucket/a");
  EXPECT_EQ(url_of("az://account/box/a b"), "https://account.blob.core.windows.net/box/a%20b");
  EXPECT_EQ(url_of("az://account/box/"), "https://account.blob.core.windows.net/box");
  EXPECT_EQ(url_of("az+http://host:1/account/box/a"), "http://host:1/account/box/a");
  EXPECT_EQ(url_of("https://host/a%20b c.tar"), "https://host/a%20b%20c.tar");
  EXPECT_EQ(parse_store_url("https://host:443/a", {})->host, "host");
  EXPECT_EQ(parse_store_url("http://[::1]:8080/a", {})->host, "[::1]:8080");
}

TEST(StoreUrl, IsRefusedWithWhatToDoAndWithoutItsSecrets) {
  for (const char* text : {"hdfs://bucket/a", "ftp://host/a", "s3+ftp://host/bucket/a", "gs://b/a",
                           "gs+http://host", "az://account", "az://evil.host/box/a", "s3:///a", "s3://b/a",
                           "http:///a", "https://user:geheim@host/a", "https://host/a?token=geheim",
                           "https://host/a#geheim", "s3+http://host", "https://ho st/a"}) {
    const auto url = parse_store_url(text, {});
    ASSERT_FALSE(url) << text;
    EXPECT_NE(url.error().message.find("; give"), std::string::npos) << url.error().message;
    EXPECT_EQ(url.error().message.find("geheim"), std::string::npos) << url.error().message;
  }
  EXPECT_FALSE(parse_store_url("s3://bucket/a", {.endpoint = "host:9000"}));
  EXPECT_FALSE(parse_store_url("s3://bucket/a", {.region = "evil/../"}));
  EXPECT_TRUE(has_scheme("gs://b") && !has_scheme("/a://b") && !has_scheme("c://") && !has_scheme("a/b://c"));
}

Answer answer_of(std::initializer_list<const char*> lines) {
  Answer answer;
  for (const char* line : lines) answer.take(line);
  return answer;
}

TEST(StoreUrl, IsTrustedWhereItIsTheCloudsOwnOrTheEnvironments) {
  const auto trusted = [](std::string_view url, const StoreSettings& settings = {}) {
    return parse_store_url(url, settings)->trusted;
  };
  EXPECT_TRUE(trusted("gs://bucket/a"));
  EXPECT_FALSE(trusted("gs+https://host/bucket/a"));
  EXPECT_FALSE(trusted("gs+https://storage.googleapis.com.evil/bucket/a"));
  EXPECT_TRUE(trusted("gs+http://host:4443/bucket/a", {.google_endpoint = "http://host:4443/"}));
  EXPECT_FALSE(trusted("gs+http://host:44/bucket/a", {.google_endpoint = "http://host:4443"}));
  EXPECT_TRUE(trusted("az://account/box/a"));
  EXPECT_FALSE(trusted("az+https://host/account/box/a"));
  EXPECT_FALSE(trusted("https://storage.googleapis.com/bucket/a"));
}

TEST(StoreUrl, ThePlaceIsWhatAllObjectsOfASourceShare) {
  EXPECT_EQ(place_of("s3://bucket/a/b"), "s3://bucket");
  EXPECT_EQ(place_of("gs+http://host:1/bucket/a/b"), "gs+http://host:1/bucket");
  EXPECT_EQ(place_of("https://host/a/b"), "https://host");
  EXPECT_EQ(place_of("az://account/box/a"), "az://account/box");
  EXPECT_EQ(place_of("az+https://host/account/box/a"), "az+https://host/account/box");
  EXPECT_EQ(place_of("s3://bucket"), "s3://bucket");
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

TEST(Answer, AGenerationPinsAnObjectBeforeItsETag) {
  const Answer answer = answer_of({"HTTP/1.1 206 x", "ETag: \"a\"", "x-goog-generation: 1700000000000001"});
  EXPECT_EQ(answer.pin(), "generation 1700000000000001");
  EXPECT_EQ(pin_condition(answer.pin()), "x-goog-if-generation-match: 1700000000000001");
  EXPECT_EQ(answer_of({"HTTP/1.1 206 x", "ETag: \"a\"", "x-goog-generation: 17 evil"}).pin(), "\"a\"");
  EXPECT_EQ(pin_condition("\"a\""), "If-Match: \"a\"");
  EXPECT_EQ(pin_condition("W/\"a\""), "");
}

TEST(Answer, SaysTheStoresErrorCodeAndNothingElseOfItsBody) {
  const Answer busy = answer_of({"HTTP/1.1 503 x"});
  EXPECT_NE(
      answer_failure(busy, Verdict::kAgain, &kRange, "<Code>SlowDown</Code>", "").find("503 (SlowDown)"),
      std::string::npos);
  EXPECT_EQ(answer_failure(busy, Verdict::kAgain, &kRange, "<Code>\x1b[2J</Code>", "").find('\x1b'),
            std::string::npos);
}

TEST(Hedging, WhatIsLateByTheOthersIsAskedAgain) {
  constexpr std::int64_t kMs = 1'000'000;
  Hedging hedging;
  for (std::size_t i = 0; i < Hedging::kKnownMin; ++i) {
    EXPECT_FALSE(hedging.after()) << "too little is known";
    hedging.note_begun();
    hedging.note_answered(20 * kMs);
  }
  EXPECT_EQ(hedging.after(), 30 * kMs);
  for (int i = 0; i < 300; ++i) hedging.note_answered(i % 50 == 0 ? 2000 * kMs : 20 * kMs);
  EXPECT_EQ(hedging.after(), 30 * kMs) << "few that are slow move nothing";
  for (int i = 0; i < 64; ++i) hedging.note_answered(kMs);
  EXPECT_EQ(hedging.after(), Hedging::kAfterMinNs) << "soon is soon enough";
  for (int i = 0; i < 64; ++i) hedging.note_answered(400 * kMs);
  EXPECT_EQ(hedging.after(), 600 * kMs) << "the store is another one now";
}

TEST(Hedging, OneInTwentyAtMost) {
  Hedging hedging;
  int asked = 0, again = 0;
  for (int i = 0; i < 10'000; ++i, ++asked) {
    hedging.note_begun();
    hedging.note_answered(1000);
    if (!hedging.after()) continue;
    hedging.note_hedged();
    ++again;
  }
  EXPECT_LE(again, asked / 20 + 5);
  EXPECT_GE(again, asked / 25);
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
