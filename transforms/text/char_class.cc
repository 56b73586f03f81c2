#include "transforms/text/char_class.h"

#include <cstring>
#include <map>
#include <string>

#include "base/error.h"

namespace carya::text {
namespace {

/// The bytes of the character at `at`; 0 if those up to `end` are none. Overlong forms, halves of surrogate pairs and
/// what is behind U+10FFFF are none.
std::size_t char_bytes(const unsigned char* at, const unsigned char* end) {
  const auto left = static_cast<std::size_t>(end - at);
  const auto follows = [&](std::size_t i, unsigned char low = 0x80, unsigned char high = 0xBF) {
    return i < left && at[i] >= low && at[i] <= high;
  };
  const unsigned char first = at[0];
  if (first < 0x80) return 1;
  if (first < 0xC2 || first > 0xF4) return 0;
  if (first < 0xE0) return follows(1) ? 2 : 0;
  if (first < 0xF0) {
    const unsigned char low = first == 0xE0 ? 0xA0 : 0x80, high = first == 0xED ? 0x9F : 0xBF;
    return follows(1, low, high) && follows(2) ? 3 : 0;
  }
  const unsigned char low = first == 0xF0 ? 0x90 : 0x80, high = first == 0xF4 ? 0x8F : 0xBF;
  return follows(1, low, high) && follows(2) && follows(3) ? 4 : 0;
}

}  // namespace

const CharClasses& CharClasses::get() {
  static const CharClasses classes;
  return classes;
}

CharClasses::CharClasses() {
  std::string all(kPoints, '\0');
  std::size_t begin = 0;
  for (std::size_t i = 0; i < kUnicodeRunCount; ++i) {
    const std::size_t end = (kUnicodeRuns[i] >> 3) + 1;
    const unsigned number = kUnicodeRuns[i] & 7;
    CHECK(begin < end && end <= kPoints);
    std::memset(all.data() + begin, number == 0 ? 0 : 1 << (number - 1), end - begin);
    begin = end;
  }
  CHECK(begin == kPoints);
  std::map<std::string, std::uint16_t> numbers;
  for (std::size_t i = 0; i < block_of_.size(); ++i) {
    const std::string block = all.substr(i * kBlock, kBlock);
    const auto [found, is_new] = numbers.try_emplace(block, static_cast<std::uint16_t>(numbers.size()));
    if (is_new) blocks_.insert(blocks_.end(), block.begin(), block.end());
    block_of_[i] = found->second;
  }
  std::memcpy(ascii_.data(), all.data(), ascii_.size());
}

std::size_t valid_utf8_bytes(std::string_view text) {
  const auto* const begin = reinterpret_cast<const unsigned char*>(text.data());
  const unsigned char* const end = begin + text.size();
  const unsigned char* at = begin;
  while (at < end) {
    std::uint64_t eight = 0;
    if (end - at >= 8 && (std::memcpy(&eight, at, 8), (eight & 0x8080808080808080) == 0)) {
      at += 8;
      continue;
    }
    const std::size_t bytes = char_bytes(at, end);
    if (bytes == 0) break;
    at += bytes;
  }
  return static_cast<std::size_t>(at - begin);
}

}  // namespace carya::text
