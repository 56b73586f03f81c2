#include "transforms/text/bpe.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <span>
#include <string>
#include <vector>

namespace carya::text {
namespace {

/// Rules over the letters a to d, in an order that makes words of several of them; ids below 256 are bytes.
std::vector<BpeMerge> letter_rules(std::uint32_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<std::uint32_t> tokens = {'a', 'b', 'c', 'd'};
  std::vector<BpeMerge> rules;
  while (rules.size() < count) {
    const BpeMerge rule{tokens[random() % tokens.size()], tokens[random() % tokens.size()],
                        static_cast<std::uint32_t>(rules.size()),
                        256 + static_cast<std::uint32_t>(rules.size())};
    const auto is_same = [&](const BpeMerge& one) {
      return one.left == rule.left && one.right == rule.right;
    };
    if (std::ranges::any_of(rules, is_same)) continue;
    rules.push_back(rule);
    tokens.push_back(rule.result);
  }
  return rules;
}

BpeVocabulary vocabulary_of(std::span<const BpeMerge> rules) {
  BpeVocabulary vocabulary{.merges = rules};
  std::iota(vocabulary.byte_ids.begin(), vocabulary.byte_ids.end(), 0);
  return vocabulary;
}

/// The rule of the lowest rank at its leftmost place, again and again.
std::vector<std::uint32_t> merged_plainly(std::span<const BpeMerge> rules, std::string_view text) {
  std::vector<std::uint32_t> ids(text.begin(), text.end());
  for (;;) {
    const BpeMerge* best = nullptr;
    std::size_t at = 0;
    for (std::size_t i = 0; i + 1 < ids.size(); ++i)
      for (const BpeMerge& rule : rules)
        if (rule.left == ids[i] && rule.right == ids[i + 1] && (best == nullptr || rule.rank < best->rank)) {
          best = &rule;
          at = i;
        }
    if (best == nullptr) return ids;
    ids[at] = best->result;
    ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(at) + 1);
  }
}

std::string letters(std::mt19937& random, std::size_t count) {
  std::string text(count, 'a');
  for (char& one : text) one = static_cast<char>('a' + random() % 4);
  return text;
}

std::vector<std::uint32_t> encoded(BpeEncoder& encoder, std::string_view text) {
  const auto ids = encoder.encode(text);
  EXPECT_TRUE(ids) << ids.error().message;
  return ids ? std::vector<std::uint32_t>(ids->begin(), ids->end()) : std::vector<std::uint32_t>();
}

TEST(Bpe, MergesAsTheRulesSayAtAnyLength) {
  std::mt19937 random(5);
  for (unsigned seed = 0; seed < 4; ++seed) {
    const auto rules = letter_rules(60, seed);
    const auto bpe = Bpe::create(vocabulary_of(rules));
    ASSERT_TRUE(bpe);
    for (const std::size_t bytes : {1, 2, 3, 16, 17, 127, 128, 129, 200}) {
      for (int i = 0; i < 6; ++i) {
        const std::string text = i == 0 ? std::string(bytes, 'a') : letters(random, bytes);
        std::vector<std::uint32_t> ids(bytes);
        ids.resize((*bpe)->merge(text, ids.data()));
        EXPECT_EQ(ids, merged_plainly(rules, text)) << text;
      }
    }
  }
}

TEST(Bpe, EqualRanksGoFromLeftToRight) {
  // As in rank files, where a token may be made of several pairs: "aab" and "abb" are the same token here.
  const std::vector<BpeMerge> rules = {
      {'a', 'b', 3, 300}, {'a', 300, 7, 301}, {300, 'b', 7, 301}, {'b', 'b', 9, 302}};
  const auto bpe = Bpe::create(vocabulary_of(rules));
  ASSERT_TRUE(bpe) << bpe.error().message;
  for (const std::string& text :
       {std::string("aabb"), std::string("aabbaabb"), std::string(129, 'a') + "bb"}) {
    std::vector<std::uint32_t> ids(text.size());
    ids.resize((*bpe)->merge(text, ids.data()));
    EXPECT_EQ(ids, merged_plainly(rules, text)) << text;
  }
}

TEST(Bpe, VocabulariesThatCannotBeAreErrors) {
  const std::vector<std::uint32_t> ids = {1, 2};
  const std::vector<std::uint64_t> ends = {1, 3}, falling = {3, 1}, outside = {1, 9};
  const auto is_refused = [](const BpeVocabulary& vocabulary) {
    const auto made = Bpe::create(vocabulary);
    return !made && made.error().code == Code::kInvalidArgument;
  };
  const auto with_rules = [&](const std::vector<BpeMerge>& rules) {
    return is_refused(vocabulary_of(rules));
  };
  EXPECT_FALSE(with_rules({}));
  EXPECT_TRUE(with_rules({{'a', 'b', 0, Bpe::kIdsMax}}));
  EXPECT_TRUE(with_rules({{Bpe::kIdsMax, 'b', 0, 1}}));
  EXPECT_TRUE(with_rules({{'a', 'b', Bpe::kRanksMax, 1}}));
  EXPECT_TRUE(with_rules({{'a', 'b', 0, 300}, {'a', 'b', 1, 301}}));
  EXPECT_TRUE(with_rules({{'a', 'b', 0, 300}, {'a', 'c', 0, 301}}));
  BpeVocabulary whole = vocabulary_of({});
  whole.whole = "abc";
  whole.whole_ids = ids;
  whole.whole_ends = ends;
  EXPECT_FALSE(is_refused(whole));
  whole.whole_ends = falling;
  EXPECT_TRUE(is_refused(whole));
  whole.whole_ends = outside;
  EXPECT_TRUE(is_refused(whole));
  whole.whole_ends = std::span(ends).first(1);
  EXPECT_TRUE(is_refused(whole));
  BpeVocabulary bytes = vocabulary_of({});
  bytes.byte_ids[7] = Bpe::kIdsMax;
  EXPECT_TRUE(is_refused(bytes));
}

TEST(BpeEncoder, WhatIsRememberedIsWhatRulesSay) {
  const auto rules = letter_rules(60, 1);
  const auto bpe = Bpe::create(vocabulary_of(rules));
  ASSERT_TRUE(bpe);
  BpeEncoder encoder(*bpe);
  BpeEncoder small(*bpe, 3);  // of which most pretokens take a place from others
  std::mt19937 random(3);
  for (int round = 0; round < 300; ++round) {
    std::string text;
    std::vector<std::uint32_t> expected;
    for (int word = 0; word < 20; ++word) {
      const std::size_t bytes = 1 + random() % (word % 5 == 0 ? 40 : 6);
      const std::string one =
          (word % 3 == 0 ? "abcdabcd" : "") + letters(random, bytes);  // also alike at first
      const std::string pretoken = text.empty() ? one : " " + one;
      std::vector<std::uint32_t> ids(pretoken.size());
      ids.resize((*bpe)->merge(pretoken, ids.data()));
      expected.insert(expected.end(), ids.begin(), ids.end());
      text += pretoken;
    }
    ASSERT_EQ(encoded(encoder, text), expected) << text;
    ASSERT_EQ(encoded(small, text), expected) << text;
  }
}

// Pretokens are looked for some at a time.
TEST(BpeEncoder, TheFirstIdsOfManyPretokensAreThoseOfTheWholeText) {
  const auto rules = letter_rules(60, 1);
  const auto bpe = Bpe::create(vocabulary_of(rules));
  ASSERT_TRUE(bpe);
  BpeEncoder encoder(*bpe);
  std::mt19937 random(3);
  for (std::size_t words = 0; words < 70; ++words) {
    std::string text;
    for (std::size_t word = 0; word < words; ++word) text += " " + letters(random, 1 + random() % 24);
    const std::vector<std::uint32_t> whole = encoded(encoder, text);
    for (std::size_t most = 0; most <= whole.size(); ++most) {
      const auto first = encoder.encode(text, most);
      ASSERT_TRUE(first);
      ASSERT_TRUE(std::ranges::equal(*first, std::span(whole).first(most))) << text << ", " << most;
    }
  }
}

TEST(BpeEncoder, PretokensThatAreAlikeAtFirstAreTwo) {
  const std::vector<BpeMerge> rules = {{'x', 'x', 0, 300}, {300, 300, 1, 301}, {301, 301, 2, 302}};
  const auto bpe = Bpe::create(vocabulary_of(rules));
  ASSERT_TRUE(bpe);
  BpeEncoder encoder(*bpe);
  for (const std::string& behind :
       {std::string(), std::string(20, '0')})  // the last bytes of a text are taken one by one
    for (const std::string& last : {std::string("y"), std::string("z"), std::string("y")}) {
      const auto ids = encoded(encoder, "xxxxxxxx" + last + behind);
      EXPECT_EQ(ids.size(), 2 + behind.size());
      EXPECT_EQ(ids[0], 302u);
      EXPECT_EQ(ids[1], static_cast<std::uint32_t>(last[0]));
    }
}

// More than the memory for long pretokens holds, which is then begun anew.
TEST(BpeEncoder, MemoryThatIsFullIsBegunAnew) {
  const auto rules = letter_rules(10, 1);
  const auto bpe = Bpe::create(vocabulary_of(rules));
  ASSERT_TRUE(bpe);
  BpeEncoder encoder(*bpe);
  std::mt19937 random(3);
  for (int i = 0; i < 60'000; ++i) {
    const std::string word = letters(random, 120);
    std::vector<std::uint32_t> ids(word.size());
    ids.resize((*bpe)->merge(word, ids.data()));
    ASSERT_EQ(encoded(encoder, word), ids);
    ASSERT_EQ(encoded(encoder, word), ids);
  }
}

TEST(BpeEncoder, WholePretokensComeFirst) {
  const std::vector<std::uint32_t> ids = {7000};
  const std::vector<std::uint64_t> ends = {4};
  const std::vector<BpeMerge> rules = {{'a', 'b', 0, 300}};
  BpeVocabulary vocabulary = vocabulary_of(rules);
  vocabulary.whole = " abc";
  vocabulary.whole_ends = ends;
  vocabulary.whole_ids = ids;
  const auto bpe = Bpe::create(vocabulary);
  ASSERT_TRUE(bpe);
  BpeEncoder encoder(*bpe);
  EXPECT_EQ(encoded(encoder, "abc abc abcd"),
            (std::vector<std::uint32_t>{300, 'c', 7000, ' ', 300, 'c', 'd'}));
}

TEST(BpeEncoder, TheFirstIdsAreThoseOfTheWholeText) {
  const std::vector<BpeMerge> rules = {{'a', 'b', 0, 300}};
  const auto bpe = Bpe::create(vocabulary_of(rules));
  ASSERT_TRUE(bpe);
  BpeEncoder encoder(*bpe);
  const std::string_view text = "abc ab, xy? 12345 abab";
  const std::vector<std::uint32_t> whole = encoded(encoder, text);
  for (std::size_t most = 0; most <= whole.size() + 1; ++most) {
    const auto ids = encoder.encode(text, most);
    ASSERT_TRUE(ids);
    EXPECT_EQ(std::vector<std::uint32_t>(ids->begin(), ids->end()),
              std::vector<std::uint32_t>(whole.begin(), whole.begin() + std::min(most, whole.size())));
  }
  EXPECT_FALSE(encoder.encode("ab\xC3", 1)) << "what is not encoded is checked, too";
}

TEST(BpeEncoder, TextThatIsNoUtf8IsCorrupt) {
  const auto bpe = Bpe::create(vocabulary_of({}));
  ASSERT_TRUE(bpe);
  BpeEncoder encoder(*bpe);
  const auto ids = encoder.encode("ab\xC3");
  ASSERT_FALSE(ids);
  EXPECT_EQ(ids.error().code, Code::kCorrupt);
  EXPECT_NE(ids.error().message.find("byte 2"), std::string::npos) << ids.error().message;
  EXPECT_EQ(encoded(encoder, "ab"), (std::vector<std::uint32_t>{'a', 'b'})) << "and it goes on";
}

}  // namespace
}  // namespace carya::text
