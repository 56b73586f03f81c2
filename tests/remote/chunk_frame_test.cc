#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <random>
#include <sstream>

#include "remote/protocol/frame.h"
#include "remote/protocol/messages.h"

namespace carya::remote {
namespace {

constexpr FrameLimits kSmallLimits{.body_bytes = 4096, .payload_bytes = 1 << 20};

FrameHeader request_header() {
  return {.type = FrameType::kRequest, .body_bytes = 10, .request = 77, .payload_bytes = 5};
}

/// The header with some bytes of it replaced.
Result<FrameHeader> damaged(std::size_t at, std::uint64_t value, std::size_t size) {
  auto bytes = encode_header(request_header());
  std::memcpy(bytes.data() + at, &value, size);
  return decode_header(bytes, kSmallLimits);
}

TEST(ChunkFrame, AHeaderSurvivesEncoding) {
  const auto header = decode_header(encode_header(request_header()), kSmallLimits);
  ASSERT_TRUE(header) << header.error().message;
  EXPECT_EQ(header->type, FrameType::kRequest);
  EXPECT_EQ(header->body_bytes, 10u);
  EXPECT_EQ(header->request, 77u);
  EXPECT_EQ(header->payload_bytes, 5u);
}

TEST(ChunkFrame, NothingIsBelievedThatIsNotChecked) {
  EXPECT_TRUE(damaged(5, 9, 1)) << "a later minor version is welcome";
  EXPECT_TRUE(damaged(8, 0x8000'0000, 4)) << "a flag that may be ignored";
  EXPECT_EQ(damaged(0, 0, 1).error().code, Code::kCorrupt) << "magic";
  EXPECT_EQ(damaged(4, 2, 1).error().code, Code::kUnsupported) << "major";
  EXPECT_EQ(damaged(6, 0, 2).error().code, Code::kCorrupt) << "no type";
  EXPECT_EQ(damaged(6, 15, 2).error().code, Code::kCorrupt) << "no type yet";
  EXPECT_TRUE(damaged(8, kHashed, 4)) << "a hash follows";
  EXPECT_EQ(damaged(8, 2, 4).error().code, Code::kUnsupported) << "a flag that must be known";
  EXPECT_EQ(damaged(12, 0, 4).error().code, Code::kCorrupt) << "no body";
  EXPECT_EQ(damaged(12, 4097, 4).error().code, Code::kCorrupt) << "a body too long";
  EXPECT_EQ(damaged(24, (1 << 20) + 1, 8).error().code, Code::kCorrupt) << "a payload too long";
  EXPECT_EQ(damaged(24, ~0ULL, 8).error().code, Code::kCorrupt);
  EXPECT_EQ(damaged(6, 10, 2).error().code, Code::kCorrupt) << "a Ping has no payload";
}

TEST(ChunkFrame, BodiesAreMapsWithinLimits) {
  EXPECT_TRUE(check_body(encode(Hello{})));
  EXPECT_FALSE(check_body(""));
  EXPECT_FALSE(check_body("\x01"));
  EXPECT_FALSE(check_body(std::string("\xbf\xff")));
  EXPECT_FALSE(check_body(std::string("\xa1\x61") + "a")) << "a value is missing";
  EXPECT_FALSE(check_body(std::string("\xa1\x61") + "a" + std::string(4, '\x81') + '\0')) << "too deep";
  EXPECT_FALSE(check_body("\xba\xff\xff\xff\xff")) << "4 G entries in no bytes";
}

TEST(ChunkFrame, OnlyTheRightSideSaysAThing) {
  EXPECT_TRUE(client_may_say(FrameType::kRequest));
  EXPECT_FALSE(client_may_say(FrameType::kResult));
  EXPECT_TRUE(client_may_say(FrameType::kPing));
}

TEST(ChunkMessages, SurviveEncoding) {
  const auto hello = decode<Hello>(encode(Hello{"carya 1", {{"jpeg", "3.1"}, {"png", "0.7"}}, "secret"}));
  ASSERT_TRUE(hello) << hello.error().message;
  EXPECT_EQ(hello->facts, (std::vector<Fact>{{"jpeg", "3.1"}, {"png", "0.7"}}));
  EXPECT_EQ(hello->token, "secret");
  const std::string bytes("\0\xff\x80", 3);
  const auto request = decode<Request>(encode(Request{~0ULL, bytes, 1ULL << 40}));
  ASSERT_TRUE(request) << request.error().message;
  EXPECT_EQ(request->plan, ~0ULL);
  EXPECT_EQ(request->about, bytes);
  EXPECT_EQ(request->result_bytes, 1ULL << 40);
  const auto failed = decode<ChunkFailed>(encode(ChunkFailed{{Code::kTimeout, "late", 11}}));
  ASSERT_TRUE(failed) << failed.error().message;
  EXPECT_EQ(failed->error.code, Code::kTimeout);
  EXPECT_EQ(failed->error.sys_errno, 11);
  const auto credit = decode<Credit>(encode(Credit{{3, 4}}));
  ASSERT_TRUE(credit) << credit.error().message;
  EXPECT_EQ(credit->window, (Window{3, 4}));
}

TEST(ChunkMessages, WhatIsMissingHasItsDefaultAndWhatIsUnknownIsIgnored) {
  const auto welcome = decode<Welcome>(std::string("\xa1\x65later\x01", 8));
  ASSERT_TRUE(welcome) << welcome.error().message;
  EXPECT_EQ(welcome->heartbeat_ms, 1000u);
}

TEST(ChunkMessages, AFieldOfTheWrongTypeOrRangeIsNamed) {
  const auto plan = decode<Register>(std::string("\xa1\x64plan\x20", 7));
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().code, Code::kCorrupt);
  EXPECT_NE(plan.error().message.find("plan"), std::string::npos) << plan.error().message;
  EXPECT_FALSE(
      decode<Request>(std::string("\xa1\x65"
                                  "about\x61x",
                                  9)))
      << "text where bytes belong";
  const std::string code = std::string("\xa1\x65") + "error" + "\xa1\x64" + "code" + "\x18\x63";
  EXPECT_FALSE(decode<ChunkFailed>(code)) << "an error code that is none";
}

TEST(ChunkMessages, RubbishIsAnErrorAndNothingElse) {
  std::mt19937_64 random(11);
  const std::string good = encode(Hello{"carya 1", {{"jpeg", "3.1"}}, "secret"});
  for (int round = 0; round < 20'000; ++round) {
    std::string bad = good;
    for (int change = 0; change < 3; ++change) bad[random() % bad.size()] = static_cast<char>(random());
    bad.resize(random() % (bad.size() + 1));
    const auto hello = decode<Hello>(bad);
    if (!hello) {
      EXPECT_EQ(hello.error().code, Code::kCorrupt);
    }
  }
}

TEST(ChunkFrame, TheDocumentsExampleIsWhatIsSent) {
  std::ifstream file(CARYA_CHUNK_PROTOCOL);
  ASSERT_TRUE(file) << CARYA_CHUNK_PROTOCOL;
  std::string expected, line;
  bool inside = false;
  while (std::getline(file, line)) {
    if (line.starts_with("```")) {
      inside = line == "```hex";
      continue;
    }
    if (!inside) continue;
    std::istringstream words(line.substr(4));
    for (int byte = 0; words >> std::hex >> byte;) expected.push_back(static_cast<char>(byte));
  }
  const std::string body = encode(Request{.plan = 1, .about = "\x18\x60", .result_bytes = 150'528});
  const auto header = encode_header({.type = FrameType::kRequest,
                                     .body_bytes = static_cast<std::uint32_t>(body.size()),
                                     .request = 7,
                                     .payload_bytes = 3});
  std::string sent(reinterpret_cast<const char*>(header.data()), header.size());
  sent += body + "JPG";
  EXPECT_EQ(sent, expected);
}

}  // namespace
}  // namespace carya::remote
