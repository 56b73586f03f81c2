#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

#include "transforms/text/char_class.h"

// Pre-tokenizers: where text is cut before byte pairs are merged. Each is a regular expression of a published tokenizer,
// matched by hand; what its alternatives and its backtracking come to stands beside each function. Texts are valid UTF-8.
namespace carya::text {

enum class Pretokens : std::uint8_t {
  kGpt2,  ///< '(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
  kLlama3,  ///< (?i:'s|..)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
  kQwen2,  ///< as kLlama3, with one \p{N}
  kGpt4o,  ///< as kLlama3, words cut before capitals, with contractions at their ends, and / behind signs
};

/// Cuts valid UTF-8, which does not change while it lives.
template <Pretokens kKind>
class PretokenScanner {
 public:
  explicit PretokenScanner(const char* end) : end_(end) {}

  /// The end of the pretoken that begins at `at`, before the end of the text. It is behind `at`.
  const char* next(const char* at) const {
    if constexpr (kKind == Pretokens::kGpt2) return gpt2(at);
    if constexpr (kKind == Pretokens::kGpt4o) return gpt4o(at);
    return llama3(at);
  }

 private:
  static constexpr std::uint8_t kNoSign = kAnyLetter | kNumber | kSpace;
  static constexpr std::uint8_t kWordHead = kUpper | kLetter | kMark, kWordTail = kLower | kLetter | kMark;
  static constexpr int kDigitsMax = kKind == Pretokens::kQwen2 ? 1 : 3;

  const char* gpt2(const char* at) const {
    const char* word = at;
    if (*at == ' ') {
      if (++word == end_) return word;
    } else if (const int bytes = contraction(at)) {
      return at + bytes;
    }
    const Char first = classes_.at(word);
    if ((first.of & kSpace) != 0) return spaces(at);
    if ((first.of & kAnyLetter) != 0) return letters(word + first.bytes);
    if ((first.of & kNumber) != 0) return run<kNumber>(word + first.bytes);
    return signs(word + first.bytes);
  }

  const char* llama3(const char* at) const {
    if (const int bytes = contraction(at)) return at + bytes;
    const Char first = classes_.at(at);
    const char* const rest = at + first.bytes;
    if ((first.of & kAnyLetter) != 0) return letters(rest);
    if ((first.of & kNumber) != 0) return digits(rest);
    const Char second = rest < end_ ? classes_.at(rest) : Char{kSpace, 0};
    if (!is_line_end(*at) && (second.of & kAnyLetter) != 0) return letters(rest + second.bytes);
    if ((first.of & kSpace) == 0) return line_ends(signs(rest));
    if (*at == ' ' && (second.of & kNoSign) == 0) return line_ends(signs(rest + second.bytes));
    return lines_or_spaces(at);
  }

  const char* gpt4o(const char* at) const {
    const Char first = classes_.at(at);
    const char* const rest = at + first.bytes;
    // The sign in front is optional, and tried first.
    const bool may_lead = (first.of & (kAnyLetter | kNumber)) == 0 && !is_line_end(*at);
    if (const char* end = may_lead ? cased_word(rest) : nullptr) return end;
    if (const char* end = cased_word(at)) return end;
    if (const char* end = may_lead ? capitals(rest) : nullptr) return end;
    if (const char* end = capitals(at)) return end;
    if ((first.of & kNumber) != 0) return digits(rest);
    if ((first.of & kSpace) == 0) return line_ends(signs(rest));
    if (*at == ' ' && rest < end_)
      if (const Char second = classes_.at(rest); (second.of & kNoSign) == 0)
        return line_ends(signs(rest + second.bytes));
    return lines_or_spaces(at);
  }

  /// [kWordHead]*[kWordTail]+ and a contraction. The head gives characters back until one of them is a tail.
  const char* cased_word(const char* at) const {
    const char* end = nullptr;
    for (; at < end_;) {
      const Char one = classes_.at(at);
      if ((one.of & kWordHead) == 0) {
        if ((one.of & kWordTail) != 0) end = run<kWordTail>(at + one.bytes);
        break;
      }
      at += one.bytes;
      if ((one.of & kWordTail) != 0) end = at;
    }
    return end == nullptr ? nullptr : end + contraction(end);
  }

