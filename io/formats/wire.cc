#include "io/formats/wire.h"

#include "io/index/file_window.h"

namespace carya::io {
namespace {

constexpr int kGroupsMax = 100;
constexpr std::uint32_t kEndGroup = 4;

}  // namespace

std::optional<std::uint64_t> WireReader::varint() {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < left_.size() && i < 10; ++i) {
    const auto byte = static_cast<std::uint64_t>(left_[i]);
    if (i == 9 && byte > 1) break;  // the 65th bit
    value |= (byte & 0x7f) << (7 * i);
    if ((byte & 0x80) == 0) {
      left_ = left_.subspan(i + 1);
      return value;
    }
  }
  return malformed();
}

std::optional<WireReader::Field> WireReader::field() {
  const auto tag = varint();
  if (!tag || *tag >> 32 != 0 || *tag >> 3 == 0) return malformed();
  Field field{.number = static_cast<std::uint32_t>(*tag >> 3)};
  const auto type = static_cast<std::uint32_t>(*tag & 7);
  field.type = static_cast<Type>(type);
  if (field.type == Type::kGroup || type == kEndGroup) return field;
  if (field.type == Type::kVarint) {
    const auto value = varint();
    if (!value) return malformed();
    field.value = *value;
    return field;
  }
  if (field.type == Type::kBytes) {
    const auto bytes = varint();
    if (!bytes || *bytes > left_.size()) return malformed();
    field.bytes = left_.first(*bytes);
    left_ = left_.subspan(*bytes);
    return field;
  }
  const std::size_t bytes = field.type == Type::kFixed64 ? 8 : field.type == Type::kFixed32 ? 4 : 0;
  if (bytes == 0 || bytes > left_.size()) return malformed();
  field.value =
      bytes == 8 ? load_little<std::uint64_t>(left_.data()) : load_little<std::uint32_t>(left_.data());
  left_ = left_.subspan(bytes);
  return field;
}

std::optional<WireReader::Field> WireReader::next() {
  std::uint32_t open[kGroupsMax];
  int depth = 0;
  while (ok_ && !left_.empty()) {
    const auto found = field();
    if (!found) return std::nullopt;
    if (found->type == Type::kGroup) {
      if (depth == kGroupsMax) return malformed();
      open[depth++] = found->number;
    } else if (static_cast<std::uint32_t>(found->type) == kEndGroup) {
      if (depth == 0 || open[--depth] != found->number) return malformed();
    } else if (depth == 0) {
      return found;
    }
  }
  if (depth != 0) return malformed();
  return std::nullopt;
}

}  // namespace carya::io
