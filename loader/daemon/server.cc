#include "loader/daemon/server.h"

#include <sys/socket.h>

#include <fmt/core.h>
#include <algorithm>
#include <cerrno>

#include "base/clock.h"
#include "loader/control/listening.h"
#include "loader/control/long_message.h"
#include "loader/daemon/lent_access.h"
#include "loader/daemon/metrics.h"
#include "loader/daemon/process_status.h"
#include "loader/engine/guest_seat.h"
#include "loader/program/event_field.h"
#include "loader/trace/perfetto.h"
#include "loader/trace/trace.h"
#include "shm/fd_passing.h"

namespace carya::loader {
namespace {

constexpr std::uint64_t kListening = 1, kFirstId = 2;
constexpr std::uint64_t kPidBit = 1ULL << 63;  // of a tag of the poller: the pidfd, not the socket
constexpr std::int64_t kDeathNs =
    1'000'000'000;  // from a socket's end to its process's, if both are one event
/// The newest events that a trace has: they are written in the server's thread, in some 0.2 s, and fit into an answer.
constexpr std::size_t kTraceEvents = 60'000, kTraceBytes = kLongBytesMax - 1024;
/// The most that each thread keeps for a trace, 4 MiB: a client does not decide on the daemon's memory.
constexpr std::uint64_t kTraceThreadEvents = 1 << 16;
constexpr std::size_t kDocumentBytesMax = 64 << 20, kArrayBytesMax = 1ULL << 40;
/// A daemon that gets no more connections ends so long after its last one.
constexpr double kLastIdleS = 0.1;

}  // namespace

/// A client of the server.
struct Server::Connection {
  std::uint64_t id = 0;
  Channel channel;
  PeerCredentials peer;
  UniqueFd process;          // pidfd
  std::int64_t said_ns = 0;  // when it came, or last said something
  bool greeted = false;
  bool attaching = false;
  LentAccess lent;
  std::optional<Seat> seat;
  GuestSeat guest;
  std::int64_t hung_up_ns = 0;  // its socket ended; its process may live
};

Server::Server(ServerOptions options, Poller poller)
    : options_(std::move(options)),
      jobs_(options_.limits, options_.log),
      started_ns_(monotonic_ns()),
      poller_(std::move(poller)),
      attachments_(jobs_, options_.crashes.get(), [this] { poller_.wake(); }) {}

Result<std::unique_ptr<Server>> Server::create(ServerOptions options) {
  ASSIGN(Poller poller, Poller::create("caryad"));
  auto server = std::unique_ptr<Server>(new Server(std::move(options), std::move(poller)));
  server->next_id_ = kFirstId;
  if (server->options_.watchdog_ns) server->next_alive_ns_ = server->started_ns_;
  server->idle_since_ns_ = server->started_ns_;
  const auto pid = static_cast<std::uint64_t>(getpid());
  server->instance_ = static_cast<std::uint64_t>(server->started_ns_) ^ pid << 40;
  server->handed_ = static_cast<bool>(server->options_.handed);
  if (server->handed_) {
    server->listening_ = std::move(server->options_.handed);
  } else if (server->options_.listening) {
    server->listening_ = std::move(server->options_.listening);
  } else {
    ASSIGN(server->listening_, listen_for_clients(server->options_.socket, false));
    server->own_path_ = true;
  }
  TRY(server->poller_.watch(server->listening_.get(), kListening));
  return server;
}

Server::~Server() {
  end();
}

void Server::end() {
  if (own_path_) unlink(options_.socket.c_str());  // before the loaders look for another daemon
  own_path_ = false;
  stop_ = true;
  listening_.reset();
  attachments_.stop();
  jobs_.stop_all();
  for (auto& [id, connection] : connections_) dropped_.push_back(std::move(connection));
  connections_.clear();
  close_dropped();
}

void Server::stop() {
  stop_ = true;
  poller_.wake();
}

void Server::drain() {
  drain_ = true;
  poller_.wake();
}

/// When a connection that reads nothing and asks nothing is closed; 0: never.
std::int64_t Server::silent_until_ns(const Connection& connection) const {
  if (connection.seat || connection.attaching) return 0;
  const double limit_s = connection.greeted ? options_.silent_s : options_.hello_s;
  return connection.said_ns + static_cast<std::int64_t>(limit_s * 1e9);
}

/// Sleeps without end when there is nothing to look after: an idle daemon costs no wake-up.
int Server::wait_ms() {
  std::int64_t until = next_tick_ns_;
  const auto sooner = [&](std::int64_t moment) { until = until == 0 ? moment : std::min(until, moment); };
  for (const auto& [id, connection] : connections_) {
    if (connection->hung_up_ns != 0) sooner(connection->hung_up_ns + kDeathNs);
    if (const std::int64_t until_ns = silent_until_ns(*connection); until_ns != 0) sooner(until_ns);
  }
  if (next_alive_ns_ != 0) sooner(next_alive_ns_);
  if (options_.idle_exit_s > 0 && connections_.empty())
    sooner(idle_since_ns_ + static_cast<std::int64_t>(options_.idle_exit_s * 1e9));
  if (drain_until_ns_ != 0) sooner(std::min(drain_until_ns_, monotonic_ns() + 20'000'000));
  if (until == 0) return -1;
  return static_cast<int>(
      std::clamp<std::int64_t>((until - monotonic_ns() + 999'999) / 1'000'000, 0, 60'000));
}

void Server::run() {
  while (!stop_) {
    for (const std::uint64_t tag : poller_.wait(wait_ms())) {
      if (tag == kListening) {
        accept_clients();
      } else if (const auto found = connections_.find(tag & ~kPidBit); found != connections_.end()) {
        if ((tag & kPidBit) != 0)
          drop(found->first, DetachReason::kDied, "its process ended");
        else
          read_message(*found->second);
      }
    }
    take_made();
    for (const auto& [id, connection] : connections_) connection->lent.tell(connection->channel);
    const std::int64_t now_ns = monotonic_ns();
    look_after(now_ns);
    close_dropped();
    if ((drain_ && drained()) || idle(now_ns)) return;
  }
}

bool Server::idle(std::int64_t now_ns) {
  if (!connections_.empty() || idle_since_ns_ == 0) idle_since_ns_ = now_ns;
  if (!(options_.idle_exit_s > 0) ||
      static_cast<double>(now_ns - idle_since_ns_) < options_.idle_exit_s * 1e9)
    return false;
  if (!handed_ || !listening_) return true;
  // Who passes connections on is told first: it finds another daemon for the next one. Those that are on their way come.
  shutdown(listening_.get(), SHUT_RD);
  accept_clients();
  end_handing();
  return connections_.empty();
}

/// What is due: liars, what lingered, connections that say nothing, a sign of life.
void Server::look_after(std::int64_t now_ns) {
  if (options_.watchdog_ns && now_ns >= next_alive_ns_) {
    options_.alive();
    next_alive_ns_ = now_ns + *options_.watchdog_ns / 2;
  }
  if (next_tick_ns_ != 0 && now_ns >= next_tick_ns_) {
    find_liars();
    find_ended();
    const auto again = jobs_.tick(now_ns);
    find_ended();  // who was parted is told at once
    next_tick_ns_ = again ? now_ns + *again : 0;
  }
  std::vector<std::pair<std::uint64_t, DetachReason>> over;
  for (const auto& [id, connection] : connections_) {
    if (connection->hung_up_ns != 0 && now_ns - connection->hung_up_ns >= kDeathNs)
      over.emplace_back(id, DetachReason::kClosed);
    else if (const std::int64_t until_ns = silent_until_ns(*connection); until_ns != 0 && now_ns >= until_ns)
      over.emplace_back(id, DetachReason::kThrown);
  }
  for (const auto& [id, how] : over)
    drop(id, how, how == DetachReason::kClosed ? "its socket was closed" : "it says nothing");
}

bool Server::drained() {
  const std::int64_t now_ns = monotonic_ns();
  if (drain_until_ns_ == 0) {
    drain_until_ns_ = now_ns + static_cast<std::int64_t>(options_.drain_s * 1e9);
    jobs_.drain();
    options_.log(LogLevel::kInfo,
                 "draining" + field("held", jobs_.held()) + field("seconds", options_.drain_s));
  }
  return jobs_.held() == 0 || now_ns >= drain_until_ns_;
}

/// No more connections come: this daemon ends when those that it has are gone.
void Server::end_handing() {
  if (!listening_) return;
  poller_.forget(listening_.get());
  listening_.reset();
  options_.idle_exit_s = kLastIdleS;
}

void Server::accept_clients() {
  for (int taken = 0; taken < 64 && listening_; ++taken) {
    bool ended = false;
    UniqueFd socket =
        handed_ ? take_handed(listening_.get(), ended)
                : UniqueFd(accept4(listening_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (ended) return end_handing();
    if (!socket) {
      if (errno == EMFILE || errno == ENFILE) {  // who waits is taken when one is free; until then no spin
        static std::int64_t said_ns = 0;
        if (monotonic_ns() - said_ns > 10'000'000'000) {
          said_ns = monotonic_ns();
          options_.log(LogLevel::kError, "accept: no descriptors left; raise LimitNOFILE");
        }
        usleep(10'000);
      }
      return;
    }
    auto connection = std::make_unique<Connection>();
    connection->channel = Channel(std::move(socket));
    const auto peer = connection->channel.peer();
    if (!peer || (peer->uid != geteuid() && peer->uid != 0)) {
      options_.log(LogLevel::kWarning,
                   "refused" + field("uid", peer ? peer->uid : 0) + field("why", "another user"));
      closer_.take(connection->channel.release());
      continue;
    }
    if (drain_) {
      const char* why = "caryad: it is draining, and answers nobody new until it has ended";
      refuse(*connection, 0, {Code::kClosed, why, 0});  // as if it had: readers wait for its successor
      closer_.take(connection->channel.release());
      continue;
    }
    if (connections_.size() >= options_.connections_max && !make_room()) {
      refuse(*connection, 0,
             {Code::kExhausted,
              fmt::format("caryad: {} connections, all of readers; raise [limits] connections in caryad.toml",
                          connections_.size()),
              0});
      closer_.take(connection->channel.release());
      continue;
    }
    connection->peer = *peer;
    connection->id = next_id_++;
    connection->said_ns = monotonic_ns();
    connection->process = connection->channel.peer_process();
    const std::uint64_t id = connection->id;
    if (!poller_.watch(connection->channel.fd(), id)) continue;
    if (connection->process && !poller_.watch(connection->process.get(), id | kPidBit)) continue;
    connections_[id] = std::move(connection);
    open_ = connections_.size();
  }
}

/// All places are taken: the process with the most connections that read nothing loses its oldest one, so
/// that none can keep the others out. One that waits for its attachment goes after those that do not.
bool Server::make_room() {
  std::map<pid_t, std::size_t> idle;
  for (const auto& [id, connection] : connections_)
    if (!connection->seat) ++idle[connection->peer.pid];
  const auto most = std::ranges::max_element(idle, {}, [](const auto& entry) { return entry.second; });
  if (most == idle.end()) return false;
  Connection* oldest = nullptr;  // numbers rise
  for (const auto& [id, connection] : connections_)
    if (!connection->seat && connection->peer.pid == most->first &&
        (oldest == nullptr || (oldest->attaching && !connection->attaching)))
      oldest = connection.get();
  refuse(*oldest, 0,
         {Code::kExhausted, "caryad: too many connections; this process has the most that read nothing", 0});
  drop(oldest->id, DetachReason::kThrown, "too many connections");
  return true;
}

void Server::close_dropped() {
  for (const auto& connection : dropped_) closer_.take(connection->channel.release());
  dropped_.clear();
}

void Server::drop(std::uint64_t id, DetachReason how, const std::string& reason) {
  const auto found = connections_.find(id);
  if (found == connections_.end()) return;
  Connection* const connection = found->second.get();
  connection->channel.shut();
  dropped_.push_back(std::move(found->second));  // whoever answers it at this moment has a reference
  connections_.erase(found);
  open_ = connections_.size();
  if (connection->attaching) attachments_.withdraw(id);
  if (!connection->seat) return;
  const Seat& seat = *connection->seat;
  ++(how == DetachReason::kClosed ? detached_ : killed_);
  options_.log(how == DetachReason::kThrown ? LogLevel::kWarning : LogLevel::kInfo,
               std::string(how == DetachReason::kClosed ? "left"
                           : how == DetachReason::kDied ? "died"
                                                        : "thrown out") +
                   field("job", seat.job->name) + field("rank", seat.rank) + field("replica", seat.replica) +
                   field("pid", connection->peer.pid) + field("why", reason));
  jobs_.leave(seat, how, reason, std::move(connection->process));
  if (next_tick_ns_ == 0) next_tick_ns_ = monotonic_ns();
}

/// Readers whose releases were lies have lost their slots already; they are told why.
void Server::find_liars() {
  std::vector<std::pair<std::uint64_t, std::string>> liars;
  for (const auto& [id, connection] : connections_) {
    if (!connection->seat) continue;
    std::string reason = jobs_.lie(*connection->seat);
    if (!reason.empty()) liars.emplace_back(id, std::move(reason));
  }
  for (const auto& [id, reason] : liars) {
    refuse(*connections_[id], 0,
           {Code::kCorrupt,
            "caryad: this reader was thrown out, its page in shared memory was written over: " + reason, 0});
    drop(id, DetachReason::kThrown, reason);
  }
}

/// Readers whose stream was ended by others. ECANCELED: they are not to come again.
void Server::find_ended() {
  std::vector<std::pair<std::uint64_t, SeatState>> over;
  for (const auto& [id, connection] : connections_)
    if (connection->seat)
      if (const SeatState state = jobs_.state(*connection->seat); state != SeatState::kLive)
        over.emplace_back(id, state);
  for (const auto& [id, state] : over) {
    if (state == SeatState::kJobStopped)
      refuse(*connections_[id], 0,
             {Code::kClosed, "job " + connections_[id]->seat->job->name + ": was stopped by carya job stop",
              ECANCELED});
    drop(id, DetachReason::kClosed,
         state == SeatState::kJobStopped ? "its job was stopped"
         : state == SeatState::kParted   ? "it goes on elsewhere"
                                         : "its stream ended");
  }
}

/// A reader that shut its connection comes again before the daemon knew whether its process ended.
void Server::end_hung_up(const AttachRequest& request) {
  const auto old = std::ranges::find_if(connections_, [&](const auto& entry) {
    const Connection& other = *entry.second;
    return other.hung_up_ns != 0 && other.seat->job->name == request.job &&
           other.seat->rank == request.options.rank && other.seat->replica == request.replica;
  });
  if (old != connections_.end()) drop(old->first, DetachReason::kClosed, "it comes again");
}

void Server::read_message(Connection& connection) {
  std::vector<UniqueFd> refused;
  Result<Message> message = connection.channel.receive(0, &refused);
  closer_.take(refused);
  if (!message) {
    const Error& error = message.error();
    if (error.code == Code::kTimeout) return;
    if (error.code == Code::kClosed) return hung_up(connection);
    refuse(connection, 0, error);
    options_.log(LogLevel::kWarning,
                 "refused" + field("pid", connection.peer.pid) + field("why", error.message));
    // It may hold slots still: those are not rewritten.
    return drop(connection.id, DetachReason::kClosed, error.message);
  }
  const std::uint32_t request = message->request;
  const std::uint64_t id = connection.id;
  connection.said_ns = monotonic_ns();
  const Status done = answer(connection, *message);
  closer_.take(message->fds);
  if (!done) {
    if (!connections_.contains(id)) return;
    refuse(connection, request, done.error());
    if (done.error().code == Code::kCorrupt) {
      options_.log(LogLevel::kWarning,
                   "refused" + field("pid", connection.peer.pid) + field("why", done.error().message));
      drop(id, DetachReason::kClosed, done.error().message);
    }
  }
}

/// Its socket ended. If its process ends too, it died; if not, it closed the socket and may hold slots.
void Server::hung_up(Connection& connection) {
  if (!connection.seat) return drop(connection.id, DetachReason::kDied, "closed");
  poller_.forget(connection.channel.fd());
  connection.hung_up_ns = monotonic_ns();
}

Status Server::reply(Connection& connection, const Message& question, MessageType type, std::string body) {
  Message answer{.type = type, .request = question.request, .body = std::move(body)};
  if (is_long(answer.body.size())) {
    if (question.minor < kLongMinor)
      return fail(Code::kUnsupported,
                  fmt::format("caryad: an answer of {} bytes is too long for this client; use that of {}",
                              answer.body.size(), options_.version));
    ASSIGN(answer, pack_long(answer));
  }
  return connection.channel.send(answer, 0);
}

void Server::refuse(Connection& connection, std::uint32_t request, const Error& error) {
  const MessageType type = request == 0 ? MessageType::kNotice : MessageType::kError;
  static_cast<void>(
      connection.channel.send({.type = type, .request = request, .body = encode(ErrorIs{error})}, 0));
}

Status Server::answer(Connection& connection, Message& message) {
  if (message.type == MessageType::kHello) {
    ASSIGN(const Hello hello, decode<Hello>(message.body));
    connection.greeted = true;
    return reply(connection, message, MessageType::kWelcome,
                 encode(Welcome{options_.version, static_cast<std::uint64_t>(getpid()), instance_, drain_}));
  }
  if (!connection.greeted) return fail(Code::kCorrupt, "control message: before a hello");
  switch (message.type) {
    case MessageType::kAttach:
      return answer_attach(connection, message);
    case MessageType::kLend:
      if (options_.before_secrets) options_.before_secrets();
      TRY(connection.lent.take(message, [this] { poller_.wake(); }));
      return message.request == 0 ? Status() : reply(connection, message, MessageType::kDone, Message().body);
    case MessageType::kStatus:
      return reply(connection, message, MessageType::kStatusIs, encode(status()));
    case MessageType::kMetrics:
      return reply(connection, message, MessageType::kMetricsAre, encode(MetricsAre{metrics_text(status())}));
    case MessageType::kDrain:
      drain();
      return reply(connection, message, MessageType::kDone, Message().body);
    case MessageType::kStopJob: {
      ASSIGN(const StopJobRequest request, decode<StopJobRequest>(message.body));
      TRY(jobs_.stop(request.job));
      options_.log(LogLevel::kInfo,
                   "stopped" + field("job", request.job) + field("pid", connection.peer.pid));
      Status done = reply(connection, message, MessageType::kDone, Message().body);
      find_ended();  // drops readers of the job: whoever asked may be one
      return done;
    }
    case MessageType::kWatch: {
      ASSIGN(const WatchRequest request, decode<WatchRequest>(message.body));
      ASSIGN(const WatchIs watched, jobs_.watch(request.job));
      return reply(connection, message, MessageType::kWatchIs, encode(watched));
    }
    case MessageType::kTrace:
      return answer_trace(connection, message);
    case MessageType::kTurn: {
      ASSIGN(const TurnRequest turn, decode<TurnRequest>(message.body));
      ASSIGN(const TurnIs is, connection.guest.report(turn, !options_.limits.folders.roots.empty(),
                                                      static_cast<std::uint64_t>(connection.peer.pid)));
      return reply(connection, message, MessageType::kTurnIs, encode(is));
    }
    case MessageType::kLogs: {
      ASSIGN(const LogsRequest request, decode<LogsRequest>(message.body));
      LogsAre logs;
      if (options_.last_lines) logs.lines = options_.last_lines(std::min<std::uint64_t>(request.lines, 1000));
      while (message.minor < kLongMinor && logs.lines.size() > 1 && is_long(encode(logs).size()))
        logs.lines.erase(logs.lines.begin(),
                         logs.lines.begin() + static_cast<std::ptrdiff_t>(logs.lines.size() / 4 + 1));
      return reply(connection, message, MessageType::kLogsAre, encode(logs));
    }
    default:
      return answer_seated(connection, message);
  }
}

Status Server::answer_trace(Connection& connection, const Message& message) {
  ASSIGN(const TraceRequest request, decode<TraceRequest>(message.body));
  if (request.session == 0) {
    ASSIGN(const std::uint64_t session,
           start_trace({.thread_events = std::min(request.thread_events, kTraceThreadEvents)}));
    options_.log(LogLevel::kInfo, "trace" + field("session", session) + field("pid", connection.peer.pid));
    return reply(connection, message, MessageType::kTraceIs, encode(TraceIs{.session = session}));
  }
  PerfettoOptions options{.process = options_.version, .events_max = kTraceEvents, .bytes_max = kTraceBytes};
  if (!request.job.empty()) {
    ASSIGN(options.only, jobs_.traced_as(request.job));
  }
  ASSIGN(const TraceRecord record, stop_trace(request.session));
  return reply(connection, message, MessageType::kTraceIs,
               encode(TraceIs{request.session, to_perfetto(record, options)}));
}

Status Server::answer_seated(Connection& connection, const Message& message) {
  if (!connection.seat) return fail(Code::kCorrupt, "control message: of a kind that needs an attachment");
  const Seat& seat = *connection.seat;
  switch (message.type) {
    case MessageType::kSeek: {
      ASSIGN(const SeekRequest request, decode<SeekRequest>(message.body));
      ASSIGN(const std::uint64_t session, jobs_.seek(seat, request));
      return reply(connection, message, MessageType::kSession, encode(SessionIs{session}));
    }
    case MessageType::kPolicy: {
      ASSIGN(const PolicyRequest request, decode<PolicyRequest>(message.body));
      ASSIGN(const bool changed, jobs_.set_on_error(seat, request.on_error));
      return reply(connection, message, MessageType::kPolicySet, encode(PolicySet{changed}));
    }
    case MessageType::kTakeFound: {
      ASSIGN(const TakeFoundRequest request, decode<TakeFoundRequest>(message.body));
      ASSIGN(const DeliveredErrors found, jobs_.take_errors(seat, request.sequence));
      return reply(connection, message, MessageType::kFound, encode(found));
    }
    case MessageType::kStats: {
      ASSIGN(const StreamStats stats, seat.stream->stats());
      return reply(connection, message, MessageType::kStatsAre, encode(stats));
    }
    case MessageType::kDetach: {
      ASSIGN(const DetachRequest request, decode<DetachRequest>(message.body));
      seat.stream->note_demand(request.demand_per_s);
      drop(connection.id, DetachReason::kClosed, "closed");
      return {};
    }
    default:
      return fail(Code::kUnsupported,
                  "control message: of a kind that this daemon does not know; it is " + options_.version);
  }
}

Status Server::answer_attach(Connection& connection, const Message& message) {
  if (connection.seat || connection.attaching)
    return fail(Code::kCorrupt, "control message: attached already; one connection is one reader");
  auto call = std::make_shared<AttachCall>();
  ASSIGN(call->request, decode<AttachRequest>(message.body));
  if (message.fds.size() != 1 + call->request.arrays.size())
    return fail(Code::kCorrupt, fmt::format("control message: {} descriptors for {} arrays and a pipeline",
                                            message.fds.size(), call->request.arrays.size()));
  ASSIGN(call->document, SealedBytes::map(message.fds[0], kDocumentBytesMax, "pipeline document"));
  for (std::size_t i = 1; i < message.fds.size(); ++i) {
    ASSIGN(auto rows, SealedBytes::map(message.fds[i], kArrayBytesMax, "array"));
    call->arrays.push_back(std::move(rows));
  }
  call->access = connection.lent.access();
  call->pid = static_cast<std::uint64_t>(connection.peer.pid);
  end_hung_up(call->request);
  connection.attaching = true;
  attachments_.start(connection.id, message.request, std::move(call));
  return {};
}

void Server::take_made() {
  AttachThreads::News news = attachments_.take();
  for (const auto& [id, records] : news.listed)
    if (const auto found = connections_.find(id); found != connections_.end())
      static_cast<void>(found->second->channel.send(
          {.type = MessageType::kProgress, .body = encode(Progress{records})}, 0));
  // Also one that failed may have left a dataset to look after.
  if (!news.made.empty() && next_tick_ns_ == 0) next_tick_ns_ = monotonic_ns();
  for (AttachThreads::Made& one : news.made) {
    const auto found = connections_.find(one.connection);
    if (found == connections_.end()) {  // it did not wait
      if (one.attachment) jobs_.leave(one.attachment->seat, DetachReason::kDied, "it did not wait");
      continue;
    }
    Connection& connection = *found->second;
    connection.attaching = false;
    Status seated = one.attachment ? seat(connection, one.request, *one.attachment)
                                   : Status(std::unexpected(one.attachment.error()));
    if (seated) continue;
    options_.log(LogLevel::kWarning,
                 "not attached" + field("pid", connection.peer.pid) + field("why", seated.error().message));
    refuse(connection, one.request, seated.error());
    // It does not read what it is told, and what it lent is of no use to it.
    if (one.attachment) drop(connection.id, DetachReason::kThrown, "its seat could not be sent");
  }
}

Status Server::seat(Connection& connection, std::uint32_t request, JobTable::Attachment& attachment) {
  const Seat& seat = attachment.seat;
  Status sent = connection.channel.send(
      {.type = MessageType::kAttached, .request = request, .body = encode(attachment.answer)}, 0);
  if (sent)
    sent =
        shm::send_reader_fds(connection.channel.fd(), seat.reader, seat.stream->reader_fds(seat.reader), 0);
  if (!sent) {
    jobs_.leave(seat, DetachReason::kDied, "its descriptors could not be sent");
    return sent;
  }
  ++attached_;
  options_.log(LogLevel::kInfo, "attached" + field("job", seat.job->name) + field("rank", seat.rank) +
                                    field("replica", seat.replica) + field("uid", connection.peer.uid) +
                                    field("pid", connection.peer.pid) +
                                    field("slots", attachment.answer.slots));
  connection.seat = std::move(attachment.seat);
  return {};
}

DaemonStatus Server::status() const {
  DaemonStatus status{.daemon = options_.version,
                      .up_s = static_cast<double>(monotonic_ns() - started_ns_) * 1e-9,
                      .state = drain_ ? "draining" : "ready",
                      .socket = options_.socket,
                      .connections = open_,
                      .attached = attached_,
                      .detached = detached_,
                      .killed = killed_};
  describe_process(status);
  jobs_.describe(status);
  return status;
}

}  // namespace carya::loader
