// What a client of the daemon may ask, well-formed and with hostile values, to a server that serves another client
// meanwhile: each question is answered or ends its connection, and the other client's is answered after that.

#include <sys/socket.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <thread>

#include "loader/control/documents.h"
#include "loader/control/sealed_bytes.h"
#include "loader/daemon/server.h"
#include "shm/fd_passing.h"
#include "tests/fuzz/drawn.h"

namespace {

using namespace carya;          // NOLINT(google-build-using-namespace): a program's own file
using namespace carya::loader;  // NOLINT(google-build-using-namespace)

constexpr int kPatienceMs = 20'000;

/// The next message, whatever signals libFuzzer sends meanwhile to see that a run ends.
Result<Message> receive(Channel& channel) {
  while (true) {
    auto message = channel.receive(kPatienceMs);
    if (message || message.error().sys_errno != EINTR) return message;
  }
}

/// A server in a thread of its own until the process ends.
class Daemon {
 public:
  Daemon() : socket_(photos_.path() + "/caryad.sock") {
    ServerOptions options{.socket = socket_};
    options.limits = {.jobs = 4, .shared_bytes = 64 << 20, .threads = 1, .linger_s = 0};
    options.silent_s = 1e6;  // the witness is silent for as long as this process has no core
    options.log = [](LogLevel, const std::string&) {};
    options.last_lines = [](std::uint64_t lines) { return std::vector<std::string>(lines, "a line"); };
    server_ = Server::create(std::move(options)).value();
    thread_ = std::thread([this] { server_->run(); });
  }
  ~Daemon() {
    server_->stop();
    thread_.join();
    server_->end();
  }
  Daemon(const Daemon&) = delete;
  Daemon& operator=(const Daemon&) = delete;

  Channel greeted() const {
    Channel channel = Channel::connect(socket_).value();
    CHECK(channel.send({.type = MessageType::kHello, .request = 1, .body = encode(Hello{"fuzz"})},
                       kPatienceMs));
    CHECK(receive(channel)->type == MessageType::kWelcome);
    return channel;
  }
  const std::string& folder() const { return photos_.path(); }

 private:
  const PhotosFolder photos_{4};
  std::string socket_;
  std::unique_ptr<Server> server_;
  std::thread thread_;
};

/// The answer to this question, whatever is told before; kClosed if the connection ended instead.
Result<Message> answer_to(Channel& channel, std::uint32_t request) {
  while (true) {
    auto message = receive(channel);
    if (!message || message->request == request || message->type == MessageType::kNotice) return message;
  }
}

/// Attaches to two batches of photos; the job's name is one of a few, so that jobs end and begin anew.
bool attach(Channel& channel, const Daemon& daemon, std::uint8_t name) {
  const std::string document =
      R"({"version":1,"source":{"type":"image_folder","path":")" + daemon.folder() +
      R"(/data"},"ops":[{"op":"decode_image"},{"op":"resize","size":[8,8]}],"batch":{"batch_size":2}})";
  AttachRequest request{.job = "fuzz-" + std::to_string(name % 4)};
  request.options.threads = 1;
  request.options.slots = 2;
  Message message{.type = MessageType::kAttach, .request = 2, .body = encode(request)};
  message.fds.push_back(SealedBytes::copy("fuzz", std::as_bytes(std::span(document))).value());
  if (!channel.send(message, kPatienceMs)) return false;
  const auto answer = answer_to(channel, 2);
  if (!answer || answer->type != MessageType::kAttached) return false;
  return shm::receive_reader_fds(channel.fd(), kPatienceMs).has_value();
}

struct Question {
  MessageType type;
  Json body;
};

/// One of each kind that a client may send, but for the two that end the server and that attach.
const std::vector<Question>& questions() {
  const auto of = [](MessageType type, const auto& document) {
    return Question{type, Json::from_cbor(encode(document))};
  };
  io::LentGrant grant;
  grant.account = "s3:bucket";
  LendRequest lend;
  lend.grants.push_back(grant);
  static const std::vector<Question> kQuestions{
      of(MessageType::kHello, Hello{"again"}),
      of(MessageType::kSeek, SeekRequest{1, 2}),
      of(MessageType::kPolicy, PolicyRequest{transforms::OnError::kReplace}),
      of(MessageType::kTakeFound, TakeFoundRequest{1}),
      {MessageType::kStats, Json::object()},
      {MessageType::kStatus, Json::object()},
      {MessageType::kMetrics, Json::object()},
      of(MessageType::kLogs, LogsRequest{10}),
      of(MessageType::kTrace, TraceRequest{}),
      of(MessageType::kTrace, TraceRequest{.session = 1, .thread_events = 16, .job = "fuzz-1"}),
      of(MessageType::kWatch, WatchRequest{"fuzz-0"}),
      of(MessageType::kWatch, WatchRequest{"fuzz-1"}),
      of(MessageType::kStopJob, StopJobRequest{"fuzz-2"}),
      of(MessageType::kLend, lend),
      of(MessageType::kTurn, TurnRequest{}),
      of(MessageType::kDetach, DetachRequest{5.0}),
      {MessageType::kAttached, Json::object()},
  };
  return kQuestions;
}

/// Some leaves have other values, are missing, or have a neighbour that nobody knows.
void change(Json& body, Choices& choices) {
  for (std::size_t i = choices.byte() % 4; i > 0; --i) {
    std::vector<Json*> leaves;
    collect_leaves(body, leaves);
    if (leaves.empty() || choices.byte() % 8 == 0) {
      body[choices.text()] = choices.value();
    } else if (choices.byte() % 8 == 0) {
      body.erase(std::next(body.begin(), static_cast<std::ptrdiff_t>(choices.below(body.size()))));
    } else {
      *leaves[choices.below(leaves.size())] = choices.value();
    }
  }
}

/// Whether the connection is there still.
bool ask(Channel& channel, const Question& question, std::uint32_t request, Choices& choices) {
  Json body = question.body;
  change(body, choices);
  Message message{.type = question.type, .request = request};
  message.body.clear();
  Json::to_cbor(body, message.body);
  if (message.body.size() > kMessageBytesMax - kHeaderBytes) return true;
  message.minor = choices.byte() % 8 == 0 ? choices.byte() % 8 : kProtocolMinor;
  if (choices.byte() % 16 == 0)
    message.fds.push_back(SealedBytes::copy("fuzz", std::as_bytes(std::span("x"))).value());
  if (!channel.send(message, kPatienceMs)) return false;
  const auto answer = answer_to(channel, request);
  if (!answer) CHECK(answer.error().code == Code::kClosed);
  return answer.has_value();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Daemon kDaemon;
  static Channel reader = kDaemon.greeted(), witness = kDaemon.greeted();
  static const bool kReads = attach(reader, kDaemon, 0);  // for the whole time
  CHECK(kReads);
  static std::uint32_t asked = 1;
  Choices choices(data, size);
  Channel channel = kDaemon.greeted();
  const std::uint8_t first = choices.byte();
  bool alive = (first & 3) != 3 || attach(channel, kDaemon, 1 + (first >> 2) % 3);
  for (std::uint32_t request = 3; alive && request < 12 && choices.any(); ++request)
    alive = ask(channel, questions()[choices.byte() % questions().size()], request, choices);
  CHECK(witness.send({.type = MessageType::kStatus, .request = ++asked}, kPatienceMs));
  const auto answer = receive(witness);
  CHECK(answer && answer->request == asked);
  CHECK(answer->type == MessageType::kStatusIs || answer->type == MessageType::kLong);
  return 0;
}
