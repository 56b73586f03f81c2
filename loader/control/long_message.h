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

/// Whether a body of `body_bytes` is too long for a message.
bool is_long(std::size_t body_bytes);
/// Make a message `Long` in place of one whose body is too long. The body lies in a sealed memory file that goes with
/// it. Errors: kExhausted, with the bytes; also if the body is longer than kLongBytesMax.
Result<Message> pack_long(const Message& message);
/// Replace a message `Long` by the message that it stands for; other messages stay as they are. The body is checked
/// like that of a short message. Errors: kCorrupt.
Status unpack_long(Message& message);

}  // namespace carya::loader
