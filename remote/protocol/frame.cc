#include "remote/protocol/frame.h"

#include <fmt/core.h>
#include <bit>
#include <cstring>

#include "remote/protocol/cbor_check.h"

namespace carya::remote {
namespace {

constexpr std::uint32_t kMagic = 0x5259'4143;  // "CAYR", first byte lowest
constexpr CborLimits kBodyLimits{.depth = 4, .items = 4096};

/// Little-endian, as every machine that Carya runs on.
struct Layout {
  std::uint32_t magic;
  std::uint8_t major;
  std::uint8_t minor;
  std::uint16_t type;
  std::uint32_t flags;
  std::uint32_t body_bytes;
  std::uint64_t request;
  std::uint64_t payload_bytes;
};
static_assert(sizeof(Layout) == kHeaderBytes && std::endian::native == std::endian::little);

bool has_payload(FrameType type) {
  return type == FrameType::kRegister || type == FrameType::kRequest || type == FrameType::kResult;
}

std::unexpected<Error> too_long(FrameType type, const char* what, std::uint64_t bytes, std::uint64_t limit) {
  return fail(Code::kCorrupt,
              fmt::format("{} frame: a {} of {} B; give at most {}", frame_name(type), what, bytes, limit));
}

}  // namespace

std::string_view frame_name(FrameType type) {
  switch (type) {
    case FrameType::kHello:
      return "Hello";
    case FrameType::kWelcome:
      return "Welcome";
    case FrameType::kRegister:
      return "Register";
    case FrameType::kRegistered:
      return "Registered";
    case FrameType::kUnknownPlan:
      return "UnknownPlan";
    case FrameType::kRequest:
      return "Request";
    case FrameType::kResult:
      return "Result";
    case FrameType::kChunkFailed:
      return "ChunkFailed";
    case FrameType::kCredit:
      return "Credit";
    case FrameType::kPing:
      return "Ping";
    case FrameType::kPong:
      return "Pong";
    case FrameType::kDrain:
      return "Drain";
    case FrameType::kError:
      return "Error";
    case FrameType::kCancel:
      return "Cancel";
    case FrameType::kAskUsage:
      return "AskUsage";
    case FrameType::kUsageIs:
      return "UsageIs";
  }
  return "";
}

std::array<std::byte, kHeaderBytes> encode_header(const FrameHeader& header) {
  const Layout layout{
      kMagic,       kProtocolMajor,    header.minor,   static_cast<std::uint16_t>(header.type),
      header.flags, header.body_bytes, header.request, header.payload_bytes};
  return std::bit_cast<std::array<std::byte, kHeaderBytes>>(layout);
}

Result<FrameHeader> decode_header(std::span<const std::byte> bytes, const FrameLimits& limits) {
  CHECK(bytes.size() >= kHeaderBytes);
  Layout in;
  std::memcpy(&in, bytes.data(), sizeof(in));
  if (in.magic != kMagic) {
    // A handshake of TLS. Source: RFC 8446, section 5.1.
    const bool is_tls = bytes[0] == std::byte{22} && bytes[1] == std::byte{3};
    return fail(Code::kCorrupt,
                std::string("no frame of Carya's chunk protocol") +
                    (is_tls ? ": the peer speaks TLS, and this side has no certificates" : ""));
  }
  if (in.major != kProtocolMajor)
    return fail(
        Code::kUnsupported,
        fmt::format(
            "the peer speaks chunk protocol {}, this is {}; install the same version of carya on both sides",
            in.major, kProtocolMajor));
  const FrameHeader header{
      static_cast<FrameType>(in.type), in.minor, in.flags, in.body_bytes, in.request, in.payload_bytes};
  if (frame_name(header.type).empty())
    return fail(Code::kCorrupt, fmt::format("a frame of unknown type {}", in.type));
  if ((header.flags & kFlagsMustKnow & ~kHashed) != 0)
    return fail(Code::kUnsupported,
                fmt::format("{} frame: unknown flags {}", frame_name(header.type), header.flags));
  if (header.body_bytes == 0 || header.body_bytes > limits.body_bytes)
    return too_long(header.type, "body", header.body_bytes, limits.body_bytes);
  const std::uint64_t payload_max = has_payload(header.type) ? limits.payload_bytes : 0;
  if (header.payload_bytes > payload_max)
    return too_long(header.type, "payload", header.payload_bytes, payload_max);
  if ((header.flags & kHashed) != 0 && header.payload_bytes == 0)
    return fail(Code::kCorrupt, std::string(frame_name(header.type)) + " frame: a hash of no payload");
  return header;
}

Status check_body(std::string_view body) {
  constexpr unsigned kMap = 5;
  TRY(check_cbor(std::as_bytes(std::span(body)), kBodyLimits));
  if (static_cast<unsigned char>(body.front()) >> 5 != kMap) return fail(Code::kCorrupt, "a body is no map");
  return {};
}

}  // namespace carya::remote
