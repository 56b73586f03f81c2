#include "loader/control/daemon_stream.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/core.h>
#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <span>
#include <system_error>
#include <thread>

#include "base/clock.h"
#include "base/mutex.h"
#include "loader/control/long_message.h"
#include "loader/control/sealed_bytes.h"
#include "loader/engine/engine_thread.h"
#include "shm/fd_passing.h"

namespace carya::loader {
namespace {

constexpr int kAskMs = 30'000;  // a daemon that is stopped may be continued
constexpr int kHelloMs = 5'000;
constexpr int kFdsMs = 5'000;
constexpr std::int64_t kBackOffMinNs = 2'000'000, kBackOffMaxNs = 100'000'000;

/// What is heard between a question and its answer.
struct Heard {
  /// Called with what a listing has seen, and when a signal came; false ends the wait.
  std::function<bool(std::uint64_t)> progress{};
  /// Called when the daemon wants other credentials; `refused`: a store refused those that it has.
  std::function<void(bool refused)> wanted{};
  std::optional<Error>* last_words = nullptr;
};

/// One question and its answer.
Result<Message> ask(Channel& channel, const Message& question, MessageType wanted, int timeout_ms,
                    const Heard& heard = {}) {
  const std::int64_t end_ns = monotonic_ns() + timeout_ms * 1'000'000LL;
  // When the peer is gone it may have said why before: that is read first.
  if (const Status sent = channel.send(question, timeout_ms); !sent && sent.error().code != Code::kClosed)
    return std::unexpected(sent.error());
  std::uint64_t records = 0;
  while (true) {
    const std::int64_t left_ms = std::max<std::int64_t>(0, (end_ns - monotonic_ns()) / 1'000'000);
    Result<Message> answer = channel.receive(static_cast<int>(left_ms));
    const bool interrupted =
        !answer && answer.error().code == Code::kTimeout && answer.error().sys_errno != 0;
    if (!answer && (!interrupted || left_ms == 0)) return std::unexpected(std::move(answer.error()));
    if (answer && answer->type == MessageType::kProgress) {
      ASSIGN(const Progress seen, decode<Progress>(answer->body));
      records = seen.records;
    }
    if (interrupted || answer->type == MessageType::kProgress) {
      if (heard.progress && !heard.progress(records))
        return fail(Code::kClosed, "daemon: the wait for its answer was ended");
      continue;
    }
    if (answer->type == MessageType::kNotice) {
      ASSIGN(const ErrorIs notice, decode<ErrorIs>(answer->body));
      if (heard.last_words != nullptr) *heard.last_words = notice.error;
      return std::unexpected(notice.error);
    }
    if (answer->type == MessageType::kWantGrants) {
      ASSIGN(const WantGrants wish, decode<WantGrants>(answer->body));
      if (heard.wanted) heard.wanted(wish.refused);
      continue;
    }
    if (answer->request != question.request) continue;  // of a question that was given up
    TRY(unpack_long(*answer));
    if (answer->type == MessageType::kError) {
      ASSIGN(const ErrorIs said, decode<ErrorIs>(answer->body));
      return std::unexpected(said.error);
    }
    if (answer->type != wanted)
      return fail(Code::kCorrupt, "daemon: an answer of another kind than asked for");
    return answer;
  }
}

/// Of the service for all users (packaging/systemd/all-users).
constexpr const char* kSocketOfAll = "/run/carya/caryad.sock";

/// `minor`: set to the daemon's minor version.
Result<Channel> open_channel(const std::string& socket, std::uint8_t* minor = nullptr) {
  ASSIGN(Channel channel, Channel::connect(socket));
  ASSIGN(const PeerCredentials peer, channel.peer());
  if (peer.uid != geteuid() && peer.uid != 0)
    return fail(Code::kPermission,
                fmt::format("daemon: {} belongs to user {}, and this user ({}) trusts its own and root's "
                            "only; run caryad as this user or as a system service, or give "
                            "daemon=\"embedded\" (CARYA_DAEMON_SOCKET names the socket)",
                            socket, peer.uid, geteuid()));
  const Hello hello{.client = "carya"};
  ASSIGN(const Message welcome,
         ask(channel, {.type = MessageType::kHello, .request = 1, .body = encode(hello)},
             MessageType::kWelcome, kHelloMs));
  if (minor != nullptr) *minor = welcome.minor;
  return channel;
}

/// The first minor version whose daemons read URLs.
constexpr std::uint8_t kLendMinor = 3;
/// The first one whose daemons know turns of jobs that they do not compute, and how long their answer may take.
constexpr std::uint8_t kTurnMinor = 4;
constexpr int kTurnMs = 200;

/// `request`: 0: no answer is wanted.
Status send_lent(Channel& channel, const StoreLender& lender, std::uint32_t request, bool refused) {
  Message message{.type = MessageType::kLend, .request = request, .body = lender.lend(refused)};
  Status done;
  if (request == 0) {
    done = channel.send(message, kFdsMs);
  } else if (const auto answer = ask(channel, message, MessageType::kDone, kAskMs); !answer) {
    done = std::unexpected(answer.error());
  }
  io::wipe(message.body);
  return done;
}

}  // namespace

Result<std::string> ask_daemon(const std::string& socket, MessageType question, const std::string& body,
                               MessageType answer, int timeout_ms) {
  ASSIGN(Channel channel, open_channel(socket));
  ASSIGN(Message message, ask(channel, {.type = question, .request = 2, .body = body}, answer, timeout_ms));
  return std::move(message.body);
}

Result<TurnSeat> TurnSeat::take(const std::string& socket) {
  std::uint8_t minor = 0;
  ASSIGN(Channel channel, open_channel(socket, &minor));
  if (minor < kTurnMinor)
    return fail(Code::kUnsupported,
                "daemon: the one at " + socket + " is of an earlier version and knows no turns; restart it");
  return TurnSeat(std::move(channel));
}

Result<TurnIs> TurnSeat::report(const TurnRequest& report) {
  ASSIGN(const Message answer,
         ask(channel_, {.type = MessageType::kTurn, .request = ++questions_, .body = encode(report)},
             MessageType::kTurnIs, kTurnMs));
  return decode<TurnIs>(answer.body);
}

Result<std::vector<UniqueFd>> DaemonStream::seal(const transforms::Pipeline& pipeline,
                                                 const DaemonOptions& options) {
  std::vector<UniqueFd> sealed;
  const auto add = [&](const char* name, std::span<const std::byte> bytes) -> Status {
    ASSIGN(UniqueFd fd, SealedBytes::copy(name, bytes));
    sealed.push_back(std::move(fd));
    return {};
  };
  TRY(add("carya-pipeline", std::as_bytes(std::span(pipeline.to_json()))));
  for (const auto& [field, array] : options.arrays) {
    if (array.file) TRY(array.file->check());
    TRY(add("carya-array", {array.data, array.row_bytes * array.rows}));
  }
  return sealed;
}

Result<Attachment> DaemonStream::attach(const std::vector<UniqueFd>& sealed, const JobOptions& job,
                                        const DaemonOptions& options,
                                        std::shared_ptr<const StoreLender> lender) {
  std::uint8_t minor = 0;
  ASSIGN(Channel channel, open_channel(options.socket, &minor));
  if (lender && minor < kLendMinor)
    return fail(Code::kUnsupported, "daemon: the one at " + options.socket +
                                        " is of an earlier version and reads no URLs; restart it, or give "
                                        "daemon=\"embedded\"");
  if (lender) TRY(send_lent(channel, *lender, 1, false));
  AttachRequest request{.job = options.job,
                        .share = options.share,
                        .share_jobs = options.share_jobs,
                        .replica = options.replica,
                        .replicas = options.replicas,
                        .options = job,
                        .cache_dir = options.cache_dir};
  Message question{.type = MessageType::kAttach, .request = 2};
  for (const auto& [field, array] : options.arrays)
    request.arrays.push_back({field, array.row_bytes, array.rows});
  for (const UniqueFd& fd : sealed) {
    question.fds.emplace_back(fcntl(fd.get(), F_DUPFD_CLOEXEC, 0));
    if (!question.fds.back()) return fail_errno("daemon: descriptors of the job", errno);
  }
  question.body = encode(request);
  ASSIGN(const Message answer, ask(channel, question, MessageType::kAttached,
                                   static_cast<int>(std::min(options.attach_timeout_s, 2e6) * 1000),
                                   {.progress = options.progress, .wanted = [&](bool refused) {
                                      if (lender) static_cast<void>(send_lent(channel, *lender, 0, refused));
                                    }}));
  ASSIGN(const Attached attached, decode<Attached>(answer.body));
  if (attached.order != job.order)
    return fail(Code::kUnsupported,
                "daemon: the one at " + options.socket +
                    " is of an earlier version and keeps no order of ops; restart it, or work "
                    "without plan= and with reorder=\"exact\"");
  const StreamShape& shape = attached.shape;
  ASSIGN(const StreamShape checked, StreamShape::create(shape.records, 0, shape.global_size, shape.world_size,
                                                        shape.rank, shape.drop_last, shape.pad_last));
  ASSIGN(const shm::ReceivedReader received, shm::receive_reader_fds(channel.fd(), kFdsMs));
  ASSIGN(auto reader, shm::RingReader::attach(received.fds(), received.reader));
  auto stream = std::shared_ptr<DaemonStream>(new DaemonStream(std::move(channel), 2, std::move(lender)));
  TRY(stream->start_lending());
  return Attachment{.producer = std::move(stream),
                    .reader = std::move(reader),
                    .session = attached.session,
                    .shape = checked,
                    .seed = attached.seed,
                    .threads = attached.threads,
                    .slots = attached.slots,
                    .dataset = attached.dataset,
                    .traced_as = attached.traced_as,
                    .skipped_count = attached.skipped_count,
                    .skipped_examples = attached.skipped_examples,
                    .place = options.socket,
                    .remote = true};
}

/// The body of its answer. What it said at its end it says for ever.
Result<std::string> DaemonStream::ask_for(MessageType question, std::string body, MessageType wanted) const {
  const MutexLock lock(mutex_);
  if (notice_) return std::unexpected(*notice_);
  Result<Message> answer =
      ask(channel_, {.type = question, .request = ++request_, .body = std::move(body)}, wanted, kAskMs,
          {.wanted =
               [this](bool refused) {
                 mutex_.assert_held();
                 note_wish(refused);
               },
           .last_words = &notice_});
  if (!answer) return std::unexpected(std::move(answer.error()));
  return std::move(answer->body);
}

Result<std::uint64_t> DaemonStream::seek(std::uint64_t epoch, std::uint64_t position) {
  ASSIGN(const std::string body,
         ask_for(MessageType::kSeek, encode(SeekRequest{epoch, position}), MessageType::kSession));
  ASSIGN(const SessionIs session, decode<SessionIs>(body));
  return session.session;
}

Result<bool> DaemonStream::set_on_error(transforms::OnError policy) {
  ASSIGN(const std::string body,
         ask_for(MessageType::kPolicy, encode(PolicyRequest{policy}), MessageType::kPolicySet));
  ASSIGN(const PolicySet set, decode<PolicySet>(body));
  return set.changed;
}

Result<DeliveredErrors> DaemonStream::take_errors(std::uint64_t sequence) {
  ASSIGN(const std::string body,
         ask_for(MessageType::kTakeFound, encode(TakeFoundRequest{sequence}), MessageType::kFound));
  return decode<DeliveredErrors>(body);
}

Result<StreamStats> DaemonStream::stats() const {
  ASSIGN(const std::string body, ask_for(MessageType::kStats, Message().body, MessageType::kStatsAre));
  return decode<StreamStats>(body);
}

Status DaemonStream::check() {
  if (!mutex_.try_lock()) return {};  // somebody asks it something, and will hear
  const MutexLock lock(mutex_, std::adopt_lock);
  if (notice_) return std::unexpected(*notice_);
  Result<Message> message = channel_.receive(0);
  if (!message) {
    const Code code = message.error().code;
    return code == Code::kTimeout ? Status() : fail(code, std::move(message.error().message));
  }
  return hear(*message);
}

/// What the daemon says without being asked. Answers to questions that were given up are nothing.
Status DaemonStream::hear(const Message& message) const {
  if (message.type == MessageType::kWantGrants) {
    ASSIGN(const WantGrants wish, decode<WantGrants>(message.body));
    note_wish(wish.refused);
  }
  if (message.type != MessageType::kNotice) return {};
  ASSIGN(const ErrorIs notice, decode<ErrorIs>(message.body));
  notice_ = notice.error;
  return std::unexpected(notice.error);
}

void DaemonStream::note_wish(bool refused) const {
  wish_ = refused || wish_.value_or(false);
  if (lending_) lending_->wake();
}

/// A thread of its own: a trainer may be busy for as long as credentials last, and asking for new ones takes time.
Status DaemonStream::start_lending() {
  if (!lender_) return {};
  ASSIGN(lending_, Poller::create("credentials of a daemon"));
  {
    const MutexLock lock(mutex_);
    TRY(lending_->watch(channel_.fd(), 1));
  }
  const SignalsBlocked blocked;
  try {
    lends_ = std::thread([this] { lend_when_asked(); });
  } catch (const std::system_error& refused) {
    return fail(
        Code::kExhausted,
        "start of the thread that renews credentials: refused; raise the limit of processes (ulimit -u)",
        refused.code().value());
  }
  return {};
}

void DaemonStream::lend_when_asked() {
  pthread_setname_np(pthread_self(), "carya-lend");
  while (!lending_ends_) {
    lending_->wait(-1);
    const auto wish = take_wish();
    if (!wish) continue;
    std::string body = lender_->lend(*wish);
    const MutexLock lock(mutex_);
    Message message{.type = MessageType::kLend, .body = std::move(body)};
    if (channel_) static_cast<void>(channel_.send(message, kFdsMs));  // it asks again
    io::wipe(message.body);
  }
}

/// Whether the daemon wants credentials; also where another thread heard it.
std::optional<bool> DaemonStream::take_wish() {
  const MutexLock lock(mutex_);
  if (lending_ends_ || notice_ || !channel_) {
    lending_ends_ = true;
    return std::nullopt;
  }
  if (!wish_) {
    const auto message = channel_.receive(0);
    const bool gone = !message && message.error().code != Code::kTimeout;
    if (gone || (message && !hear(*message))) lending_ends_ = true;  // check() says it
  }
  return std::exchange(wish_, std::nullopt);
}

void DaemonStream::end_lending() {
  lending_ends_ = true;
  if (lending_) lending_->wake();
  if (lends_.joinable()) lends_.join();
}

void DaemonStream::close() {
  end_lending();
  const MutexLock lock(mutex_);
  if (!channel_) return;
  static_cast<void>(channel_.send(
      {.type = MessageType::kDetach, .request = ++request_, .body = encode(DetachRequest{demand_per_s_})},
      0));
  channel_ = Channel();
}

Attach attach_to_daemon(std::shared_ptr<const transforms::Pipeline> pipeline, const JobOptions& given,
                        const DaemonOptions& options) {
  struct State {
    std::vector<UniqueFd> sealed;  // what goes with each attachment: the pipeline, the arrays
    bool attached = false;
    std::int64_t lost_ns = 0;  // 0: not lost
    std::int64_t back_off_ns = kBackOffMinNs;
    Attach embedded;
    std::shared_ptr<const StoreLender> lender;  // of a pipeline with URLs, after the first attempt
  };
  return [pipeline, given, options, state = std::make_shared<State>()](
             std::uint64_t epoch, std::uint64_t position,
             transforms::OnError on_error) -> Result<Attachment> {
    if (state->embedded) return state->embedded(epoch, position, on_error);
    JobOptions job = given;
    job.epoch = epoch;
    job.position = position;
    job.on_error = on_error;
    if (job.node == kNoNode) job.node = own_node();
    if (state->attached && state->lost_ns == 0) {
      state->lost_ns = monotonic_ns();
      state->back_off_ns = kBackOffMinNs;
    }
    if (state->sealed.empty()) {
      ASSIGN(state->lender, StoreLender::create(*pipeline));
      ASSIGN(state->sealed, DaemonStream::seal(*pipeline, options));
    }
    DaemonOptions now = options;
    if (state->attached) now.share_jobs = 1;  // it waited for others once
    Result<Attachment> found = DaemonStream::attach(state->sealed, job, now, state->lender);
    if (found) {
      state->attached = true;
      state->lost_ns = 0;
      return found;
    }
    if (!state->attached) return found;
    const Code code = found.error().code;
    const bool gone = code == Code::kNotFound || code == Code::kClosed || code == Code::kTimeout;
    const bool patient =
        monotonic_ns() - state->lost_ns < static_cast<std::int64_t>(options.reattach_timeout_s * 1e9);
    if (gone && patient) {
      std::this_thread::sleep_for(std::chrono::nanoseconds(state->back_off_ns));
      state->back_off_ns = std::min(state->back_off_ns * 2, kBackOffMaxNs);
      return fail(
          Code::kTimeout,
          "loader: the daemon was lost and is not back yet; try again, or give a longer reattach_timeout=");
    }
    // The kernel ended it for the memory of its user: made here, it would take what that limit is for.
    if (code == Code::kExhausted && found.error().sys_errno == EDQUOT) return found;
    // Or it crashed while it worked for this pipeline: made here, that would end the trainer.
    if (code == Code::kPermission && found.error().sys_errno == ENOTRECOVERABLE) return found;
    if (!options.embedded)
      return fail(Code::kClosed, fmt::format("loader: the daemon at {} was lost and could not be reached for "
                                             "{} s: {}; start it, then make a new Loader from the state",
                                             options.socket, static_cast<int>(options.reattach_timeout_s),
                                             found.error().message));
    ASSIGN(state->embedded, options.embedded());
    state->sealed.clear();
    return state->embedded(epoch, position, on_error);
  };
}

std::string default_socket_path() {
  if (const char* chosen = std::getenv("CARYA_DAEMON_SOCKET"); chosen != nullptr && *chosen != '\0')
    return chosen;
  if (const char* runtime = std::getenv("XDG_RUNTIME_DIR"); runtime != nullptr && *runtime != '\0')
    return std::string(runtime) + "/carya/caryad.sock";
  const std::string user = std::to_string(geteuid());
  struct stat info{};
  if (const std::string folder = "/run/user/" + user;
      stat(folder.c_str(), &info) == 0 && info.st_uid == geteuid())
    return folder + "/carya/caryad.sock";
  return "/tmp/carya-" + user + "/caryad.sock";
}

std::string loader_socket_path() {
  const std::string own = default_socket_path();
  const char* const chosen = std::getenv("CARYA_DAEMON_SOCKET");
  if ((chosen != nullptr && *chosen != '\0') || access(own.c_str(), F_OK) == 0) return own;
  return access(kSocketOfAll, W_OK) == 0 && open_channel(kSocketOfAll) ? kSocketOfAll : own;
}

}  // namespace carya::loader
