#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "remote/protocol/frame.h"

namespace carya::remote {

// What the bodies of frames say (PROTOCOL.md). encode() makes CBOR; decode() checks: every field that is
// known must have its type and range, one that is missing keeps its default, one that is unknown is ignored
// (it is of a later minor version). A field `about` is bytes that only the loader understands.

/// Something that both sides must agree in: a codec's version, a fingerprint.
struct Fact {
  std::string name;
  std::string value;
  bool operator==(const Fact&) const = default;
};

struct Hello {
  static constexpr FrameType kType = FrameType::kHello;
  std::string client;  ///< "carya 0.1.0"
  std::vector<Fact> facts;
  std::string token;  ///< for meshes that do TLS themselves; "" for none
  std::string user;   ///< whose work it is, as the client says: see remote/server/user_proof.h
};

/// What may be on its way to a worker, or with it, or on its way back: from now on, all in all.
struct Window {
  std::uint64_t requests = 0;
  std::uint64_t bytes = 0;  ///< payloads of requests, and the most that their results may have
  bool operator==(const Window&) const = default;
};

struct Welcome {
  static constexpr FrameType kType = FrameType::kWelcome;
  std::string server;  ///< "carya-worker 0.1.0"
  std::vector<Fact> facts;
  Window window;
  std::uint64_t request_bytes_max = 0;  ///< of one request's payload, or one plan's
  std::uint64_t result_bytes_max = 0;   ///< of one result
  std::uint64_t heartbeat_ms = 1000;    ///< between its Pings; the client's are its own matter
};

/// Payload: the plan's document.
struct Register {
  static constexpr FrameType kType = FrameType::kRegister;
  std::uint64_t plan = 0;  ///< the client's number for it
  std::string about;
};
struct Registered {
  static constexpr FrameType kType = FrameType::kRegistered;
  std::uint64_t plan = 0;
  std::string about;
};
struct UnknownPlan {
  static constexpr FrameType kType = FrameType::kUnknownPlan;
  std::uint64_t plan = 0;
};

/// Payload: what the worker needs of the records, if it does not read them itself.
struct Request {
  static constexpr FrameType kType = FrameType::kRequest;
  std::uint64_t plan = 0;
  std::string about;
  std::uint64_t result_bytes = 0;  ///< the most that the result's payload may have
};
/// Payload: raw tensors.
struct ChunkResult {
  static constexpr FrameType kType = FrameType::kResult;
  std::string about;
};
struct ChunkFailed {
  static constexpr FrameType kType = FrameType::kChunkFailed;
  Error error{Code::kIo, {}, 0};  ///< kClosed: not tried, the worker goes away
};

struct Credit {
  static constexpr FrameType kType = FrameType::kCredit;
  Window window;
};
struct Ping {
  static constexpr FrameType kType = FrameType::kPing;
  /// Of a client: what one worker saves it, in millionths of a $ per hour.
  std::uint64_t worth = 0;
  static constexpr std::uint64_t kOne = 1000;
  /// Of a client: its weight beside those of other users, in thousandths.
  std::uint64_t weight = kOne;
};
struct Pong {
  static constexpr FrameType kType = FrameType::kPong;
  static constexpr std::uint64_t kAll = 1000;
  /// Of a server: how much of it the client may count on beside the others, in thousandths.
  std::uint64_t free = kAll;
};
struct Drain {
  static constexpr FrameType kType = FrameType::kDrain;
};
/// Of a request without an answer: nobody wants its result.
struct Cancel {
  static constexpr FrameType kType = FrameType::kCancel;
};
/// Who uses the server?
struct AskUsage {
  static constexpr FrameType kType = FrameType::kAskUsage;
};
/// A client of a server, as the server sees it.
struct ClientUsage {
  std::string client;           ///< as its Hello says
  std::string address;          ///< without the port
  std::uint64_t since_ms = 0;   ///< since it came
  std::uint64_t asked_ms = 0;   ///< since it asked for a chunk last
  bool asks = false;            ///< it has asked for one, ever
  std::string user;             ///< whose work it brings
  bool proven = false;          ///< by its certificate or token; else its Hello says so, and nothing else
  std::uint64_t weight = 1000;  ///< as its last Ping says, as far as it counts
  std::uint64_t worth = 0;      ///< as its last Ping says
  std::uint64_t share = 0;      ///< of the server, in thousandths
  std::uint64_t in_flight = 0;  ///< its requests that have no answer yet
  std::uint64_t thread_ms = 0;  ///< of the server's threads, since it came
  bool operator==(const ClientUsage&) const = default;
};
struct UsageIs {
  static constexpr FrameType kType = FrameType::kUsageIs;
  static constexpr std::size_t kClientsMax = 200;
  std::string server;
  std::uint64_t threads = 0;
  bool drains = false;
  std::uint64_t clients_all = 0;  ///< of which `clients` has the first kClientsMax
  std::vector<ClientUsage> clients;
};
struct ErrorIs {
  static constexpr FrameType kType = FrameType::kError;
  Error error{Code::kIo, {}, 0};
};

template <typename Message>
std::string encode(const Message& message);
/// Of a body that came: check_body() is asked first. Errors: kCorrupt, with the field's name.
template <typename Message>
Result<Message> decode(const std::string& body);

/// Whether a client may say this at all.
bool client_may_say(FrameType type);

}  // namespace carya::remote
