#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace carya::text {

/// The class of a code point, a bit each, as pre-tokenizers ask for them. Zero: none of these.
enum CharClass : std::uint8_t {
  kUpper = 1,    ///< upper and title case: \p{Lu}, \p{Lt}
  kLower = 2,    ///< \p{Ll}
  kLetter = 4,   ///< letters without case: \p{Lm}, \p{Lo}
  kMark = 8,     ///< \p{M}
  kNumber = 16,  ///< \p{N}
  kSpace = 32,   ///< \s
};
inline constexpr std::uint8_t kAnyLetter = kUpper | kLower | kLetter;

/// Whose Unicode tables these are: "tokenizers 0.23.3". The version is part of what ids mean.
extern const std::string_view kUnicodeSource;
/// Runs of code points of one class in ascending order: last code point << 3 | the number of its class, from 1 on; 0: none.
extern const std::uint32_t kUnicodeRuns[];
extern const std::size_t kUnicodeRunCount;

/// A character of valid UTF-8: its class, and its bytes.
struct Char {
  std::uint8_t of = 0;
  std::uint8_t bytes = 1;
};

/// Classes of all code points by two look-ups. Threads: immutable.
class CharClasses {
 public:
  static const CharClasses& get();

  /// The character at `at`, where valid UTF-8 begins a character.
  Char at(const char* at) const {
    const auto first = static_cast<unsigned char>(*at);
    if (first < 0x80) return {ascii_[first], 1};
    return beyond_ascii(reinterpret_cast<const unsigned char*>(at));
  }
  std::uint8_t of(char32_t point) const {
    return blocks_[(std::size_t{block_of_[point >> kBlockBits]} << kBlockBits) + (point & (kBlock - 1))];
  }

 private:
  static constexpr unsigned kBlockBits = 7;
  static constexpr std::size_t kBlock = std::size_t{1} << kBlockBits, kPoints = 0x110000;

  CharClasses();
  Char beyond_ascii(const unsigned char* at) const {
    const auto rest = [&](int i) { return char32_t{at[i]} & 63; };
    if (at[0] < 0xE0) return {of((char32_t{at[0]} & 31) << 6 | rest(1)), 2};
    if (at[0] < 0xF0) return {of((char32_t{at[0]} & 15) << 12 | rest(1) << 6 | rest(2)), 3};
    return {of((char32_t{at[0]} & 7) << 18 | rest(1) << 12 | rest(2) << 6 | rest(3)), 4};
  }

  std::array<std::uint8_t, 128> ascii_{};
  std::array<std::uint16_t, kPoints / kBlock> block_of_{};
  std::vector<std::uint8_t> blocks_;  // each different block once
};

/// The bytes of `text` before the first that is no UTF-8; its size if all is.
std::size_t valid_utf8_bytes(std::string_view text);

}  // namespace carya::text
