#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"

namespace carya::remote {

/// Kinds of frames (PROTOCOL.md). A number is never given another meaning.
enum class FrameType : std::uint16_t {
  kHello = 1,
  kWelcome = 2,
  kRegister = 3,
  kRegistered = 4,
  kUnknownPlan = 5,
  kRequest = 6,
  kResult = 7,
  kChunkFailed = 8,
  kCredit = 9,
  kPing = 10,
  kPong = 11,
  kDrain = 12,
  kError = 13,
  kCancel = 14,
  kAskUsage = 15,
  kUsageIs = 16,
};

/// "Hello", "Welcome", ...; "" for a number that is no type.
std::string_view frame_name(FrameType type);

inline constexpr std::uint8_t kProtocolMajor = 1;
inline constexpr std::uint8_t kProtocolMinor = 0;
inline constexpr std::size_t kHeaderBytes = 32;
/// Flags of the lower half must be understood by who receives them, those of the upper half may be ignored.
inline constexpr std::uint32_t kFlagsMustKnow = 0x0000'ffff;
/// Behind the payload follow kHashBytes: XXH3-128 of header, body and payload, its lower half.
inline constexpr std::uint32_t kHashed = 1;
inline constexpr std::size_t kHashBytes = 8;

/// What a frame begins with.
struct FrameHeader {
  FrameType type{};
  std::uint8_t minor = kProtocolMinor;
  std::uint32_t flags = 0;
  std::uint32_t body_bytes = 0;     ///< of CBOR that follow the header
  std::uint64_t request = 0;        ///< an answer carries that of its question; 0: nobody asked
  std::uint64_t payload_bytes = 0;  ///< that follow the body, raw
};

/// What one side takes from the other. Small until it is known who that is.
struct FrameLimits {
  std::uint32_t body_bytes = 16 << 10;
  std::uint64_t payload_bytes = 0;
};

std::array<std::byte, kHeaderBytes> encode_header(const FrameHeader& header);
/// Reads the first kHeaderBytes of `bytes`, which are there, and believes none of them before it has checked
/// them: magic, version, type, flags, lengths within `limits`, a payload only where the type has one.
/// Errors: kUnsupported (another major version, an unknown flag), kCorrupt.
Result<FrameHeader> decode_header(std::span<const std::byte> bytes, const FrameLimits& limits);

/// Whether a body may be given to a parser that allocates: one CBOR map of definite lengths, at most 4
/// containers inside each other, 4,096 items. Errors: kCorrupt.
Status check_body(std::string_view body);

}  // namespace carya::remote
