#pragma once

#include <cstddef>
#include <cstdint>

#include "base/error.h"
#include "loader/control/channel.h"

namespace carya::loader {

/// The first minor version whose clients take answers longer than a message.
inline constexpr std::uint8_t kLongMinor = 1;
inline constexpr std::size_t kLongBytesMax = 16 << 20;
inline constexpr std::size_t kLongItemsMax = 1 << 20;

/// Whether a body of so many bytes is too long for a message.
bool is_long(std::size_t body_bytes);
/// A message `Long` in place of one whose body is too long: the body lies in a sealed memory file that comes
/// with it. Errors: kExhausted, with the bytes, also when it is longer than kLongBytesMax.
Result<Message> pack_long(const Message& message);
/// Of a message `Long` the one that it stands for; others stay what they are. The body is checked as that of
/// a short one. Errors: kCorrupt.
Status unpack_long(Message& message);

}  // namespace carya::loader
