// What URLs mean, and what is believed of an answer.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdarg>
#include <map>
#include <utility>
#include <vector>

#include "io/http/answer.h"
#include "io/http/hedging.h"
#include "io/http/http_request.h"
#include "io/http/joined_ranges.h"
#include "io/http/request_window.h"
#include "io/http/store_url.h"

namespace carya::io {
namespace {

constexpr std::int64_t kMs = 1'000'000;

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

std::map<int, std::uintptr_t> curl_options;

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wvarargs"  // the type of the option is libcurl's
CURLcode set_option(CURL*, CURLoption option, ...) {
  std::va_list values;
  va_start(values, option);
  const bool is_number = option < CURLOPTTYPE_OBJECTPOINT;
  curl_options[option] = is_number ? static_cast<std::uintptr_t>(va_arg(values, long))
                                   : reinterpret_cast<std::uintptr_t>(va_arg(values, void*));
  va_end(values);
  return CURLE_OK;
}
#pragma GCC diagnostic pop

TEST(HttpRequest, ForgetsWhoWaitedForIt) {
  CurlLibrary curl{};
  curl.easy_init = [] { return static_cast<CURL*>(&curl_options); };
  curl.easy_cleanup = [](CURL*) {};
  curl.easy_setopt = &set_option;
  curl.easy_perform = [](CURL*) {
    EXPECT_EQ(curl_options[CURLOPT_NOPROGRESS], 0);
    EXPECT_NE(curl_options[CURLOPT_XFERINFODATA], 0);
    return CURLE_COULDNT_CONNECT;
  };
  curl.easy_strerror = [](CURLcode) { return "no"; };
  const auto request = HttpRequest::create(curl, {});
  ASSERT_TRUE(request);
  EXPECT_EQ((*request)->perform([] { return true; }).verdict, Verdict::kAgain);
  EXPECT_EQ(curl_options[CURLOPT_NOPROGRESS], 1);
  EXPECT_EQ(curl_options[CURLOPT_XFERINFODATA], 0);
}

TEST(Hedging, WhatIsLateByTheOthersIsAskedAgain) {
  Hedging hedging;
  for (std::size_t i = 0; i < Hedging::kKnownMin; ++i) {
    EXPECT_FALSE(hedging.after()) << "too little is known";
    hedging.note_begun();
    hedging.note_answered(20 * kMs);
  }
  EXPECT_EQ(hedging.after(), 22'500'000);
  for (int i = 0; i < 300; ++i) hedging.note_answered(i % 50 == 0 ? 2000 * kMs : 20 * kMs);
  EXPECT_EQ(hedging.after(), 22'500'000) << "few that are slow move nothing";
  for (std::size_t i = 0; i < Hedging::kKnown; ++i) hedging.note_answered(kMs);
  EXPECT_EQ(hedging.after(), Hedging::kAfterMinNs) << "soon is soon enough";
  for (std::size_t i = 0; i < Hedging::kKnown; ++i) hedging.note_answered(400 * kMs);
  EXPECT_EQ(hedging.after(), 450 * kMs) << "the store is another one now";
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

/// A store that answers `servers` requests at a time, each in `alone_ns`, in turn; and the reads that wait for it.
struct StoreModel {
  std::int64_t alone_ns = 0;
  std::uint32_t servers = 0;
  std::int64_t now_ns = 1;
  std::vector<std::pair<std::int64_t, std::int64_t>> under_way{};  // when it is answered, when it was begun
  std::vector<std::int64_t> free_at{};

  /// Answers for so long; returns how many.
  std::uint64_t run(RequestWindow& window, std::int64_t for_ns, std::uint32_t reads = UINT32_MAX) {
    free_at.resize(servers, 0);
    const std::int64_t end_ns = now_ns + for_ns;
    std::uint64_t answers = 0;
    while (now_ns < end_ns) {
      while (under_way.size() < std::min(window.allowed(), reads)) {
        auto server = std::ranges::min_element(free_at);
        *server = std::max(*server, now_ns) + alone_ns;
        under_way.emplace_back(*server, now_ns);
      }
      if (under_way.size() < window.allowed()) window.note_idle();
      const auto next = std::ranges::min_element(under_way);
      now_ns = next->first;
      const std::int64_t took_ns = now_ns - next->second;
      under_way.erase(next);
      window.note_answered(now_ns, took_ns, 110'000);
      ++answers;
    }
    return answers;
  }
};

TEST(RequestWindow, HasAsManyAsTheStoreGivesAndFewInItsQueue) {
  for (const std::uint32_t servers : {6U, 20U, 50U}) {
    StoreModel store{.alone_ns = 20 * kMs, .servers = servers};
    RequestWindow window(128);
    store.run(window, 1000 * kMs);
    const std::uint64_t answers = store.run(window, 10'000 * kMs);
    EXPECT_GE(static_cast<double>(answers), 0.95 * servers * 500) << servers;
    EXPECT_LE(window.allowed(), 3 * servers) << servers;
  }
  StoreModel wide{.alone_ns = 20 * kMs, .servers = 1000};
  RequestWindow window(128);
  wide.run(window, 200 * kMs);
  EXPECT_EQ(window.allowed(), 128U) << "after ten answers behind each other at most";
}

TEST(RequestWindow, FewReadsMakeItNoSmaller) {
  StoreModel store{.alone_ns = 20 * kMs, .servers = 1000};
  RequestWindow window(128);
  store.run(window, 1000 * kMs);
  store.run(window, 5000 * kMs, 2);
  EXPECT_EQ(window.allowed(), 128U);
}

TEST(RequestWindow, FollowsAStoreThatBecomesFasterOrSlower) {
  StoreModel store{.alone_ns = 20 * kMs, .servers = 10};
  RequestWindow window(128);
  store.run(window, 1000 * kMs);
  store.servers = 60;
  store.run(window, 2000 * kMs);
  EXPECT_GE(store.run(window, 1000 * kMs), 2850U);
  store.alone_ns = 100 * kMs;
  store.run(window, 2 * RequestWindow::kLearnEveryNs);
  EXPECT_GE(store.run(window, 10'000 * kMs), 5700U);
}

TEST(RequestWindow, LearnsWithinASecondThatEachRequestTakesLonger) {
  StoreModel store{.alone_ns = kMs, .servers = 8};
  RequestWindow window(64);
  store.run(window, 5000 * kMs);
  EXPECT_LE(window.allowed(), 24U);
  store.alone_ns = 20 * kMs;
  store.servers = 500;
  store.run(window, 1000 * kMs);
  EXPECT_GE(store.run(window, 1000 * kMs), 3000U);
}

TEST(RequestWindow, ABusyStoreHalvesItOnceInABurstAndGetsItBackByOnes) {
  StoreModel store{.alone_ns = 20 * kMs, .servers = 1000};
  RequestWindow window(64);
  store.run(window, 1000 * kMs);
  ASSERT_EQ(window.allowed(), 64U);
  for (int i = 0; i < 20; ++i) window.note_busy(store.now_ns);
  EXPECT_EQ(window.allowed(), 32U);
  for (int i = 1; i <= 20; ++i) window.note_busy(store.now_ns + 300 * kMs * i);
  EXPECT_EQ(window.allowed(), 1U);
  store.now_ns += 10'000 * kMs;
  store.under_way.clear();
  store.run(window, 400 * kMs);
  EXPECT_LE(window.allowed(), 32U);
  EXPECT_GE(window.allowed(), 4U);
  store.run(window, 3000 * kMs);
  EXPECT_EQ(window.allowed(), 64U);
}

TEST(RetryBudget, AStoreThatIsDownIsAskedFourTimesASecond) {
  RetryBudget budget;
  int tries = 0;
  for (std::int64_t now = kMs; now <= 10'000 * kMs; now += kMs) tries += budget.take(now) ? 1 : 0;
  EXPECT_GE(tries, 32 + 38);
  EXPECT_LE(tries, 32 + 41);
  EXPECT_FALSE(budget.take(10'001 * kMs));
  EXPECT_LE(budget.due_ns(), 10'250 * kMs);
}

TEST(RetryBudget, WhatIsGoodAgainIsSoonAskedForAll) {
  RetryBudget budget;
  std::int64_t now = kMs;
  while (budget.take(now)) {
  }
  now += 250 * kMs;
  std::uint32_t under_way = budget.take(now) ? 1 : 0, most = 0;
  for (int round = 0; round < 60; ++round) {  // of 20 ms
    for (std::uint32_t i = 0; i < under_way; ++i) budget.note_good(true);
    now += 20 * kMs;
    under_way = 0;
    while (under_way < 32 && budget.take(now)) ++under_way;
    most = std::max(most, under_way);
  }
  EXPECT_EQ(most, 32U);
}

TEST(RetryBudget, OneFailureInTenCostsNothing) {
  RetryBudget budget;
  for (std::int64_t i = 0; i < 10'000; ++i) {
    for (int good = 0; good < 9; ++good) budget.note_good(false);
    EXPECT_TRUE(budget.take(kMs * i));
    budget.note_good(true);
  }
}

}  // namespace carya::io
