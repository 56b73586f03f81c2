// What clients say to the server and what it answers; attaching, which happens in threads of its own.

#include "loader/daemon/server.h"

#include <sys/epoll.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <thread>

#include "base/clock.h"
#include "loader/control/long_message.h"
#include "loader/daemon/server_connection.h"
#include "loader/program/event_field.h"
#include "shm/fd_passing.h"

namespace carya::loader {
namespace {

constexpr std::uint32_t kAttachingMax = 8;         // at the same time; others wait for their turn
constexpr std::uint32_t kAttachingPerProcess = 4;  // of those
constexpr std::size_t kDocumentBytesMax = 64 << 20;
constexpr std::size_t kArrayBytesMax = 1ULL << 40;
constexpr std::int64_t kProgressNs = 200'000'000;

}  // namespace

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
    return drop(connection.id, Leaving::kClosed, error.message);
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
      drop(id, Leaving::kClosed, done.error().message);
    }
  }
}

/// Its socket ended. If its process ends too, it died; if not, it closed the socket and may hold slots.
void Server::hung_up(Connection& connection) {
  if (!connection.seat) return drop(connection.id, Leaving::kDied, "closed");
  epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, connection.channel.fd(), nullptr);
  connection.hung_up_ns = monotonic_ns();
}

Status Server::reply(Connection& connection, const Message& question, MessageType type, std::string body) {
  Message answer{.type = type, .request = question.request, .body = std::move(body)};
  if (is_long(answer.body.size())) {
    if (question.minor < kLongMinor)
      return fail(Code::kUnsupported, "caryad: an answer of " + std::to_string(answer.body.size()) +
                                          " bytes is too long for this client; use that of " +
                                          options_.version);
    ASSIGN(answer, pack_long(answer));
  }
  return connection.channel.send(answer, 0);
}

void Server::refuse(Connection& connection, std::uint32_t request, const Error& error) {
  const MessageType type = request == 0 ? MessageType::kNotice : MessageType::kError;
  static_cast<void>(
      connection.channel.send({.type = type, .request = request, .body = encode(ErrorIs{error})}, 0));
}

Status Server::answer(Connection& connection, const Message& message) {
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
    case MessageType::kStatus:
      return reply(connection, message, MessageType::kStatusIs, encode(status()));
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
      ASSIGN(const Found found, jobs_.take_found(seat, request.sequence));
      return reply(connection, message, MessageType::kFound, encode(found));
    }
    case MessageType::kStats: {
      ASSIGN(const ProducerStats stats, seat.stream->stats());
      return reply(connection, message, MessageType::kStatsAre, encode(stats));
    }
    case MessageType::kDetach: {
      ASSIGN(const DetachRequest request, decode<DetachRequest>(message.body));
      seat.stream->note_demand(request.demand_per_s);
      drop(connection.id, Leaving::kClosed, "closed");
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
  auto arrival = std::make_shared<Arrival>();
  ASSIGN(arrival->request, decode<AttachRequest>(message.body));
  if (message.fds.size() != 1 + arrival->request.arrays.size())
    return fail(Code::kCorrupt, "control message: " + std::to_string(message.fds.size()) +
                                    " descriptors for " + std::to_string(arrival->request.arrays.size()) +
                                    " arrays and a pipeline");
  ASSIGN(arrival->document, SealedBytes::map(message.fds[0], kDocumentBytesMax, "pipeline document"));
  for (std::size_t i = 1; i < message.fds.size(); ++i) {
    ASSIGN(auto rows, SealedBytes::map(message.fds[i], kArrayBytesMax, "array"));
    arrival->arrays.push_back(std::move(rows));
  }
  arrival->pid = static_cast<std::uint64_t>(connection.peer.pid);
  end_hung_up(arrival->request);
  connection.attaching = true;
  attach_in_thread(connection.id, message.request, std::move(arrival));
  return {};
}

void Server::attach_in_thread(std::uint64_t id, std::uint32_t request, std::shared_ptr<Arrival> arrival) {
  auto work = [this, id, request, arrival] {
    std::int64_t told_ns = monotonic_ns();
    const auto progress = [&](std::uint64_t seen) {
      const std::int64_t now_ns = monotonic_ns();
      if (now_ns - told_ns > kProgressNs) {
        told_ns = now_ns;
        const std::lock_guard lock(made_mutex_);
        listed_.emplace_back(id, seen);
        wake();
      }
      return !stop_;
    };
    end_attachment(arrival->pid,
                   {.connection = id, .request = request, .attachment = jobs_.attach(*arrival, progress)});
  };
  const std::lock_guard lock(made_mutex_);
  waiting_attachments_.push_back(
      {.connection = id, .request = request, .pid = arrival->pid, .work = std::move(work)});
  start_attachments();
}

