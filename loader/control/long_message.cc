#include "loader/control/long_message.h"

#include <fmt/core.h>
#include <span>
#include <string>

#include "loader/control/documents.h"
#include "loader/control/sealed_bytes.h"
#include "remote/protocol/cbor_check.h"

namespace carya::loader {

bool is_long(std::size_t body_bytes) {
  return body_bytes > kMessageBytesMax - kHeaderBytes;
}

Result<Message> pack_long(const Message& message) {
  if (message.body.size() > kLongBytesMax)
    return fail(Code::kExhausted, fmt::format("control channel: an answer of {} bytes; give at most {}",
                                              message.body.size(), kLongBytesMax));
  ASSIGN(UniqueFd body, SealedBytes::copy("carya-answer", std::as_bytes(std::span(message.body))));
  Message packed{.type = MessageType::kLong,
                 .request = message.request,
                 .body = encode(LongIs{static_cast<std::uint32_t>(message.type), message.body.size()})};
  packed.fds.push_back(std::move(body));
  return packed;
}

Status unpack_long(Message& message) {
  if (message.type != MessageType::kLong) return {};
  ASSIGN(const LongIs said, decode<LongIs>(message.body));
  if (message.fds.size() != 1)
    return fail(Code::kCorrupt, fmt::format("control message: {} descriptors with a long answer; expected: 1",
                                            message.fds.size()));
  ASSIGN(const auto file, SealedBytes::map(message.fds[0], kLongBytesMax, "long answer"));
  if (said.type > UINT16_MAX || file->bytes().size() != said.bytes)
    return fail(Code::kCorrupt,
                fmt::format("long answer: it has {} bytes; expected: {}", file->bytes().size(), said.bytes));
  TRY(remote::check_cbor(file->bytes(), {.items = kLongItemsMax}));
  message.type = static_cast<MessageType>(said.type);
  message.body.assign(reinterpret_cast<const char*>(file->bytes().data()), file->bytes().size());
  message.fds.clear();
  return {};
}

}  // namespace carya::loader
