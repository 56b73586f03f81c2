#include "io/credentials/percent_encoding.h"

#include <algorithm>
#include <cctype>

namespace carya::io {

bool is_unreserved(unsigned char c) {
  return (c < 0x80 && std::isalnum(c) != 0) || c == '-' || c == '.' || c == '_' || c == '~';
}

std::string percent_encoded(std::string_view text, std::string_view keep) {
  static constexpr char kDigits[] = "0123456789ABCDEF";
  std::string encoded;
  encoded.reserve(text.size());
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (is_unreserved(byte) || keep.contains(c)) {
      encoded += c;
    } else {
      encoded += {'%', kDigits[byte >> 4], kDigits[byte & 15]};
    }
  }
  return encoded;
}

std::string canonical_query(const Query& query) {
  Query encoded;
  for (const auto& [name, value] : query) encoded.emplace_back(percent_encoded(name), percent_encoded(value));
  std::ranges::sort(encoded);
  std::string text;
  for (const auto& [name, value] : encoded) {
    if (!text.empty()) text += '&';
    text += name;
    text += '=';
    text += value;
  }
  return text;
}

}  // namespace carya::io
