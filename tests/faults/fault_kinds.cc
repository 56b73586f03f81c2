#include "tests/faults/fault_kinds.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>

#include "base/clock.h"
#include "loader/control/daemon_stream.h"
#include "tests/faults/trainer.h"

namespace carya::faults {
namespace {

using Felt = Result<std::vector<Affected>>;

constexpr int kStopMsMax = 300;

void sleep_ms(std::uint64_t ms) {
  usleep(static_cast<useconds_t>(ms * 1000));
}

Status expect_killed(pid_t pid) {
  ASSIGN(const int status, Host::wait_end(pid));
  if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL)
    return fail(Code::kCorrupt, "a process ended by itself, status " + std::to_string(status));
  return {};
}

/// Ranks that are to attach again: asked before the fault, since then they may have done so already.
Felt kill_daemon(Host& host, Random&) {
  auto affected = all_ranks(host, monotonic_ns(), 1);
  kill(host.daemon(), SIGKILL);
  TRY(expect_killed(host.daemon()));
  TRY(host.start_daemon());
  return affected;
}

Felt kill_daemon_later_started(Host& host, Random& random) {
  auto affected = all_ranks(host, monotonic_ns(), 1);
  kill(host.daemon(), SIGKILL);
  TRY(expect_killed(host.daemon()));
  sleep_ms(random() % 500);
  TRY(host.start_daemon());
  return affected;
}

Felt kill_daemon_inside_publish(Host& host, Random& random) {
  const std::array points{"publish.slot", "publish.tail", "publish.wake"};
  const std::string point =
      points[random() % points.size()] + (":" + std::to_string(4 + random() % 40)) + ":KILL";
  kill(host.daemon(), SIGKILL);
  TRY(expect_killed(host.daemon()));
  TRY(host.start_daemon(point));
  TRY(expect_killed(host.daemon()));
  auto affected = all_ranks(host, monotonic_ns(), 1);
  TRY(host.start_daemon());
  return affected;
}

Felt stop_daemon_inside_publish(Host& host, Random& random) {
  const std::array points{"publish.slot", "publish.tail", "publish.wake"};
  const std::string point =
      points[random() % points.size()] + (":" + std::to_string(4 + random() % 40)) + ":STOP";
  kill(host.daemon(), SIGKILL);
  TRY(expect_killed(host.daemon()));
  TRY(host.start_daemon(point));
  TRY(Host::wait_stopped(host.daemon()));
  sleep_ms(20 + random() % kStopMsMax);
  auto affected = all_ranks(host, monotonic_ns(), 0);
  kill(host.daemon(), SIGCONT);
  return affected;
}

Felt stop_daemon(Host& host, Random& random) {
  kill(host.daemon(), SIGSTOP);
  TRY(Host::wait_stopped(host.daemon()));
  sleep_ms(20 + random() % kStopMsMax);
  auto affected = all_ranks(host, monotonic_ns(), 0);
  kill(host.daemon(), SIGCONT);
  return affected;
}

Felt drain_daemon(Host& host, Random&) {
  auto affected = all_ranks(host, monotonic_ns(), 1);
  kill(host.daemon(), SIGTERM);
  ASSIGN(const int status, Host::wait_end(host.daemon()));
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
    return fail(Code::kCorrupt, "TERM ended caryad with status " + std::to_string(status));
  TRY(host.start_daemon());
  return affected;
}

Felt kill_rank(Host& host, Random& random) {
  const std::uint64_t rank = random() % kWorld;
  const std::uint64_t back = random() % 2 == 0 ? 0 : random() % 30;
  const std::int64_t since_ns = monotonic_ns();
  kill(host.trainer(rank), SIGKILL);
  TRY(expect_killed(host.trainer(rank)));
  TRY(host.start_trainer(rank, back));
  return std::vector<Affected>{{rank, since_ns, 0}};
}

Felt kill_rank_inside_release(Host& host, Random& random) {
  const std::uint64_t rank = random() % kWorld;
  const std::array points{"release.tail", "release.bell"};
  const std::string point =
      points[random() % points.size()] + (":" + std::to_string(1 + random() % 30)) + ":KILL";
  kill(host.trainer(rank), SIGKILL);
  TRY(expect_killed(host.trainer(rank)));
  TRY(host.start_trainer(rank, 0, point));
  TRY(expect_killed(host.trainer(rank)));
  const std::int64_t since_ns = monotonic_ns();
  TRY(host.start_trainer(rank, random() % 3));
  return std::vector<Affected>{{rank, since_ns, 0}};
}

Felt stop_rank(Host& host, Random& random) {
  const std::uint64_t rank = random() % kWorld;
  kill(host.trainer(rank), SIGSTOP);
  TRY(Host::wait_stopped(host.trainer(rank)));
  sleep_ms(20 + random() % kStopMsMax);
  const std::int64_t since_ns = monotonic_ns();
  kill(host.trainer(rank), SIGCONT);
  return std::vector<Affected>{{rank, since_ns, 0}};
}

Felt kill_stopped_rank_and_daemon(Host& host, Random& random) {
  const std::uint64_t rank = random() % kWorld;
  kill(host.trainer(rank), SIGSTOP);
  TRY(Host::wait_stopped(host.trainer(rank)));
  auto affected = all_ranks(host, monotonic_ns(), 1);
  affected[rank].reattached = 0;
  kill(host.trainer(rank), SIGKILL);
  kill(host.daemon(), SIGKILL);
  TRY(expect_killed(host.trainer(rank)));
  TRY(expect_killed(host.daemon()));
  TRY(host.start_daemon());  // first: a first attachment does not wait for one
  TRY(host.start_trainer(rank, 0));
  return affected;
}

Felt reopen(Host& host, Random& random) {
  const std::uint64_t rank = random() % kWorld;
  const std::int64_t since_ns = monotonic_ns();
  const std::uint32_t wish = ++host.board(rank).reopen;
  while (host.board(rank).reopened != wish) {
    if (monotonic_ns() - since_ns > 120'000'000'000)
      return fail(Code::kTimeout, "a rank does not open again");
    TRY(host.verify());
    usleep(500);
  }
  return std::vector<Affected>{{rank, since_ns, 0}};
}

Felt shut_control(Host& host, Random& random) {
  const std::uint64_t rank = random() % kWorld;
  std::vector<Affected> affected{{rank, monotonic_ns(), host.reattached(rank) + 1}};
  kill(host.trainer(rank), SIGUSR1);
  return affected;
}

/// Its trainers are told and end; started again they go on at their checkpoints.
Felt stop_job(Host& host, Random&) {
  auto affected = all_ranks(host, monotonic_ns(), 0);
  TRY(host.verify());
  TRY(loader::ask_daemon(host.socket(), loader::MessageType::kStopJob,
                         loader::encode(loader::StopJobRequest{"faults"}), loader::MessageType::kDone,
                         120'000));
  for (Affected& one : affected) {
    ASSIGN(const int status, Host::wait_end(host.trainer(one.rank)));
    const std::string said = host.board(one.rank).error;
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 1 || said.find("was stopped") == std::string::npos)
      return fail(Code::kCorrupt, "a trainer was not told that its job was stopped: " + said);
    host.board(one.rank).failed = 0;
  }
  for (Affected& one : affected) {
    one = {one.rank, monotonic_ns(), 0};
    TRY(host.start_trainer(one.rank, 0));
  }
  return affected;
}

/// Whether the daemon says welcome in time.
bool is_answered(const std::string& socket, int timeout_ms) {
  auto channel = loader::Channel::connect(socket);
  if (!channel) return false;
  const loader::Message hello{.type = loader::MessageType::kHello,
                              .request = 1,
                              .body = loader::encode(loader::Hello{.client = "faults"})};
  return channel->send(hello, timeout_ms) && channel->receive(timeout_ms);
}

/// No descriptor is left for a moment; every second time a reader has to attach again in it.
Felt exhaust_descriptors(Host& host, Random& random) {
  rlimit before{};
  if (prlimit(host.daemon(), RLIMIT_NOFILE, nullptr, &before) != 0) return fail_errno("prlimit", errno);
  // Below 3 nothing becomes free. With 8, what a reader that attaches again gave back (6 and 7) went to the next one.
  const rlimit none{3, before.rlim_max};
  if (prlimit(host.daemon(), RLIMIT_NOFILE, &none, nullptr) != 0) return fail_errno("prlimit", errno);
  auto affected = all_ranks(host, monotonic_ns(), 0);
  if (random() % 2 == 0) {
    const std::uint64_t rank = random() % kWorld;
    ++affected[rank].reattached;
    kill(host.trainer(rank), SIGUSR1);
  }
  const bool answered = is_answered(host.socket(), 50 + static_cast<int>(random() % 200));
  if (prlimit(host.daemon(), RLIMIT_NOFILE, &before, nullptr) != 0) return fail_errno("prlimit", errno);
  if (answered) return fail(Code::kCorrupt, "the limit of descriptors had no effect");
  return affected;
}

template <Result<std::uint64_t> (*attack)(const std::string&, Random&)>
Felt beside(Host& host, Random& random) {
  auto affected = all_ranks(host, monotonic_ns(), 0);
  TRY(attack(host.socket(), random));
  return affected;
}

Felt scribble(Host& host, Random& random) {
  auto affected = all_ranks(host, monotonic_ns(), 0);
  const std::string seed = std::to_string(random());
  const pid_t pid = fork();
  if (pid == 0) {
    execl("/proc/self/exe", "faults", "--scribbler", host.socket().c_str(), host.photos().c_str(),
          seed.c_str(), nullptr);
    _exit(127);
  }
  ASSIGN(const int status, Host::wait_end(pid));
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
    return fail(Code::kCorrupt, "the scribbler was not told; status " + std::to_string(status));
  return affected;
}

constexpr FaultKind kKinds[] = {
    {"kill daemon", kill_daemon},
    {"kill daemon, start it later", kill_daemon_later_started},
    {"kill daemon inside publish", kill_daemon_inside_publish},
    {"stop daemon inside publish", stop_daemon_inside_publish},
    {"stop daemon", stop_daemon},
    {"TERM daemon", drain_daemon},
    {"kill rank", kill_rank},
    {"kill rank inside release", kill_rank_inside_release},
    {"stop rank", stop_rank},
    {"kill rank and daemon", kill_stopped_rank_and_daemon},
    {"close and open again", reopen},
    {"shut control socket", shut_control},
    {"stop job", stop_job},
    {"no descriptors left", exhaust_descriptors},
    {"clock jumps", machine::jump_clock},
    {"full memory", machine::fill_memory, machine::may_limit_memory},
    {"client: garbage", beside<hostile::send_garbage>},
    {"client: half messages", beside<hostile::send_half_messages>},
    {"client: connections", beside<hostile::flood_connections>},
    {"client: wrong descriptors", beside<hostile::send_wrong_descriptors>},
    {"reader scribbles", scribble},
};

}  // namespace

std::vector<Affected> all_ranks(const Host& host, std::int64_t since_ns, std::uint64_t more) {
  std::vector<Affected> affected;
  for (std::uint64_t rank = 0; rank < kWorld; ++rank)
    affected.push_back({rank, since_ns, host.reattached(rank) + more});
  return affected;
}

std::span<const FaultKind> fault_kinds() {
  return kKinds;
}

}  // namespace carya::faults
