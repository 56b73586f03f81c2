#pragma once

#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "io/formats/crc32c.h"

namespace carya::io {

/// Protobuf and TFRecord as their specifications say, byte by byte.
inline std::string varint(std::uint64_t value) {
  std::string text;
  for (; value >= 0x80; value >>= 7) text += static_cast<char>(value | 0x80);
  return text + static_cast<char>(value);
}
inline std::string bytes_field(std::uint32_t number, std::string_view bytes) {
  return varint(number << 3 | 2) + varint(bytes.size()) + std::string(bytes);
}
inline std::string little(std::uint64_t value, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i) text += static_cast<char>(value >> (8 * i));
  return text;
}
inline std::string float_bytes(float value) {
  std::string text(4, '\0');
  std::memcpy(text.data(), &value, 4);
  return text;
}

/// Feature messages.
inline std::string bytes_feature(const std::vector<std::string>& values) {
  std::string list;
  for (const std::string& value : values) list += bytes_field(1, value);
  return bytes_field(1, list);
}
inline std::string float_feature(const std::vector<float>& values, bool packed = true) {
  std::string list;
  for (const float value : values) list += (packed ? "" : varint(1 << 3 | 5)) + float_bytes(value);
  return bytes_field(2, packed ? bytes_field(1, list) : list);
}
inline std::string int64_feature(const std::vector<std::int64_t>& values, bool packed = true) {
  std::string list;
  for (const std::int64_t value : values)
    list += (packed ? "" : varint(1 << 3)) + varint(static_cast<std::uint64_t>(value));
  return bytes_field(3, packed ? bytes_field(1, list) : list);
}
inline std::string entry(std::string_view key, std::string_view feature) {
  return bytes_field(1, bytes_field(1, key) + bytes_field(2, feature));
}
/// An Example of entries.
inline std::string example(const std::string& entries) {
  return bytes_field(1, entries);
}

inline std::uint32_t masked_of(std::string_view text) {
  return masked_crc(crc32c_portable(std::as_bytes(std::span(text))));
}
inline std::string framed(std::string_view data) {
  const std::string length = little(data.size(), 8);
  return length + little(masked_of(length), 4) + std::string(data) + little(masked_of(data), 4);
}

}  // namespace carya::io
