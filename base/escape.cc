#include "base/escape.h"

#include <cstddef>
#include <cstdint>

namespace carya {
namespace {

struct Character {
  std::uint32_t code = 0;
  std::size_t bytes = 0;  // 0: no UTF-8
};

/// Source: RFC 3629, with the shortest form only and without surrogates.
Character first_of(std::string_view text) {
  const auto byte = [&](std::size_t i) {
    return static_cast<std::uint32_t>(static_cast<unsigned char>(text[i]));
  };
  const std::uint32_t head = byte(0);
  if (head < 0x80) return {head, 1};
  const std::size_t bytes = head >= 0xf0 ? 4 : head >= 0xe0 ? 3 : 2;
  if (head < 0xc2 || head > 0xf4 || text.size() < bytes) return {};
  std::uint32_t code = head & (0x7fU >> bytes);
  for (std::size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return {};
    code = code << 6 | (byte(i) & 0x3f);
  }
  const bool shortest = bytes == 2 || (bytes == 3 ? code >= 0x800 : code >= 0x10000 && code <= 0x10ffff);
  return shortest && (code < 0xd800 || code > 0xdfff) ? Character{code, bytes} : Character{};
}

bool shows(std::uint32_t code) {
  if (code < 0x20 || (code >= 0x7f && code < 0xa0)) return false;
  const bool turns = code == 0x061c || code == 0x200e || code == 0x200f ||
                     (code >= 0x2028 && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069);
  return !turns;
}

void append_hex(std::string& out, std::uint32_t number, int digits) {
  for (int i = digits - 1; i >= 0; --i) out += "0123456789abcdef"[number >> (4 * i) & 15];
}

}  // namespace

std::string escaped(std::string_view text, std::string_view keep) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const Character one = first_of(text);
    const std::size_t bytes = one.bytes == 0 ? 1 : one.bytes;
    if (one.bytes != 0 && (shows(one.code) || (bytes == 1 && keep.find(text[0]) != std::string_view::npos))) {
      out += text.substr(0, bytes);
    } else if (one.code > 0xff) {
      out += "\\u";
      append_hex(out, one.code, 4);
    } else {
      out += "\\x";
      append_hex(out, one.bytes == 0 ? static_cast<unsigned char>(text[0]) : one.code, 2);
    }
    text.remove_prefix(bytes);
  }
  return out;
}

}  // namespace carya
