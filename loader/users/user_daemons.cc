#include "loader/users/user_daemons.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fmt/core.h>
#include <algorithm>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <ranges>
#include <utility>

#include "base/cgroup.h"
#include "base/clock.h"
#include "loader/control/channel.h"
#include "loader/control/documents.h"
#include "loader/control/listening.h"
#include "loader/host/crash_notes.h"
#include "loader/program/event_field.h"

namespace carya::loader {
namespace {

constexpr std::uint64_t kListening = 1, kPage = 2, kFirstTag = 3;
/// Of a daemon's tag: the socket for root, not the process.
constexpr std::uint64_t kOwnSocketBit = 1ULL << 63;
/// Connections that a daemon has not taken yet: a daemon that was stopped holds up its own user only.
constexpr int kWaitingBytes = 16 << 10;
/// Starts of one user's daemons: so many at once, so many a second.
constexpr double kStartsMax = 20, kStartsPerS = 5;
/// For each daemon that a user may have, so many run, those that are ending among them.
constexpr std::ptrdiff_t kRunningOfEach = 2;
/// Of the page so many questions are answered in a row.
constexpr int kQuestionsMax = 64;
/// A page that ended is started again after this.
constexpr std::int64_t kPageAgainNs = 1'000'000'000;
/// A user is refused for so long after the kernel ended a daemon of theirs for its memory: who was served by it hears why,
/// and the next who comes starts another.
constexpr std::int64_t kMemoryPauseNs = 10'000'000'000;
constexpr auto kNoUser = static_cast<uid_t>(-1);
constexpr std::int64_t kSecondNs = 1'000'000'000;

}  // namespace

/// The daemon of a user.
struct UserDaemons::Daemon {
  std::uint64_t tag = 0;
  Rights rights;
  pid_t pid = 0;
  UniqueFd process;  // pidfd
  UniqueFd handing;  // its socket of connections; empty once it takes none
  std::shared_ptr<const UniqueFd> notes;
  std::uint32_t number = 1;  // of this user's, the lowest that is free
  UniqueFd own;              // where root asks for it
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
  if (auto groups = UserGroups::create("/sys/fs/cgroup", kernel_text("/proc/self/cgroup")))
    made->groups_ = std::move(*groups);
  else
    made->options_.log(LogLevel::kWarning, "weights of users are not kept, each has the same part" +
                                               field("why", groups.error().message));
  made->say_unkept();
  made->remove_left();
  if (made->options_.page) {
    const Rights rights =
        geteuid() == 0 ? Rights{.uid = kNobody, .gid = kNobody, .groups = {}} : own_rights();
    made->page_.emplace(std::move(made->options_.page),
                        StartOptions{.command = made->options_.page_command, .rights = rights});
    made->start_page();
  }
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
  page_.reset();
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
  if (page_again_ns_ != 0) until_ns = until_ns == 0 ? page_again_ns_ : std::min(until_ns, page_again_ns_);
  if (until_ns == 0) return -1;
  return static_cast<int>(
      std::clamp<std::int64_t>((until_ns - monotonic_ns() + 999'999) / 1'000'000, 0, 60'000));
}

void UserDaemons::run() {
  while (!stop_) {
    for (const std::uint64_t tag : poller_.wait(wait_ms())) {
      if (tag == kListening) {
        accept_clients(listening_.get(), nullptr);
      } else if (tag == kPage) {
        answer_page();
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
  if (page_again_ns_ != 0 && monotonic_ns() >= page_again_ns_) start_page();
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
  say_unkept();
  for (const auto& [tag, daemon] : daemons_) {
    static_cast<void>(groups_of(daemon->rights.uid));
    if (!daemon->handing || options_.rules.admitted.admits(daemon->rights)) continue;
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
  TRY(check_memory(rights.uid));
  if (const auto found = current_.find(rights); found != current_.end()) return found->second;
  if (daemons_.size() >= options_.users_max)
    return fail(Code::kExhausted, fmt::format("caryad: {} daemons of users, the limit", daemons_.size()));
  const auto of_user = [&](const auto& one) { return one.second->rights.uid == rights.uid; };
  const auto running = std::ranges::count_if(daemons_, of_user);  // those that are ending among them
  const std::ptrdiff_t most = options_.rules.share_of(rights.uid).daemons;
  if (std::ranges::count_if(current_, of_user) >= most || running >= kRunningOfEach * most)
    return fail(
        Code::kExhausted,
        fmt::format(
            "caryad: {} daemons of this user; end the jobs of one set of groups: its daemon "
            "ends when it has had none for ten minutes, or ask for more in [users] daemons of caryad.toml",
            running));
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
    return one.first != user && full(one.second) >= kStartsMax &&
           now_ns - one.second.refused_ns > kSecondNs && one.second.killed == 0 &&
           now_ns - one.second.memory_ns >= kMemoryPauseNs &&
           (!one.second.notes || now_ns - one.second.crashed_ns > Crash::kRecentS * kSecondNs);
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
  const auto taken = [&](const auto& one) {
    return one.second->rights.uid == rights.uid && one.second->number == daemon->number;
  };
  while (std::ranges::any_of(daemons_, taken)) ++daemon->number;
  daemon->handing.reset(ends[0]);
  daemon->notes = notes_for(rights.uid);
  const UniqueFd theirs(ends[1]);
  setsockopt(ends[0], SOL_SOCKET, SO_SNDBUF, &kWaitingBytes, sizeof(kWaitingBytes));

  ASSIGN(StartedProcess process,
         start_process({.command = options_.command,
                        .rights = rights,
                        .groups = groups_of(rights.uid),
                        .descriptors = options_.rules.share_of(rights.uid).descriptors,
                        .notes = daemon->notes ? daemon->notes->get() : -1},
                       theirs.get()));
  if (Status watched = poller_.watch(process.process.get(), daemon->tag); !watched) {
    end_process(process);
    return std::unexpected(std::move(watched.error()));
  }
  daemon->pid = process.pid;
  daemon->process = std::move(process.process);
  options_.log(LogLevel::kInfo, "started" + field("uid", rights.uid) + field("pid", daemon->pid));
  open_own_socket(*daemon);
  Daemon* const started = daemon.get();
  current_[rights] = started;
  daemons_[started->tag] = std::move(daemon);
  return started;
}

/// The cgroups of a user, with what the rules say.
std::vector<UniqueFd> UserDaemons::groups_of(uid_t user) {
  if (!groups_) return {};
  auto processes = groups_->add(std::to_string(user), options_.rules.share_of(user));
  if (processes) return std::move(*processes);
  if (!std::exchange(said_without_groups_, true))
    options_.log(LogLevel::kWarning, "weight and memory of a user are not kept" + field("uid", user) +
                                         field("why", processes.error().message));
  return {};
}

/// Those of the user's last crash, or new ones, whose size cannot be changed: a user fills no memory of this process. Null
/// where there is no memory: a crash is then not known to the next daemon.
std::shared_ptr<const UniqueFd> UserDaemons::notes_for(uid_t user) {
  if (const auto& notes = allowance_of(user).notes) return notes;
  UniqueFd made(memfd_create("carya-crashes", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!made || ftruncate(made.get(), CrashNotes::kBytes) != 0 ||
      fcntl(made.get(), F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) != 0)
    return nullptr;
  return std::make_shared<const UniqueFd>(std::move(made));
}

/// Limits of memory are of no use without a controller, which is to be known.
void UserDaemons::say_unkept() {
  const auto limited = [](const UserShare& share) { return share.memory_bytes != 0; };
  if ((!groups_ || !groups_->keeps_memory()) &&
      (limited(options_.rules.share) ||
       std::ranges::any_of(options_.rules.shares | std::views::values, limited)))
    options_.log(LogLevel::kWarning,
                 "limits of memory of users are not kept: there is no controller of memory");
}

/// Errors: kExhausted, EDQUOT, where the kernel has just ended a daemon of the user for its memory. The kernel counts before
/// the process is seen to end, so that no client finds another daemon meanwhile.
Status UserDaemons::check_memory(uid_t user) {
  const std::uint64_t most = options_.rules.share_of(user).memory_bytes;
  if (!groups_ || most == 0) return {};
  Allowance& own = allowance_of(user);
  const std::uint64_t killed = groups_->killed(std::to_string(user));
  if (killed > own.killed) {
    own.memory_ns = monotonic_ns();
    options_.log(LogLevel::kWarning,
                 "killed for the memory of its user" + field("uid", user) + field("limit", most));
  }
  own.killed = killed;
  if (own.memory_ns == 0 || monotonic_ns() - own.memory_ns >= kMemoryPauseNs) return {};
  return fail(
      Code::kExhausted,
      fmt::format(
          "caryad: the kernel ended the daemon of user {}, which needed more than the {} bytes of memory "
          "that [users] memory of caryad.toml allows; have fewer slots, a smaller cache or smaller "
          "batches, or ask for more memory",
          user, most),
      EDQUOT);
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
  std::string path = fmt::format("{}/{}{}.sock", folder, daemon.rights.uid,
                                 daemon.number == 1 ? "" : "-" + std::to_string(daemon.number));
  auto listening = listen_for_clients(path, false);
  if (!listening || !poller_.watch(listening->get(), daemon.tag | kOwnSocketBit)) return;
  daemon.own = std::move(*listening);
  daemon.own_path = std::move(path);
}

void UserDaemons::start_page() {
  page_again_ns_ = 0;
  Status started = page_->start();
  if (started) started = poller_.watch(page_->socket(), kPage);
  if (started) return;
  options_.log(LogLevel::kWarning, "no page of metrics" + field("why", started.error().message));
  page_again_ns_ = monotonic_ns() + kPageAgainNs;
}

/// It asks for one daemon after the other. One that takes nothing now is listed without a connection.
void UserDaemons::answer_page() {
  for (int count = 0; count < kQuestionsMax; ++count) {  // others wait meanwhile
    const auto tag = page_->question();
    if (!tag) break;
    const auto takes = [](const auto& one) { return static_cast<bool>(one.second->handing); };
    const auto next = std::find_if(daemons_.upper_bound(*tag), daemons_.end(), takes);
    if (next == daemons_.end()) {
      page_->answer({.draining = drain_ ? 1U : 0U}, -1);
      continue;
    }
    const Daemon& daemon = *next->second;
    UniqueFd theirs, pages;
    if (int ends[2]; socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) == 0) {
      theirs.reset(ends[0]);
      pages.reset(ends[1]);
    }
    if (!theirs || hand_over(daemon.handing.get(), theirs.get()) != 0) pages.reset();
    page_->answer({.tag = daemon.tag, .uid = daemon.rights.uid, .number = daemon.number}, pages.get());
    closing_.take(std::move(theirs));
  }
  if (page_->runs()) return;
  options_.log(LogLevel::kWarning, "the page of metrics ended, and is started again");
  page_again_ns_ = monotonic_ns() + kPageAgainNs;
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
  static_cast<void>(check_memory(uid));
  if (groups_ &&
      std::ranges::none_of(daemons_, [&](const auto& one) { return one.second->rights.uid == uid; })) {
    groups_->remove(std::to_string(uid));
    allowance_of(uid).killed = groups_->killed(std::to_string(uid));
  }
  if (WIFSIGNALED(status) && WTERMSIG(status) != SIGKILL) {
    Allowance& own = allowance_of(uid);
    own.notes = daemon->notes;
    own.crashed_ns = monotonic_ns();
  }
  const bool well = WIFEXITED(status) && WEXITSTATUS(status) == 0;
  options_.log(well ? LogLevel::kInfo : LogLevel::kWarning,
               "ended" + field("uid", uid) + field("pid", daemon->pid) +
                   field(WIFSIGNALED(status) ? "signal" : "status",
                         WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status)));
}

}  // namespace carya::loader
