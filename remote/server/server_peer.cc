#include "remote/server/server_peer.h"

#include <fmt/core.h>
#include <algorithm>

#include "base/clock.h"
#include "remote/server/user_proof.h"

namespace carya::remote {
namespace {

constexpr std::size_t kNameBytesMax = 200;
// A client's weight, in thousandths: those of Loader(weight=), of which the ranks of a host have a part each.
constexpr std::uint64_t kWeightMin = 1, kWeightMax = 100'000;

}  // namespace

ServerPeer::ServerPeer(std::uint64_t id, std::unique_ptr<ByteStream> stream, const ServerOptions& options,
                       PeerHost& host, std::int64_t now_ns)
    : id_(id),
      options_(options),
      host_(host),
      heartbeat_(options.heartbeat_ms, options.silent_ms, now_ns),
      since_ns_(now_ns),
      connection_(std::move(stream), *this) {}

ServerPeer::~ServerPeer() {
  connection_.close();
  if (received_) host_.unreserve(received_->bytes);
}

void ServerPeer::set_window(const Window& window) {
  if (window == window_) return;
  window_ = window;
  most_ = {std::max(most_.requests, window.requests), std::max(most_.bytes, window.bytes)};
  if (welcome_) connection_.send(Credit{window});
}

void ServerPeer::finish(std::uint64_t bytes) {
  --in_flight_.requests;
  in_flight_.bytes -= bytes;
}

std::optional<std::uint64_t> ServerPeer::add_plan(std::uint64_t plan) {
  if (use_plan(plan)) return {};
  plans_.push_back(plan);
  if (plans_.size() <= kPlansMax) return {};
  const std::uint64_t oldest = plans_.front();
  plans_.erase(plans_.begin());
  return oldest;
}

bool ServerPeer::use_plan(std::uint64_t plan) {
  const auto found = std::find(plans_.begin(), plans_.end(), plan);
  if (found == plans_.end()) return false;
  std::rotate(found, found + 1, plans_.end());
  return true;
}

Status ServerPeer::check_window(std::uint64_t bytes) const {
  if (in_flight_.requests == 0) return {};
  if (in_flight_.requests < most_.requests && in_flight_.bytes <= most_.bytes &&
      bytes <= most_.bytes - in_flight_.bytes)
    return {};
  return fail(Code::kExhausted,
              fmt::format("a request more than the window of {} requests and {} B has room for",
                          most_.requests, most_.bytes));
}

/// What the body of a Request or Register says, checked before memory is taken for its payload.
Status ServerPeer::read_question(const FrameHeader& header, const std::string& body) {
  question_ = {header.type, header.request, {}};
  if (!welcome_) return fail(Code::kCorrupt, std::string(frame_name(header.type)) + " before Hello");
  if (header.type == FrameType::kRegister) {
    ASSIGN(Register asked, decode<Register>(body));
    if (registering_ >= kPlansMax) return fail(Code::kExhausted, "more plans at once than are kept");
    question_.asked = {.plan = asked.plan, .about = std::move(asked.about)};
    return {};
  }
  ASSIGN(Request asked, decode<Request>(body));
  if (asked.result_bytes > options_.result_bytes_max)
    return fail(Code::kCorrupt, fmt::format("a result of {} B is asked for; give at most {}",
                                            asked.result_bytes, options_.result_bytes_max));
  TRY(check_window(header.payload_bytes + asked.result_bytes));
  question_.asked = {.plan = asked.plan, .about = std::move(asked.about), .result_bytes = asked.result_bytes};
  return {};
}

Result<ReceiveTarget> ServerPeer::place(const FrameHeader& header, const std::string& body) {
  if (!client_may_say(header.type))
    return fail(Code::kCorrupt, std::string(frame_name(header.type)) + " is not for a client to say");
  TRY(read_question(header, body));
  if (!host_.reserve(header.payload_bytes)) return ReceiveTarget{ReceiveTarget::Where::kLater, {}};
  received_ = std::make_shared<ReceivedBytes>();
  received_->data = std::make_unique_for_overwrite<std::byte[]>(header.payload_bytes);
  received_->bytes = header.payload_bytes;
  arriving_since_ns_ = monotonic_ns();
  return ReceiveTarget{ReceiveTarget::Where::kParts, {{received_->data.get(), received_->bytes}}};
}

Status ServerPeer::take(const FrameHeader& header, const std::string& body, bool) {
  arriving_since_ns_ = 0;
  switch (header.type) {
    case FrameType::kHello:
      return take_hello(body);
    case FrameType::kPing: {
      ASSIGN(const Ping ping, decode<Ping>(body));
      worth_ = ping.worth;
      weight_ = std::clamp(ping.weight, kWeightMin, kWeightMax);
      const double free = host_.free_share(*this);
      connection_.send(Pong{static_cast<std::uint64_t>(free * Pong::kAll)}, header.request);
      return {};
    }
    case FrameType::kPong:
      return {};
    case FrameType::kCancel:
      host_.cancel(*this, header.request);
      return {};
    case FrameType::kAskUsage:
      if (!welcome_) return fail(Code::kCorrupt, "AskUsage before Hello");
      only_asks_ = asked_ns_ == 0;
      connection_.send(host_.usage(), header.request);
      return {};
    case FrameType::kRegister:
    case FrameType::kRequest:
      break;
    case FrameType::kError: {
      ASSIGN(const ErrorIs said, decode<ErrorIs>(body));
      return fail(Code::kClosed, "the client goes away: " + said.error.message);
    }
    default:
      return fail(Code::kCorrupt, std::string(frame_name(header.type)) + " is not for a client to say");
  }
  if (header.payload_bytes == 0) {
    TRY(read_question(header, body));
    received_ = std::make_shared<ReceivedBytes>();
  }
  if (header.type == FrameType::kRegister) {
    ++registering_;
  } else {
    asked_ns_ = monotonic_ns();
    ++in_flight_.requests;
    in_flight_.bytes += header.payload_bytes + question_.asked.result_bytes;
  }
  question_.asked.payload = std::move(received_);
  host_.ask(*this, std::move(question_));
  return {};
}

Status ServerPeer::take_hello(const std::string& body) {
  if (welcome_) return fail(Code::kCorrupt, "a second Hello");
  ASSIGN(const Hello hello, decode<Hello>(body));
  ASSIGN(ClientUser user, prove_user(hello, connection_.peer_uris(), host_.tokens(), options_.proven_users));
  ASSIGN(const Welcome welcome, host_.welcome(*this, hello, user));
  name_ = hello.client.substr(0, kNameBytesMax);
  user_ = std::move(user);
  party_ = party_of(user_);
  window_ = most_ = welcome.window;
  connection_.send(welcome);
  connection_.set_limits({.body_bytes = kBodyBytesMax, .payload_bytes = options_.request_bytes_max});
  welcome_ = true;
  return {};
}

}  // namespace carya::remote
