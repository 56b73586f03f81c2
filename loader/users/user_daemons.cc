#include "loader/users/user_daemons.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fmt/core.h>
#include <algorithm>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <utility>

#include "base/cgroup.h"
#include "base/clock.h"
#include "loader/control/channel.h"
#include "loader/control/documents.h"
#include "loader/control/listening.h"
#include "loader/program/event_field.h"

namespace carya::loader {
namespace {

constexpr std::uint64_t kListening = 1, kFirstTag = 2;
/// Of a daemon's tag: the socket for root, not the process.
constexpr std::uint64_t kOwnSocketBit = 1ULL << 63;
/// Connections that a daemon has not taken yet: a daemon that was stopped holds up its own user only.
constexpr int kWaitingBytes = 16 << 10;
/// Starts of one user's daemons: so many at once, so many a second.
constexpr double kStartsMax = 20, kStartsPerS = 5;
/// Daemons of one user, by other groups.
constexpr std::ptrdiff_t kDaemonsOfUserMax = 4;
constexpr auto kNoUser = static_cast<uid_t>(-1);
constexpr std::int64_t kSecondNs = 1'000'000'000;

/// What a daemon gets of this process's environment.
constexpr const char* kPassed[] = {"PATH",         "LANG",        "LC_ALL", "TZ", "LD_LIBRARY_PATH",
                                   "ASAN_OPTIONS", "TSAN_OPTIONS"};

std::vector<std::string> environment() {
  std::vector<std::string> passed;
  for (const char* const name : kPassed)
    if (const char* const value = std::getenv(name); value != nullptr)
      passed.push_back(std::string(name) + '=' + value);
  return passed;
}

std::vector<char*> words(const std::vector<std::string>& text) {
  std::vector<char*> pointers;
  for (const std::string& word : text) pointers.push_back(const_cast<char*>(word.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

/// All that a process needs between fork() and exec(), where it may call the kernel only.
struct Start {
  std::vector<char*> command, environment;
  int program;           // by descriptor: the user need not reach it by its path
  const Rights* rights;  // null: this process's own
  int handed;
  int nothing;         // /dev/null: its log is in its memory, and no stream is shared with other users
  int processes = -1;  // of the cgroup
  rlimit descriptors{};
};

constexpr int kProgramFd = UserDaemons::kHandedFd + 1;

/// First all that is this process's is given away, then its rights: from then on the user may stop and look at it.
[[noreturn]] void become(const Start& start) {
  // In its cgroup first: what the start costs is the user's. A refusal leaves it where it is.
  if (start.processes >= 0) static_cast<void>(!::write(start.processes, "0", 1));
  if (start.descriptors.rlim_max != 0) setrlimit(RLIMIT_NOFILE, &start.descriptors);
  setsid();
  umask(022);
  // Above those that they become, so that none is written over.
  const int handed = fcntl(start.handed, F_DUPFD, kProgramFd + 1);
  const int program = fcntl(start.program, F_DUPFD, kProgramFd + 1);
  const int nothing = fcntl(start.nothing, F_DUPFD, kProgramFd + 1);
  if (handed < 0 || program < 0 || nothing < 0) _exit(126);
  for (int fd = 0; fd < UserDaemons::kHandedFd; ++fd)
    if (dup2(nothing, fd) < 0) _exit(126);
  if (dup2(handed, UserDaemons::kHandedFd) < 0 || dup3(program, kProgramFd, O_CLOEXEC) < 0) _exit(126);
  syscall(SYS_close_range, kProgramFd + 1, ~0U, 0);
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || chdir("/") != 0) _exit(126);
  if (start.rights != nullptr && take_rights(*start.rights) != 0) _exit(126);
  // These three wait until the daemon asks for them, which it does by itself: before that they would end it.
  sigset_t later;
  sigemptyset(&later);
  for (const int number : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&later, number);
  sigprocmask(SIG_SETMASK, &later, nullptr);
  syscall(SYS_execveat, kProgramFd, "", start.command.data(), start.environment.data(), AT_EMPTY_PATH);
  _exit(127);
}

}  // namespace

/// The daemon of a user.
struct UserDaemons::Daemon {
  std::uint64_t tag = 0;
  Rights rights;
  pid_t pid = 0;
  UniqueFd process;  // pidfd
  UniqueFd handing;  // its socket of connections; empty once it takes none
  UniqueFd own;      // where root asks for it
  std::string own_path;
};

Result<std::unique_ptr<UserDaemons>> UserDaemons::create(UserDaemonsOptions options) {
  ASSIGN(Poller poller, Poller::create("caryad"));
  const bool passed = static_cast<bool>(options.listening);
  UniqueFd listening = std::move(options.listening);
  if (!passed) {
    ASSIGN(listening, listen_for_clients(options.socket, true));
  }
  auto made = std::unique_ptr<UserDaemons>(
      new UserDaemons(std::move(options), std::move(poller), std::move(listening)));
  made->own_path_ = !passed;
  TRY(made->poller_.watch(made->listening_.get(), kListening));
  if (auto groups = CpuGroups::create("/sys/fs/cgroup", kernel_text("/proc/self/cgroup")))
    made->groups_ = std::move(*groups);
  else
    made->options_.log(LogLevel::kWarning, "weights of users are not kept, each has the same part" +
                                               field("why", groups.error().message));
  made->remove_left();
  return made;
}

UserDaemons::UserDaemons(UserDaemonsOptions options, Poller poller, UniqueFd listening)
    : options_(std::move(options)),
      poller_(std::move(poller)),
      listening_(std::move(listening)),
      next_tag_(kFirstTag),
      next_alive_ns_(options_.watchdog_ns ? monotonic_ns() : 0) {}

UserDaemons::~UserDaemons() {
  end();
}

void UserDaemons::end() {
  if (std::exchange(own_path_, false)) unlink(options_.socket.c_str());
  listening_.reset();
  for (const auto& [tag, daemon] : daemons_)
    if (!daemon->own_path.empty()) unlink(daemon->own_path.c_str());
  daemons_.clear();  // those that still run end with their clients
  current_.clear();
}

void UserDaemons::drain() {
  drain_ = true;
  poller_.wake();
}

void UserDaemons::stop() {
  stop_ = true;
  poller_.wake();
}

void UserDaemons::set_rules(UserRules rules) {
  {
    const MutexLock lock(mutex_);
    next_rules_ = std::move(rules);
  }
  poller_.wake();
}

int UserDaemons::wait_ms() {
  std::int64_t until_ns = next_alive_ns_;
  if (const std::int64_t look_ns = closing_.look(monotonic_ns()); look_ns != 0)
    until_ns = until_ns == 0 ? look_ns : std::min(until_ns, look_ns);
  if (drain_until_ns_ != 0) until_ns = until_ns == 0 ? drain_until_ns_ : std::min(until_ns, drain_until_ns_);
  if (until_ns == 0) return -1;
  return static_cast<int>(
      std::clamp<std::int64_t>((until_ns - monotonic_ns() + 999'999) / 1'000'000, 0, 60'000));
}

void UserDaemons::run() {
  while (!stop_) {
    for (const std::uint64_t tag : poller_.wait(wait_ms())) {
      if (tag == kListening) {
        accept_clients(listening_.get(), nullptr);
      } else if ((tag & kOwnSocketBit) == 0) {
        reap(tag);
      } else if (const auto found = daemons_.find(tag & ~kOwnSocketBit); found != daemons_.end()) {
        accept_clients(found->second->own.get(), found->second.get());
      }
    }
    look_after();
    if (drain_until_ns_ == 0) continue;
    if (daemons_.empty()) return;
    if (monotonic_ns() >= drain_until_ns_) return signal_all(SIGKILL);
  }
}

void UserDaemons::look_after() {
  if (next_alive_ns_ != 0 && monotonic_ns() >= next_alive_ns_) {
    options_.alive();
    next_alive_ns_ = monotonic_ns() + *options_.watchdog_ns / 2;
  }
  take_rules();
  if (!drain_ || drain_until_ns_ != 0) return;
  drain_until_ns_ = monotonic_ns() + static_cast<std::int64_t>(options_.drain_s * 1e9) + 5 * kSecondNs;
  poller_.forget(listening_.get());
  listening_.reset();
  options_.log(LogLevel::kInfo, "draining" + field("daemons", daemons_.size()));
  signal_all(SIGTERM);
}

void UserDaemons::take_rules() {
  {
    const MutexLock lock(mutex_);
    if (!next_rules_) return;
    options_.rules = std::move(*next_rules_);
    next_rules_.reset();
  }
  signal_all(SIGHUP);
  for (const auto& [tag, daemon] : daemons_) {
    const uid_t uid = daemon->rights.uid;
    if (groups_) static_cast<void>(groups_->add(std::to_string(uid), options_.rules.weight_of(uid)));
    if (options_.rules.admitted.admits(daemon->rights)) continue;
    options_.log(LogLevel::kInfo, "no longer served" + field("uid", daemon->rights.uid));
    daemon->handing.reset();  // it ends when its clients have gone
    current_.erase(daemon->rights);
    kill(daemon->pid, SIGTERM);
  }
}

void UserDaemons::signal_all(int number) {
  for (const auto& [tag, daemon] : daemons_) kill(daemon->pid, number);  // not reaped: the number is its own
}

/// Of the socket of all users, or of that for root alone, whose clients go to one daemon.
void UserDaemons::accept_clients(int listening, Daemon* only) {
  for (int taken = 0; taken < 64; ++taken) {
    UniqueFd client(accept4(listening, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!client) {
      if (errno == EMFILE || errno == ENFILE) usleep(10'000);  // until one is free; no spin
      return;
    }
    const auto rights = peer_rights(client.get());
    if (!rights || (only != nullptr ? rights->uid != 0 : !options_.rules.admitted.admits(*rights))) {
      const Error error =
          rights
              ? Error{Code::kPermission,
                      fmt::format("caryad: user {} is not served here; ask for a place in [users] allow of "
                                  "caryad.toml, or use the loader with daemon=\"embedded\"",
                                  rights->uid),
                      0}
              : rights.error();
      refuse(std::move(client), rights ? rights->uid : kNoUser, error);
    } else if (only == nullptr) {
      serve(std::move(client), *rights);
    } else if (hand_over(only->handing.get(), client.get()) == 0) {
      closing_.take(std::move(client));
    } else {
      refuse(std::move(client), rights->uid,
             {Code::kTimeout, "caryad: this daemon takes no connections now; try again", 0});
    }
  }
}

/// One line a second for each user: nobody fills the log.
void UserDaemons::refuse(UniqueFd client, uid_t user, const Error& error) {
  if (Allowance& own = allowance_of(user); monotonic_ns() - own.refused_ns > kSecondNs) {
    own.refused_ns = monotonic_ns();
    options_.log(LogLevel::kWarning, "refused" + field("uid", user) + field("why", error.message));
  }
  Channel channel(std::move(client));
  static_cast<void>(channel.send({.type = MessageType::kNotice, .body = encode(ErrorIs{error})}, 0));
  closing_.take(channel.release());
}

void UserDaemons::serve(UniqueFd client, const Rights& rights) {
  Error why{Code::kTimeout, "caryad: the daemon of this user takes no connections now; try again", 0};
  for (int times = 0; times < 2; ++times) {
    const auto daemon = daemon_for(rights);
    if (!daemon) {
      why = daemon.error();
      break;
    }
    const int refused = hand_over((*daemon)->handing.get(), client.get());
    if (refused == 0) return closing_.take(std::move(client));
    if (refused == EAGAIN || refused == ETOOMANYREFS) break;  // it does not take what was passed on before
    (*daemon)->handing.reset();                               // it is ending: the next one
    current_.erase(rights);
  }
  refuse(std::move(client), rights.uid, why);
}

Result<UserDaemons::Daemon*> UserDaemons::daemon_for(const Rights& rights) {
  if (const auto found = current_.find(rights); found != current_.end()) return found->second;
  if (daemons_.size() >= options_.users_max)
    return fail(Code::kExhausted, fmt::format("caryad: {} daemons of users, the limit", daemons_.size()));
  const auto of_user = [&](const auto& one) { return one.second->rights.uid == rights.uid; };
  const auto running = std::ranges::count_if(daemons_, of_user);  // those that are ending among them
  if (std::ranges::count_if(current_, of_user) >= kDaemonsOfUserMax || running >= 2 * kDaemonsOfUserMax)
    return fail(Code::kExhausted,
                fmt::format("caryad: {} daemons of this user; end the jobs of one set of groups", running));
  Allowance& own = allowance_of(rights.uid);
  if (own.starts < 1)
    return fail(Code::kTimeout, "caryad: the daemon of this user ended too often; try again in a second");
  --own.starts;
  return start(rights);
}

UserDaemons::Allowance& UserDaemons::allowance_of(uid_t user) {
  const std::int64_t now_ns = monotonic_ns();
  const auto full = [&](const Allowance& one) {
    return std::min(kStartsMax, one.starts + static_cast<double>(now_ns - one.since_ns) * 1e-9 * kStartsPerS);
  };
  std::erase_if(allowances_, [&](const auto& one) {
    return one.first != user && full(one.second) >= kStartsMax && now_ns - one.second.refused_ns > kSecondNs;
  });
  Allowance& own =
      allowances_.try_emplace(user, Allowance{.starts = kStartsMax, .since_ns = now_ns}).first->second;
  own.starts = full(own);
  own.since_ns = now_ns;
  return own;
}

Result<UserDaemons::Daemon*> UserDaemons::start(const Rights& rights) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0)
    return fail_errno("caryad: socket of a user's daemon", errno);
  auto daemon = std::make_unique<Daemon>();
  daemon->tag = next_tag_++;
  daemon->rights = rights;
  daemon->handing.reset(ends[0]);
  const UniqueFd theirs(ends[1]);
  setsockopt(ends[0], SOL_SOCKET, SO_SNDBUF, &kWaitingBytes, sizeof(kWaitingBytes));

  const UniqueFd nothing(::open("/dev/null", O_RDWR | O_CLOEXEC));
  if (!nothing) return fail_errno("caryad: /dev/null", errno);
  const UniqueFd program(::open(options_.command.front().c_str(), O_PATH | O_CLOEXEC));
  if (!program) return fail_errno("caryad: " + options_.command.front(), errno);
  const std::vector<std::string> variables = environment();
  Start start{.command = words(options_.command),
              .environment = words(variables),
              .program = program.get(),
              .rights = &rights,
              .handed = theirs.get(),
              .nothing = nothing.get()};
  if (rights == own_rights()) start.rights = nullptr;
  UniqueFd processes;
  if (groups_) {
    auto added = groups_->add(std::to_string(rights.uid), options_.rules.weight_of(rights.uid));
    if (added)
      processes = std::move(*added);
    else if (!std::exchange(said_without_groups_, true))
      options_.log(LogLevel::kWarning, "weights of users are not kept" + field("why", added.error().message));
    start.processes = processes.get();
  }
  if (options_.rules.descriptors != 0)
    start.descriptors = {options_.rules.descriptors, options_.rules.descriptors};

  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const pid_t pid = fork();
  if (pid == 0) become(start);
  const int error = errno;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (pid < 0) return fail_errno("caryad: start of a user's daemon", error);
  daemon->pid = pid;
  daemon->process.reset(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  Status watched = daemon->process ? poller_.watch(daemon->process.get(), daemon->tag)
                                   : Status(fail_errno("caryad: watch of a user's daemon", errno));
  if (!watched) {
    kill(pid, SIGKILL);
    while (waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
    }
    return std::unexpected(std::move(watched.error()));
  }
  options_.log(LogLevel::kInfo, "started" + field("uid", rights.uid) + field("pid", pid));
  open_own_socket(*daemon);
  Daemon* const started = daemon.get();
  current_[rights] = started;
  daemons_[started->tag] = std::move(daemon);
  return started;
}

std::string UserDaemons::own_folder() const {
  return options_.socket.substr(0, options_.socket.rfind('/')) + "/users";
}

/// Sockets of root and groups of users, by one that was killed.
void UserDaemons::remove_left() {
  std::error_code none;
  for (std::filesystem::directory_iterator at(own_folder(), none), end; at != end; at.increment(none))
    if (at->is_socket(none) && !Channel::connect(at->path().string())) ::unlink(at->path().c_str());
  if (groups_) groups_->remove_empty();
}

/// Where root finds it. Without it everything else works.
void UserDaemons::open_own_socket(Daemon& daemon) {
  const std::string folder = own_folder();
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) return;
  for (int number = 1; number <= kDaemonsOfUserMax + 1; ++number) {
    std::string path = fmt::format("{}/{}{}.sock", folder, daemon.rights.uid,
                                   number == 1 ? "" : "-" + std::to_string(number));
    const bool taken =
        std::ranges::any_of(daemons_, [&](const auto& one) { return one.second->own_path == path; });
    if (taken) continue;
    auto listening = listen_for_clients(path, false);
    if (!listening || !poller_.watch(listening->get(), daemon.tag | kOwnSocketBit)) return;
    daemon.own = std::move(*listening);
    daemon.own_path = std::move(path);
    return;
  }
}

/// A daemon has ended.
void UserDaemons::reap(std::uint64_t tag) {
  const auto found = daemons_.find(tag);
  if (found == daemons_.end()) return;
  const std::unique_ptr<Daemon> daemon = std::move(found->second);
  int status = 0;
  while (waitpid(daemon->pid, &status, 0) < 0 && errno == EINTR) {
  }
  daemons_.erase(found);
  if (const auto current = current_.find(daemon->rights);
      current != current_.end() && current->second == daemon.get())
    current_.erase(current);
  if (!daemon->own_path.empty()) unlink(daemon->own_path.c_str());
  const uid_t uid = daemon->rights.uid;
  if (groups_ &&
      std::ranges::none_of(daemons_, [&](const auto& one) { return one.second->rights.uid == uid; }))
    groups_->remove(std::to_string(uid));
  const bool well = WIFEXITED(status) && WEXITSTATUS(status) == 0;
  options_.log(well ? LogLevel::kInfo : LogLevel::kWarning,
               "ended" + field("uid", uid) + field("pid", daemon->pid) +
                   field(WIFSIGNALED(status) ? "signal" : "status",
                         WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status)));
}

}  // namespace carya::loader
