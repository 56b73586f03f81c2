#include "loader/control/long_message.h"

#include <span>
#include <string>

#include "base/cbor_check.h"
#include "loader/control/documents.h"
#include "loader/control/sealed_bytes.h"

namespace carya::loader {

bool is_long(std::size_t body_bytes) {
  return body_bytes > kMessageBytesMax - kHeaderBytes;
}

Result<Message> pack_long(const Message& message) {
  if (message.body.size() > kLongBytesMax)
    return fail(Code::kExhausted, "control channel: an answer of " + std::to_string(message.body.size()) +
                                      " bytes; give at most " + std::to_string(kLongBytesMax));
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
    return fail(Code::kCorrupt, "control message: " + std::to_string(message.fds.size()) +
                                    " descriptors with a long answer; expected: 1");
  ASSIGN(const auto file, SealedBytes::map(message.fds[0], kLongBytesMax, "long answer"));
  if (said.type > UINT16_MAX || file->bytes().size() != said.bytes)
    return fail(Code::kCorrupt, "long answer: it has " + std::to_string(file->bytes().size()) +
                                    " bytes; expected: " + std::to_string(said.bytes));
  TRY(check_cbor(file->bytes(), {.items = kLongItemsMax}));
  message.type = static_cast<MessageType>(said.type);
  message.body.assign(reinterpret_cast<const char*>(file->bytes().data()), file->bytes().size());
  message.fds.clear();
  return {};
}

}  // namespace carya::loader
