#pragma once

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>

namespace carya::io {

/// Writes tars of every dialect, byte by byte, independent of the scanner under test.
class TarMaker {
 public:
  std::string bytes;

  struct Header {
    std::string name;
    std::uint64_t size = 0;
    char type = '0';
    std::string magic = std::string(
        "ustar\0"
        "00",
        8);
    std::string prefix;
    bool base256 = false;
  };

  TarMaker& header(const Header& h) {
    char raw[512] = {};
    std::memcpy(raw, h.name.data(), std::min<std::size_t>(h.name.size(), 100));
    std::snprintf(raw + 100, 8, "%07o", 0644u);
    if (h.base256) {
      raw[124] = static_cast<char>(0x80);
      for (int i = 0; i < 8; ++i) raw[135 - i] = static_cast<char>(h.size >> (8 * i));
    } else {
      char digits[32];
      std::snprintf(digits, sizeof digits, "%011llo", static_cast<unsigned long long>(h.size));
      std::memcpy(raw + 124, digits, 12);
    }
    raw[156] = h.type;
    std::memcpy(raw + 257, h.magic.data(), std::min<std::size_t>(h.magic.size(), 8));
    std::memcpy(raw + 345, h.prefix.data(), std::min<std::size_t>(h.prefix.size(), 155));
    std::memset(raw + 148, ' ', 8);
    unsigned sum = 0;
    for (const char c : raw) sum += static_cast<unsigned char>(c);
    std::snprintf(raw + 148, 8, "%06o", sum & 0777777);
    bytes.append(raw, sizeof raw);
    return *this;
  }
  TarMaker& payload(std::string_view content) {
    bytes.append(content);
    bytes.append((512 - content.size() % 512) % 512, '\0');
    return *this;
  }
  TarMaker& file(const std::string& name, std::string_view content) {
    return header({.name = name, .size = content.size()}).payload(content);
  }
  TarMaker& extension(char type, std::string_view content) {
    return header({.name = "ext", .size = content.size(), .type = type}).payload(content);
  }
  static std::string pax(const std::string& key, const std::string& value) {
    const std::size_t rest = key.size() + value.size() + 3;
    std::size_t length = rest + 1;
    while (std::to_string(length).size() + rest != length) ++length;
    return std::to_string(length) + " " + key + "=" + value + "\n";
  }
  std::string finish() const { return bytes + std::string(1024, '\0'); }
};

}  // namespace carya::io
