#include "remote/protocol/messages.h"

#include <nlohmann/json.hpp>

#include "remote/protocol/archive.h"

namespace carya::archive {

using namespace remote;  // NOLINT(google-build-using-namespace): whose messages these are

CARYA_FIELDS(Fact) {
  a("name", d.name), a("value", d.value);
}
CARYA_FIELDS(Window) {
  a("requests", d.requests), a("bytes", d.bytes);
}
CARYA_FIELDS(Hello) {
  a("client", d.client), a("facts", d.facts), a("token", d.token), a("user", d.user);
}
CARYA_FIELDS(Welcome) {
  a("server", d.server), a("facts", d.facts), a("window", d.window);
  a("request_bytes_max", d.request_bytes_max), a("result_bytes_max", d.result_bytes_max);
  a("heartbeat_ms", d.heartbeat_ms);
}
CARYA_FIELDS(Register) {
  a("plan", d.plan), a.blob("about", d.about);
}
CARYA_FIELDS(Registered) {
  a("plan", d.plan), a.blob("about", d.about);
}
CARYA_FIELDS(UnknownPlan) {
  a("plan", d.plan);
}
CARYA_FIELDS(Request) {
  a("plan", d.plan), a.blob("about", d.about), a("result_bytes", d.result_bytes);
}
CARYA_FIELDS(ChunkResult) {
  a.blob("about", d.about);
}
CARYA_FIELDS(ChunkFailed) {
  a("error", d.error);
}
CARYA_FIELDS(Credit) {
  a("window", d.window);
}
CARYA_FIELDS(Ping) {
  a("worth", d.worth), a("weight", d.weight);
}
CARYA_FIELDS(Pong) {
  a("free", d.free);
}
CARYA_FIELDS(Drain) {}
CARYA_FIELDS(Cancel) {}
CARYA_FIELDS(AskUsage) {}
CARYA_FIELDS(ClientUsage) {
  a("client", d.client), a("address", d.address), a("since_ms", d.since_ms), a("asked_ms", d.asked_ms);
  a("asks", d.asks), a("user", d.user), a("weight", d.weight), a("worth", d.worth), a("share", d.share);
  a("in_flight", d.in_flight), a("thread_ms", d.thread_ms), a("proven", d.proven);
}
CARYA_FIELDS(UsageIs) {
  a("server", d.server), a("threads", d.threads), a("drains", d.drains), a("clients_all", d.clients_all);
  a("clients", d.clients);
}
CARYA_FIELDS(ErrorIs) {
  a("error", d.error);
}

}  // namespace carya::archive

namespace carya::remote {

using Json = nlohmann::json;

template <typename Message>
std::string encode(const Message& message) {
  return archive::to_cbor<Json>(message);
}

template <typename Message>
Result<Message> decode(const std::string& body) {
  TRY(check_body(body));
  const Json in = Json::from_cbor(body, true, false);
  const std::string subject(frame_name(Message::kType));
  if (!in.is_object()) return fail(Code::kCorrupt, subject + " frame: its body is no map of named fields");
  Message message;
  std::string wrong;
  if (!archive::Reader<Json>::read(in, message, wrong))
    return fail(Code::kCorrupt, subject + " frame: " + wrong + " is not as expected");
  return message;
}

bool client_may_say(FrameType type) {
  return type == FrameType::kHello || type == FrameType::kRegister || type == FrameType::kRequest ||
         type == FrameType::kCancel || type == FrameType::kPing || type == FrameType::kPong ||
         type == FrameType::kAskUsage || type == FrameType::kError;
}

#define CARYA_MESSAGE(Type)                 \
  template std::string encode(const Type&); \
  template Result<Type> decode<Type>(const std::string&);
CARYA_MESSAGE(Hello)
CARYA_MESSAGE(Welcome)
CARYA_MESSAGE(Register)
CARYA_MESSAGE(Registered)
CARYA_MESSAGE(UnknownPlan)
CARYA_MESSAGE(Request)
CARYA_MESSAGE(ChunkResult)
CARYA_MESSAGE(ChunkFailed)
CARYA_MESSAGE(Credit)
CARYA_MESSAGE(Ping)
CARYA_MESSAGE(Pong)
CARYA_MESSAGE(Drain)
CARYA_MESSAGE(Cancel)
CARYA_MESSAGE(AskUsage)
CARYA_MESSAGE(UsageIs)
CARYA_MESSAGE(ErrorIs)

}  // namespace carya::remote
