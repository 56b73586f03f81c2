// Frames of the chunk protocol: what the header's check lets pass is within its limits, and what the body's
// check lets pass every message's reader takes without harm.

#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>

#include "remote/protocol/frame.h"
#include "remote/protocol/messages.h"

template <typename Message>
static void read(const std::string& body) {
  using namespace carya::remote;
  const auto message = decode<Message>(body);
  if (!message) return;
  const auto again = decode<Message>(encode(*message));
  if (!again || encode(*again) != encode(*message)) std::abort();
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace carya::remote;
  std::string body(reinterpret_cast<const char*>(data), size);
  if (size >= kHeaderBytes) {
    const FrameLimits limits{.body_bytes = 4096, .payload_bytes = 1 << 20};
    const auto header = decode_header(std::as_bytes(std::span(data, size)), limits);
    if (header) {
      if (header->body_bytes > limits.body_bytes || header->payload_bytes > limits.payload_bytes)
        std::abort();
      const auto again = decode_header(encode_header(*header), limits);
      if (!again || encode_header(*again) != encode_header(*header)) std::abort();
      body = body.substr(kHeaderBytes, header->body_bytes);
    }
  }
  if (!check_body(body)) return 0;
  read<Hello>(body);
  read<Welcome>(body);
  read<Register>(body);
  read<Registered>(body);
  read<UnknownPlan>(body);
  read<Request>(body);
  read<ChunkResult>(body);
  read<ChunkFailed>(body);
  read<Credit>(body);
  read<ErrorIs>(body);
  return 0;
}
