#include "loader/daemon/server.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "base/clock.h"
#include "base/unix_socket.h"
#include "loader/daemon/server_connection.h"
#include "loader/program/event_field.h"

namespace carya::loader {
namespace {

constexpr std::uint64_t kListening = 0, kWake = 1, kFirstId = 2;
constexpr std::uint64_t kPidBit = 1ULL << 63;  // of an epoll key: the connection's pidfd, not its socket
constexpr std::int64_t kDeathNs =
    1'000'000'000;  // from a socket's end to its process's, when both are the same event
// A connection that says nothing is closed after this: at its beginning, and between questions.
constexpr std::int64_t kHelloNs = 10'000'000'000, kSilentNs = 60'000'000'000;

/// A path that one user alone may write to.
Status make_private_folder(const std::string& folder) {
  std::error_code error;
  if (std::filesystem::create_directories(folder, error))
    std::filesystem::permissions(folder, std::filesystem::perms::owner_all, error);
  struct stat info{};
  if (stat(folder.c_str(), &info) != 0) return fail_errno("caryad: folder " + folder, errno);
  return {};
}

}  // namespace

Server::Server(ServerOptions options)
    : options_(std::move(options)), jobs_(options_.limits), started_ns_(monotonic_ns()) {}

Result<std::unique_ptr<Server>> Server::create(ServerOptions options) {
  auto server = std::unique_ptr<Server>(new Server(std::move(options)));
  server->next_id_ = kFirstId;
  if (server->options_.watchdog_ns) server->next_alive_ns_ = server->started_ns_;
  server->idle_since_ns_ = server->started_ns_;
  server->instance_ = static_cast<std::uint64_t>(server->started_ns_) ^ static_cast<std::uint64_t>(getpid())
                                                                            << 40;
  server->epoll_.reset(epoll_create1(EPOLL_CLOEXEC));
  server->wake_.reset(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!server->epoll_ || !server->wake_) return fail_errno("caryad: epoll", errno);
  if (server->options_.listening)
    server->listening_ = std::move(server->options_.listening);
  else
    TRY(server->listen());
  TRY(server->watch(server->listening_.get(), kListening, EPOLLIN));
  TRY(server->watch(server->wake_.get(), kWake, EPOLLIN));
  return server;
}

Status Server::listen() {
  const std::string& path = options_.socket;
  ASSIGN(const sockaddr_un address, unix_address(path, "caryad"));
  if (const auto slash = path.rfind('/'); slash != std::string::npos && slash > 0)
    TRY(make_private_folder(path.substr(0, slash)));
  if (Channel::connect(path))
    return fail(Code::kClosed,
                "caryad: another daemon listens at " + path + "; use it, or give --socket another path");
  struct stat info{};
  if (lstat(path.c_str(), &info) == 0) {
    if (!S_ISSOCK(info.st_mode))
      return fail(Code::kInvalidArgument,
                  "caryad: " + path + " exists and is no socket; remove it, or give --socket another path");
    unlink(path.c_str());  // of a daemon that was killed
  }
  listening_.reset(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!listening_) return fail_errno("caryad: socket", errno);
  const mode_t before = umask(0177);
  const int bound = bind(listening_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address));
  const int error = errno;
  umask(before);
  if (bound != 0) return fail_errno("caryad: bind " + path, error);
  own_path_ = true;
  if (::listen(listening_.get(), 128) != 0) return fail_errno("caryad: listen at " + path, errno);
  return {};
}

Server::~Server() {
  end();
}

void Server::end() {
  if (own_path_) unlink(options_.socket.c_str());  // before the loaders look for another daemon
  own_path_ = false;
  stop_ = true;
  listening_.reset();
  {
    std::unique_lock lock(made_mutex_);
    waiting_attachments_.clear();
    attached_all_.wait(lock, [this] { return attaching_.empty(); });
  }
  jobs_.stop_all();
  for (auto& [id, connection] : connections_) dropped_.push_back(std::move(connection));
  connections_.clear();
  close_dropped();
}

Status Server::watch(int fd, std::uint64_t key, std::uint32_t events) {
  epoll_event event{.events = events, .data = {.u64 = key}};
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) return fail_errno("caryad: epoll", errno);
  return {};
}

void Server::wake() const {
  const std::uint64_t one = 1;
  static_cast<void>(!write(wake_.get(), &one, sizeof(one)));
}

void Server::stop() {
  stop_ = true;
  wake();
}

void Server::drain() {
  drain_ = true;
  wake();
}

