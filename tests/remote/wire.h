#pragma once

#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "base/unique_fd.h"
#include "remote/protocol/connection.h"
#include "remote/protocol/frame.h"
#include "remote/protocol/messages.h"

namespace carya::remote {

/// Two ends of a stream; both non-blocking.
inline std::pair<UniqueFd, UniqueFd> socket_pair() {
  int ends[2];
  CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) == 0);
  return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

/// A frame's bytes as they go over the wire.
template <typename Message>
std::string frame_bytes(const Message& message, std::uint64_t request = 0, const std::string& payload = {}) {
  const std::string body = encode(message);
  const auto header = encode_header({.type = Message::kType,
                                     .body_bytes = static_cast<std::uint32_t>(body.size()),
                                     .request = request,
                                     .payload_bytes = payload.size()});
  return std::string(reinterpret_cast<const char*>(header.data()), header.size()) + body + payload;
}

/// Bytes that no shift of them repeats soon.
inline std::string pattern(std::size_t bytes, std::uint64_t seed) {
  std::string out(bytes, '\0');
  for (std::size_t i = 0; i < bytes; ++i) {
    seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
    out[i] = static_cast<char>(seed >> 56);
  }
  return out;
}

/// A payload of the text, which it owns.
inline Payload payload_of(std::string text) {
  auto owned = std::make_shared<const std::string>(std::move(text));
  return {{std::as_bytes(std::span(*owned))}, owned};
}

/// Takes whatever comes, into memory of its own or of the test's.
struct Collector : FrameSink {
  struct Frame {
    FrameHeader header;
    std::string body;
    std::string payload;  // when no parts were given
    bool placed = false;
  };

  Result<ReceiveTarget> place(const FrameHeader& header, const std::string&) override {
    ++places;
    if (later) return ReceiveTarget{ReceiveTarget::Where::kLater, {}};
    if (discard) return ReceiveTarget{};
    if (!parts.empty()) return ReceiveTarget{ReceiveTarget::Where::kParts, parts};
    own.assign(header.payload_bytes, '\0');
    return ReceiveTarget{ReceiveTarget::Where::kParts, {std::as_writable_bytes(std::span(own))}};
  }
  Status take(const FrameHeader& header, const std::string& body, bool placed) override {
    frames.push_back({header, body, std::move(own), placed});
    own.clear();
    return {};
  }

  std::vector<std::span<std::byte>> parts;
  bool discard = false;
  bool later = false;
  int places = 0;
  std::string own;
  std::vector<Frame> frames;
};

}  // namespace carya::remote
