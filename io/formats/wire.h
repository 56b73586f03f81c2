#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace carya::io {

/// Reads one protobuf message, field by field. What is malformed ends it with ok() false: a varint of more
/// than 10 bytes or 64 bits, a length behind the end, a field number 0, an unknown wire type, groups that do
/// not close or lie deeper than 100.
///
/// Threads: owner only.
/// Source:  https://protobuf.dev/programming-guides/encoding/
class WireReader {
 public:
  enum class Type : std::uint8_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kGroup = 3, kFixed32 = 5 };
  struct Field {
    std::uint32_t number = 0;
    Type type = Type::kVarint;
    std::uint64_t value = 0;           ///< kVarint, kFixed64, kFixed32
    std::span<const std::byte> bytes;  ///< kBytes
  };

  explicit WireReader(std::span<const std::byte> message) : left_(message) {}

  /// The next field; nothing at the end, or when the message is malformed. Groups are passed over.
  std::optional<Field> next();
  bool ok() const { return ok_; }
  bool at_end() const { return left_.empty(); }
  /// Where it stands: behind the last field that was read, or where it is malformed.
  const std::byte* at() const { return left_.data(); }

  /// A varint that stands alone, as in a packed field. Nothing: malformed, or at the end.
  std::optional<std::uint64_t> varint();

 private:
  std::optional<Field> field();
  std::nullopt_t malformed() {
    ok_ = false;
    return std::nullopt;
  }

  std::span<const std::byte> left_;
  bool ok_ = true;
};

}  // namespace carya::io