/// When a connection that reads nothing and asks nothing is closed; 0: never.
std::int64_t Server::silent_until_ns(const Connection& connection) {
  if (connection.seat || connection.attaching) return 0;
  return connection.said_ns + (connection.greeted ? kSilentNs : kHelloNs);
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
  std::array<epoll_event, 64> events;
  while (!stop_) {
    const int count = epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), wait_ms());
    for (int i = 0; i < count; ++i) {
      const std::uint64_t key = events[static_cast<std::size_t>(i)].data.u64;
      if (key == kListening) {
        accept_clients();
      } else if (key == kWake) {
        std::uint64_t drained_count = 0;
        static_cast<void>(!read(wake_.get(), &drained_count, sizeof(drained_count)));
      } else if (const auto found = connections_.find(key & ~kPidBit); found != connections_.end()) {
        if ((key & kPidBit) != 0)
          drop(found->first, Leaving::kDied, "its process ended");
        else
          read_message(*found->second);
      }
    }
    take_made();
    const std::int64_t now_ns = monotonic_ns();
    look_after(now_ns);
    close_dropped();
    if ((drain_ && drained()) || idle(now_ns)) return;
  }
}

bool Server::idle(std::int64_t now_ns) {
  if (!connections_.empty() || idle_since_ns_ == 0) idle_since_ns_ = now_ns;
  return options_.idle_exit_s > 0 &&
         static_cast<double>(now_ns - idle_since_ns_) >= options_.idle_exit_s * 1e9;
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
    next_tick_ns_ = again ? now_ns + *again : 0;
  }
  std::vector<std::pair<std::uint64_t, Leaving>> over;
  for (const auto& [id, connection] : connections_) {
    if (connection->hung_up_ns != 0 && now_ns - connection->hung_up_ns >= kDeathNs)
      over.emplace_back(id, Leaving::kClosed);
    else if (const std::int64_t until_ns = silent_until_ns(*connection); until_ns != 0 && now_ns >= until_ns)
      over.emplace_back(id, Leaving::kThrown);
  }
  for (const auto& [id, how] : over)
    drop(id, how, how == Leaving::kClosed ? "its socket was closed" : "it says nothing");
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

void Server::accept_clients() {
  for (int taken = 0; taken < 64; ++taken) {
    UniqueFd socket(accept4(listening_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
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
    if (drain_) {
      closer_.take(std::move(socket));
      continue;
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
    if (connections_.size() >= options_.connections_max && !make_room()) {
      refuse(*connection, 0,
             {Code::kExhausted,
              "caryad: " + std::to_string(connections_.size()) +
                  " connections, all of readers; raise [limits] connections in caryad.toml",
              0});
      closer_.take(connection->channel.release());
      continue;
    }
    connection->peer = *peer;
    connection->id = next_id_++;
    connection->said_ns = monotonic_ns();
    connection->process = connection->channel.peer_process();
    const std::uint64_t id = connection->id;
    if (!watch(connection->channel.fd(), id, EPOLLIN | EPOLLRDHUP)) continue;
    if (connection->process && !watch(connection->process.get(), id | kPidBit, EPOLLIN)) continue;
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
  drop(oldest->id, Leaving::kThrown, "too many connections");
  return true;
}

void Server::close_dropped() {
  for (const auto& connection : dropped_) closer_.take(connection->channel.release());
  dropped_.clear();
}

void Server::drop(std::uint64_t id, Leaving how, const std::string& reason) {
  const auto found = connections_.find(id);
  if (found == connections_.end()) return;
  Connection* const connection = found->second.get();
  connection->channel.shut();
  dropped_.push_back(std::move(found->second));  // whoever answers it at this moment has a reference
  connections_.erase(found);
  open_ = connections_.size();
  if (connection->attaching) {  // if it waits for its turn still, it has lost it
    const std::lock_guard lock(made_mutex_);
    std::erase_if(waiting_attachments_, [id](const Waiting& one) { return one.connection == id; });
  }
  if (!connection->seat) return;
  const Seat& seat = *connection->seat;
  ++(how == Leaving::kClosed ? detached_ : killed_);
  options_.log(how == Leaving::kThrown ? LogLevel::kWarning : LogLevel::kInfo,
               std::string(how == Leaving::kClosed ? "left"
                           : how == Leaving::kDied ? "died"
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
    drop(id, Leaving::kThrown, reason);
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
    drop(id, Leaving::kClosed, state == SeatState::kJobStopped ? "its job was stopped" : "its stream ended");
  }
}

/// A reader that shut its connection comes again before the daemon knew whether its process ended.
void Server::end_hung_up(const AttachRequest& request) {
  const auto old = std::ranges::find_if(connections_, [&](const auto& entry) {
    const Connection& other = *entry.second;
    return other.hung_up_ns != 0 && other.seat->job->name == request.job &&
           other.seat->rank == request.options.rank && other.seat->replica == request.replica;
  });
  if (old != connections_.end()) drop(old->first, Leaving::kClosed, "it comes again");
}

}  // namespace carya::loader
