#include "remote/protocol/cbor_check.h"

#include <array>
#include <cstdint>
#include <string>

namespace carya::remote {
namespace {

enum Major : std::uint8_t { kUnsigned, kNegative, kBytes, kText, kArray, kMap, kTag, kSimple };

/// The first byte's two halves, and the number that follows it.
struct Head {
  Major major;
  std::uint8_t detail;
  std::uint64_t value;
};

class Walker {
 public:
  Walker(std::span<const std::byte> bytes, const CborLimits& limits) : bytes_(bytes), limits_(limits) {}

  Status walk() {
    std::array<std::uint64_t, 16> left{};  // items still to come, of the item and of each open container
    std::size_t depth = 0;
    left[0] = 1;
    for (std::size_t items = 0;;) {
      while (depth > 0 && left[depth] == 0) --depth;
      if (left[depth] == 0) break;
      --left[depth];
      if (++items > limits_.items) return fail(Code::kCorrupt, "cbor: more items than allowed");
      ASSIGN(const Head head, next());
      if (head.major != kArray && head.major != kMap) continue;
      // A container cannot have more items than bytes are left: a lie about the length ends here.
      if (head.value > left_bytes() / (head.major == kMap ? 2 : 1))
        return fail(Code::kCorrupt, "cbor: a length past the end");
      if (depth + 1 > limits_.depth || depth + 1 >= left.size())
        return fail(Code::kCorrupt, "cbor: nested deeper than allowed");
      left[++depth] = head.major == kMap ? head.value * 2 : head.value;
    }
    if (left_bytes() != 0) return fail(Code::kCorrupt, "cbor: bytes after the end");
    return {};
  }

 private:
  std::size_t left_bytes() const { return bytes_.size() - at_; }

  /// The next head; the bytes of a text or byte string are skipped.
  Result<Head> next() {
    if (left_bytes() == 0) return fail(Code::kCorrupt, "cbor: ends early");
    const auto first = static_cast<std::uint8_t>(bytes_[at_++]);
    Head head{static_cast<Major>(first >> 5), static_cast<std::uint8_t>(first & 31), 0};
    if (head.detail < 24) {
      head.value = head.detail;
    } else if (head.detail <= 27) {
      const std::size_t size = std::size_t{1} << (head.detail - 24);
      if (left_bytes() < size) return fail(Code::kCorrupt, "cbor: ends early");
      for (std::size_t i = 0; i < size; ++i)
        head.value = head.value << 8 | static_cast<std::uint8_t>(bytes_[at_++]);
    } else {
      return fail(Code::kCorrupt, "cbor: indefinite or reserved length");
    }
    if (head.major == kTag) return fail(Code::kCorrupt, "cbor: a tag");
    if (head.major == kBytes || head.major == kText) {
      if (head.value > left_bytes()) return fail(Code::kCorrupt, "cbor: a length past the end");
      at_ += static_cast<std::size_t>(head.value);
    }
    return head;
  }

  std::span<const std::byte> bytes_;
  CborLimits limits_;
  std::size_t at_ = 0;
};

}  // namespace

Status check_cbor(std::span<const std::byte> bytes, const CborLimits& limits) {
  return Walker(bytes, limits).walk();
}

}  // namespace carya::remote
