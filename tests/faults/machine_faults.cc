// Faults of the machine: a clock that jumps, memory that is full.

#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmath>
#include <cstring>

#include "base/clock.h"
#include "loader/control/daemon_stream.h"
#include "tests/faults/fault_kinds.h"
#include "tests/faults/memory_group.h"

namespace carya::faults {
namespace {

constexpr std::int64_t kHourS = 3600;
constexpr std::uint64_t kMiB = 1 << 20;
constexpr std::uint32_t kNewcomers = 40;  // at most; of 4 to 32 MiB

/// The time, in seconds, that the daemon wrote before its last line with these words.
Result<std::int64_t> logged_time(const Host& host, const std::string& words) {
  ASSIGN(const std::string body,
         loader::ask_daemon(host.socket(), loader::MessageType::kLogs,
                            loader::encode(loader::LogsRequest{50}), loader::MessageType::kLogsAre, 120'000));
  ASSIGN(const loader::LogsAre logs, loader::decode<loader::LogsAre>(body));
  for (auto line = logs.lines.rbegin(); line != logs.lines.rend(); ++line) {
    if (line->find(words) == std::string::npos) continue;
    std::tm local{};
    if (strptime(line->c_str(), "%Y-%m-%dT%H:%M:%S", &local) == nullptr) break;
    local.tm_isdst = -1;
    return static_cast<std::int64_t>(mktime(&local));
  }
  return fail(Code::kCorrupt, "the daemon's log says nothing of " + words);
}

/// Jobs come until one is refused for want of memory. Those that were let in stay, and have their batches.
Status crowd(const Host& host, Random& random, std::vector<std::shared_ptr<loader::Job>>& let_in) {
  for (std::uint32_t i = 0; i < kNewcomers; ++i) {
    auto job = host.newcomer("newcomer" + std::to_string(i), static_cast<std::uint32_t>(2 + random() % 15));
    if (!job) {
      const Error& error = job.error();
      if (error.code == Code::kExhausted && error.message.find("B of memory are left") != std::string::npos)
        return {};
      return fail(Code::kCorrupt, "a newcomer heard, instead of numbers: " + error.message);
    }
    let_in.push_back(std::move(*job));
    TRY(host.verify_newcomer(*let_in.back(), 8));
  }
  return fail(Code::kCorrupt, "the limit of memory had no effect");
}

}  // namespace

namespace machine {

Result<std::vector<Affected>> jump_clock(Host& host, Random& random) {
  auto affected = all_ranks(host, monotonic_ns(), 0);
  FaultClock& clock = host.clock();
  const std::int64_t before_s = clock.shift_s;
  std::int64_t shift_s = before_s;
  while (std::abs(shift_s - before_s) < 3 * kHourS) {  // 3 hours to 22 years
    shift_s = static_cast<std::int64_t>(3 * kHourS << random() % 16);
    shift_s += static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(shift_s));
    if (random() % 2 == 0) shift_s = -shift_s;
  }
  const std::uint64_t answered = clock.answered;
  clock.shift_s = shift_s;
  // Somebody comes: the listing asks how old the files are, the log what time it is.
  ASSIGN(const auto job, host.newcomer("newcomer", 4));
  TRY(host.verify_newcomer(*job, 8));
  ASSIGN(const std::int64_t logged_s, logged_time(host, "attached job=newcomer"));
  job->close();
  if (clock.answered == answered || std::abs(logged_s - (std::time(nullptr) + shift_s)) > 2 * kHourS)
    return fail(Code::kCorrupt, "the daemon did not see the clock jump by " + std::to_string(shift_s) + " s");
  return affected;
}

Result<std::vector<Affected>> fill_memory(Host& host, Random& random) {
  ASSIGN(const auto group, MemoryGroup::create());
  TRY(group->enter(host.daemon()));
  TRY(group->set_limit(group->usage() + (40 + random() % 64) * kMiB));
  auto affected = all_ranks(host, monotonic_ns(), 0);
  std::vector<std::shared_ptr<loader::Job>> let_in;
  TRY(crowd(host, random, let_in));
  TRY(host.wait_progress(3));  // all of it beside them
  for (const auto& job : let_in) TRY(host.verify_newcomer(*job, 8));
  if (group->kills() != 0 || waitpid(host.daemon(), nullptr, WNOHANG) != 0)
    return fail(Code::kCorrupt, "the kernel killed the daemon for memory that it took itself");
  for (const auto& job : let_in) job->close();
  return affected;
}

Status may_limit_memory() {
  const auto group = MemoryGroup::create();
  return group ? Status() : Status(std::unexpected(group.error()));
}

}  // namespace machine
}  // namespace carya::faults