/// A process has a share of the threads: one whose listings never end keeps nobody else from attaching. Under
/// the mutex.
void Server::start_attachments() {
  const auto running = [this] {
    std::uint32_t all = 0;
    for (const auto& [pid, count] : attaching_) all += count;
    return all;
  };
  while (running() < kAttachingMax) {
    const auto next = std::ranges::find_if(waiting_attachments_, [this](const Waiting& one) {
      const auto its = attaching_.find(one.pid);
      return its == attaching_.end() || its->second < kAttachingPerProcess;
    });
    if (next == waiting_attachments_.end()) return;
    const Waiting one = std::move(*next);
    waiting_attachments_.erase(next);
    try {
      std::thread(one.work).detach();
      ++attaching_[one.pid];
    } catch (const std::system_error&) {
      made_.push_back(
          {one.connection, one.request, fail(Code::kExhausted, "caryad: no thread can be started")});
      wake();
    }
  }
}

/// By the thread that made it, at its end.
void Server::end_attachment(std::uint64_t pid, Made made) {
  const std::lock_guard lock(made_mutex_);
  made_.push_back(std::move(made));
  wake();
  if (--attaching_[pid] == 0) attaching_.erase(pid);
  start_attachments();
  attached_all_.notify_all();
}

void Server::take_made() {
  std::vector<Made> made;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> listed;
  {
    const std::lock_guard lock(made_mutex_);
    made.swap(made_);
    listed.swap(listed_);
  }
  for (const auto& [id, records] : listed)
    if (const auto found = connections_.find(id); found != connections_.end())
      static_cast<void>(found->second->channel.send(
          {.type = MessageType::kProgress, .body = encode(Progress{records})}, 0));
  // Also one that failed may have left a dataset to look after.
  if (!made.empty() && next_tick_ns_ == 0) next_tick_ns_ = monotonic_ns();
  for (Made& one : made) {
    const auto found = connections_.find(one.connection);
    if (found == connections_.end()) {  // it did not wait
      if (one.attachment) jobs_.leave(one.attachment->seat, Leaving::kDied, "it did not wait");
      continue;
    }
    Connection& connection = *found->second;
    connection.attaching = false;
    Status seated = one.attachment ? seat(connection, one, *one.attachment)
                                   : Status(std::unexpected(one.attachment.error()));
    if (seated) continue;
    options_.log(LogLevel::kWarning,
                 "not attached" + field("pid", connection.peer.pid) + field("why", seated.error().message));
    refuse(connection, one.request, seated.error());
  }
}

Status Server::seat(Connection& connection, const Made& made, JobTable::Attachment& attachment) {
  const Seat& seat = attachment.seat;
  Status sent = connection.channel.send(
      {.type = MessageType::kAttached, .request = made.request, .body = encode(attachment.answer)}, 0);
  if (sent)
    sent =
        shm::send_reader_fds(connection.channel.fd(), seat.reader, seat.stream->reader_fds(seat.reader), 0);
  if (!sent) {
    jobs_.leave(seat, Leaving::kDied, "its descriptors could not be sent");
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
                      .pid = static_cast<std::uint64_t>(getpid()),
                      .up_s = static_cast<double>(monotonic_ns() - started_ns_) * 1e-9,
                      .state = drain_ ? "draining" : "ready",
                      .socket = options_.socket,
                      .connections = open_,
                      .attached = attached_,
                      .detached = detached_,
                      .killed = killed_};
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  status.cpu_s = seconds(usage.ru_utime) + seconds(usage.ru_stime);
  std::uint64_t total_pages = 0, resident_pages = 0;
  std::ifstream("/proc/self/statm") >> total_pages >> resident_pages;
  status.memory_bytes = resident_pages * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  std::error_code ignored;
  status.mount_namespace = std::filesystem::read_symlink("/proc/self/ns/mnt", ignored);
  for (auto entry = std::filesystem::directory_iterator("/proc/self/fd", ignored);
       entry != std::filesystem::directory_iterator(); ++entry)
    ++status.descriptors;
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  status.descriptors_limit = limit.rlim_cur;
  jobs_.describe(status);
  return status;
}

}  // namespace carya::loader