  /// [kWordHead]+ and a contraction; where cased_word() failed, no tail follows.
  const char* capitals(const char* at) const {
    const char* const end = run<kWordHead>(at);
    return end == at ? nullptr : end + contraction(end);
  }

  /// 's 't 'm 'd 're 've 'll, but for GPT-2 in any case; the long s U+017F is an s then. 0: none of them.
  int contraction(const char* at) const {
    if (end_ - at < 2 || *at != '\'') return 0;
    constexpr char kFold = kKind == Pretokens::kGpt2 ? 0 : 0x20;
    const auto is = [](char one, char wanted) { return static_cast<char>(one | kFold) == wanted; };
    if (is(at[1], 's') || is(at[1], 't') || is(at[1], 'm') || is(at[1], 'd')) return 2;
    if (end_ - at < 3) return 0;
    if (kFold != 0 && at[1] == '\xC5' && at[2] == '\xBF') return 3;
    if ((is(at[1], 'r') && is(at[2], 'e')) || (is(at[1], 'v') && is(at[2], 'e')) ||
        (is(at[1], 'l') && is(at[2], 'l')))
      return 3;
    return 0;
  }

  /// \s*[\r\n]+ up to the last line end of a run of spaces, or spaces().
  const char* lines_or_spaces(const char* at) const {
    const char* line = nullptr;
    for (const char* one = at; one < end_;) {
      const Char space = classes_.at(one);
      if ((space.of & kSpace) == 0) break;
      if (is_line_end(*one)) line = one + 1;
      one += space.bytes;
    }
    return line != nullptr ? line : spaces(at);
  }

  /// \s+(?!\S)|\s+: all spaces, but for the last one if something follows, unless it is the only one.
  const char* spaces(const char* at) const {
    const char *last = at, *one = at;
    while (one < end_) {
      const Char space = classes_.at(one);
      if ((space.of & kSpace) == 0) return last == at ? one : last;
      last = one;
      one += space.bytes;
    }
    return one;
  }

  const char* digits(const char* at) const {
    for (int i = 1; i < kDigitsMax && at < end_; ++i) {
      const Char one = classes_.at(at);
      if ((one.of & kNumber) == 0) break;
      at += one.bytes;
    }
    return at;
  }

  const char* line_ends(const char* at) const {
    while (at < end_ && (is_line_end(*at) || (kKind == Pretokens::kGpt4o && *at == '/'))) ++at;
    return at;
  }

  const char* signs(const char* at) const {
    while (at < end_) {
      const Char one = classes_.at(at);
      if ((one.of & kNoSign) != 0) break;
      at += one.bytes;
    }
    return at;
  }

  template <std::uint8_t kClasses>
  const char* run(const char* at) const {
    while (at < end_) {
      const Char one = classes_.at(at);
      if ((one.of & kClasses) == 0) break;
      at += one.bytes;
    }
    return at;
  }

  /// run<kAnyLetter>, by eight letters of ASCII at a time.
  const char* letters(const char* at) const {
    constexpr std::uint64_t kHigh = 0x8080808080808080, kOnes = kHigh >> 7;
    while (end_ - at >= 8) {
      std::uint64_t eight = 0;
      std::memcpy(&eight, at, 8);
      const std::uint64_t low = (eight | kOnes * 0x20) & ~kHigh;  // in lower case
      const std::uint64_t from_a = low + kOnes * (0x80 - 'a'), behind_z = low + kOnes * (0x80 - 'z' - 1);
      const std::uint64_t others = ~(from_a & ~behind_z & ~eight) & kHigh;
      if (others == 0) {
        at += 8;
        continue;
      }
      at += std::countr_zero(others) / 8;
      if (static_cast<unsigned char>(*at) < 0x80) return at;
      const Char one = classes_.at(at);
      if ((one.of & kAnyLetter) == 0) return at;
      at += one.bytes;
    }
    return run<kAnyLetter>(at);
  }

  static bool is_line_end(char one) { return one == '\r' || one == '\n'; }

  const CharClasses& classes_ = CharClasses::get();
  const char* end_;
};

}  // namespace carya::text
