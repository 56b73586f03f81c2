#include "transforms/text/pretokens.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

namespace carya::text {
namespace {

template <Pretokens kKind>
std::vector<std::string> cut(std::string_view text) {
  const PretokenScanner<kKind> scanner(text.data() + text.size());
  std::vector<std::string> parts;
  for (const char* at = text.data(); at < text.data() + text.size();) {
    const char* const next = scanner.next(at);
    EXPECT_GT(next, at);
    EXPECT_LE(next, text.data() + text.size());
    if (next <= at) break;
    parts.emplace_back(at, next);
    at = next;
  }
  return parts;
}

using Parts = std::vector<std::string>;

// What each expression cuts, by hand; that all texts are cut as by the reference is tests/python/test_tokenizer.py.
TEST(Pretokens, CutAsTheirExpressionsSay) {
  EXPECT_EQ(cut<Pretokens::kGpt2>("it's  12345 a.\n\nb "),
            (Parts{"it", "'s", " ", " 12345", " a", ".", "\n", "\n", "b", " "}));
  EXPECT_EQ(cut<Pretokens::kLlama3>("IT'S  12345 a.\n\nb "),
            (Parts{"IT", "'S", " ", " ", "123", "45", " a", ".\n\n", "b", " "}));
  EXPECT_EQ(cut<Pretokens::kQwen2>("it's 12"), (Parts{"it", "'s", " ", "1", "2"}));
  EXPECT_EQ(cut<Pretokens::kGpt4o>("it's aBCd ABC //\n/x"),
            (Parts{"it's", " a", "BCd", " ABC", " //\n/", "x"}));
  EXPECT_EQ(cut<Pretokens::kLlama3>("'\xC5\xBF"), (Parts{"'\xC5\xBF"})) << "the long s folds to s";
  EXPECT_EQ(cut<Pretokens::kGpt4o>("\xE5\xAD\x97"
                                   "A\xE5\xAD\x97"
                                   "B"),
            (Parts{"\xE5\xAD\x97"
                   "A\xE5\xAD\x97",
                   "B"}))
      << "the last letter that can end a word does";
}

TEST(Pretokens, AnyTextIsCutIntoPartsThatMakeIt) {
  const std::vector<std::string> pieces = {"a",
                                           "Z",
                                           "'",
                                           " ",
                                           "\n",
                                           "\r",
                                           "1",
                                           ".",
                                           "/",
                                           "\xC3\xA9",
                                           "\xCC\x81",
                                           "\xE5\xAD\x97",
                                           "\xF0\x9F\x98\x80",
                                           "\xC7\x85",
                                           "\xD9\xA3",
                                           "\xE3\x80\x80",
                                           "abcdefghij"};
  std::mt19937 random(1);
  for (int i = 0; i < 20'000; ++i) {
    std::string text;
    for (std::size_t n = random() % 12; n > 0; --n) text += pieces[random() % pieces.size()];
    for (const Parts& parts : {cut<Pretokens::kGpt2>(text), cut<Pretokens::kLlama3>(text),
                               cut<Pretokens::kQwen2>(text), cut<Pretokens::kGpt4o>(text)}) {
      std::string all;
      for (const std::string& part : parts) all += part;
      ASSERT_EQ(all, text);
    }
  }
}

/// Whether bytes are one character of UTF-8, by making all characters.
std::string utf8(char32_t point) {
  const auto byte = [](char32_t bits) { return static_cast<char>(bits); };
  if (point < 0x80) return {byte(point)};
  if (point < 0x800) return {byte(0xC0 | point >> 6), byte(0x80 | (point & 63))};
  if (point < 0x10000)
    return {byte(0xE0 | point >> 12), byte(0x80 | (point >> 6 & 63)), byte(0x80 | (point & 63))};
  return {byte(0xF0 | point >> 18), byte(0x80 | (point >> 12 & 63)), byte(0x80 | (point >> 6 & 63)),
          byte(0x80 | (point & 63))};
}

TEST(Utf8, AllCharactersAreValidAndNothingElse) {
  std::string all;
  for (char32_t point = 0; point < 0x110000; ++point)
    if (point < 0xD800 || point > 0xDFFF) all += utf8(point);
  EXPECT_EQ(valid_utf8_bytes(all), all.size());
  for (const std::string_view text : {"\xC3\xA9", "\xE5\xAD\x97", "\xF0\x9F\x98\x80"})
    EXPECT_EQ(valid_utf8_bytes(text.substr(0, text.size() - 1)), 0u) << "what follows is no part of it";
  for (char32_t point = 0xD800; point < 0xE000; ++point) EXPECT_EQ(valid_utf8_bytes("a" + utf8(point)), 1u);
  for (const std::string bad : {"\x80", "\xC0\x80", "\xC1\xBF", "\xE0\x9F\xBF", "\xF0\x8F\xBF\xBF",
                                "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xFF", "\xC3", "\xE5\xAD",
                                "\xF0\x9F\x98", "\xC3(", "\xE5(\x97", "\xF0\x9F(\x80"}) {
    EXPECT_EQ(valid_utf8_bytes("abcdefgh" + bad), 8u) << testing::PrintToString(bad);
    EXPECT_EQ(valid_utf8_bytes(bad + "abcdefgh"), 0u) << testing::PrintToString(bad);
  }
}

TEST(CharClasses, KnowCharactersByTheirBytesAndTheirNumber) {
  const CharClasses& classes = CharClasses::get();
  for (char32_t point = 0; point < 0x110000; ++point) {
    if (point >= 0xD800 && point <= 0xDFFF) continue;
    const std::string bytes = utf8(point);
    const Char one = classes.at(bytes.data());
    ASSERT_EQ(one.bytes, bytes.size());
    ASSERT_EQ(one.of, classes.of(point));
  }
  EXPECT_EQ(classes.of(U'A'), kUpper);
  EXPECT_EQ(classes.of(U'\u00DF'), kLower);
  EXPECT_EQ(classes.of(U'\u5B57'), kLetter);
  EXPECT_EQ(classes.of(U'\u0301'), kMark);
  EXPECT_EQ(classes.of(U'\u0663'), kNumber);
  EXPECT_EQ(classes.of(U'\u3000'), kSpace);
  EXPECT_EQ(classes.of(U'.'), 0);
  EXPECT_EQ(classes.of(0x10FFFF), 0);
}

}  // namespace
}  // namespace carya::text
