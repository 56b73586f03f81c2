#include "remote/pool/usage_query.h"

#include <fmt/core.h>
#include <poll.h>

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "remote/protocol/address.h"
#include "remote/protocol/connection.h"

namespace carya::remote {
namespace {

/// What a worker says to who only wants to know who uses it.
class Asker final : public FrameSink {
 public:
  Result<ReceiveTarget> place(const FrameHeader& header, const std::string&) override {
    return fail(Code::kCorrupt, std::string(frame_name(header.type)) + " was not asked for");
  }

  Status take(const FrameHeader& header, const std::string& body, bool) override {
    switch (header.type) {
      case FrameType::kWelcome: {
        ASSIGN(const Welcome welcome, decode<Welcome>(body));
        welcome_ = true;
        connection->set_limits({.body_bytes = kBodyBytesMax});
        connection->send(AskUsage{}, 1);
        return {};
      }
      case FrameType::kUsageIs: {
        if (!welcome_) return fail(Code::kCorrupt, "UsageIs before Welcome");
        ASSIGN(answer, decode<UsageIs>(body));
        return {};
      }
      case FrameType::kError: {
        ASSIGN(ErrorIs said, decode<ErrorIs>(body));
        said.error.message = "it says: " + said.error.message;
        return std::unexpected(std::move(said.error));
      }
      case FrameType::kPing:
        connection->send(Pong{}, header.request);
        return {};
      case FrameType::kPong:
      case FrameType::kCredit:
      case FrameType::kDrain:
        return {};
      default:
        return fail(Code::kCorrupt, std::string(frame_name(header.type)) + " was not asked for");
    }
  }

  std::unique_ptr<Connection> connection;
  std::optional<UsageIs> answer;

 private:
  bool welcome_ = false;
};

Status talk(Asker& asker, std::uint64_t limit_ms) {
  const std::int64_t end_ns = monotonic_ns() + static_cast<std::int64_t>(limit_ms) * kNsPerMs;
  while (!asker.answer) {
    const std::int64_t left_ms = (end_ns - monotonic_ns()) / kNsPerMs;
    if (left_ms <= 0) return fail(Code::kTimeout, fmt::format("no answer within {} ms", limit_ms));
    Connection& connection = *asker.connection;
    pollfd watched{.fd = connection.fd(), .events = POLLIN, .revents = 0};
    if (connection.wants_write()) watched.events |= POLLOUT;
    const int wait_ms =
        connection.has_buffered() ? 0 : static_cast<int>(std::min<std::int64_t>(left_ms, 250));
    poll(&watched, 1, wait_ms);
    TRY(connection.on_ready());
  }
  return {};
}

}  // namespace

Result<UsageIs> ask_usage(const std::string& text, const UsageQuery& query) {
  ASSIGN(const Address address, Address::resolve(text));
  if (!query.tls && !query.insecure && !address.is_local())
    return fail(Code::kInvalidArgument,
                "worker " + text + ": it is another machine; give certificates, or insecure for plain TCP");
  TlsSession session;
  std::shared_ptr<TlsContext> tls;
  ASSIGN(UniqueFd socket, address.connect(0));
  std::unique_ptr<ByteStream> stream;
  if (query.tls && !address.is_unix()) {
    ASSIGN(tls, TlsContext::create(*query.tls));
    const std::string& name = query.server_name.empty() ? address.host() : query.server_name;
    ASSIGN(stream, tls->connect(std::move(socket), name, session));
  } else {
    stream = plain_stream(std::move(socket));
  }
  Asker asker;
  asker.connection = std::make_unique<Connection>(std::move(stream), asker);
  asker.connection->send(query.hello);
  Status talked = talk(asker, query.limit_ms);
  asker.connection->close();
  if (talked) return std::move(*asker.answer);
  Error error = std::move(talked.error());
  error.message = "worker " + text + ": " + error.message;
  return std::unexpected(std::move(error));
}

}  // namespace carya::remote
