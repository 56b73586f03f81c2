#include "loader/daemon/attach_threads.h"

#include <fmt/chrono.h>
#include <fmt/core.h>
#include <algorithm>
#include <cerrno>
#include <ctime>
#include <system_error>
#include <thread>

#include "base/clock.h"
#include "base/hash.h"
#include "base/mutex.h"

namespace carya::loader {
namespace {

constexpr std::uint32_t kRunningMax = 8;
constexpr std::uint32_t kRunningPerProcess = 4;
constexpr std::int64_t kProgressNs = 200'000'000;

/// Why a job is refused whose pipeline ended the daemon before.
Error crashed_before(const std::string& job, const Crash& crash, const std::string& path) {
  const std::time_t until = crash.at_s + Crash::kRecentS;
  return {
      Code::kPermission,
      fmt::format("caryad: job {}: the daemon ended by {} while it worked for this pipeline, and with it the "
                  "streams of other jobs, so this one does not take it before {:%H:%M} UTC{}; please report "
                  "it, and have it run in its own process (daemon=\"embedded\"), where it harms no other job",
                  job, signal_name(crash.signal), fmt::gmtime(until),
                  path.empty() ? "" : " unless " + path + " is removed and the daemon started again"),
      ENOTRECOVERABLE};
}

}  // namespace

AttachThreads::AttachThreads(JobTable& jobs, const CrashNotes* crashes, std::function<void()> wake)
    : jobs_(jobs), crashes_(crashes), wake_(std::move(wake)) {}

void AttachThreads::start(std::uint64_t connection, std::uint32_t request, std::shared_ptr<AttachCall> call) {
  const MutexLock lock(mutex_);
  waiting_.push_back({.connection = connection, .request = request, .call = std::move(call)});
  start_waiting();
}

void AttachThreads::withdraw(std::uint64_t connection) {
  const MutexLock lock(mutex_);
  wanted_.erase(connection);
  std::erase_if(waiting_, [connection](const Waiting& one) { return one.connection == connection; });
}

AttachThreads::News AttachThreads::take() {
  const MutexLock lock(mutex_);
  return std::exchange(news_, {});
}

void AttachThreads::stop() {
  stop_ = true;
  MutexLock lock(mutex_);
  waiting_.clear();
  while (!running_.empty()) ended_.wait(lock);
}

bool AttachThreads::goes_on(std::uint64_t connection) {
  const MutexLock lock(mutex_);
  return !stop_ && wanted_.contains(connection);
}

/// In a thread of its own.
void AttachThreads::run(const Waiting& one) {
  std::int64_t told_ns = monotonic_ns();
  const auto progress = [&](std::uint64_t records) {
    if (const std::int64_t now_ns = monotonic_ns(); now_ns - told_ns > kProgressNs) {
      told_ns = now_ns;
      const MutexLock lock(mutex_);
      news_.listed.push_back({one.connection, records});
      wake_();
    }
    return goes_on(one.connection);
  };
  const std::uint64_t work = hash64(one.call->document->bytes());
  const WorkFor blamed(work);
  const auto crash = crashes_ == nullptr ? std::nullopt : crashes_->recent(work, std::time(nullptr));
  auto attachment = crash ? std::unexpected(crashed_before(one.call->request.job, *crash, crashes_->path()))
                          : jobs_.attach(*one.call, progress);
  const std::uint64_t pid = one.call->pid;
  const MutexLock lock(mutex_);
  news_.made.push_back({one.connection, one.request, std::move(attachment)});
  wake_();
  wanted_.erase(one.connection);
  if (--running_[pid] == 0) running_.erase(pid);
  start_waiting();
  ended_.notify_all();
}

void AttachThreads::start_waiting() {
  std::uint32_t all = 0;
  for (const auto& [pid, count] : running_) all += count;
  for (; all < kRunningMax; ++all) {
    const auto next = std::ranges::find_if(waiting_, [running = &running_](const Waiting& one) {
      const auto its = running->find(one.call->pid);
      return its == running->end() || its->second < kRunningPerProcess;
    });
    if (next == waiting_.end()) return;
    Waiting one = std::move(*next);
    waiting_.erase(next);
    const std::uint64_t connection = one.connection, pid = one.call->pid;
    const std::uint32_t request = one.request;
    try {
      wanted_.insert(connection);
      std::thread([this, one = std::move(one)] { run(one); }).detach();
      ++running_[pid];
    } catch (const std::system_error&) {
      --all;
      wanted_.erase(connection);
      news_.made.push_back({connection, request, fail(Code::kExhausted, "caryad: no thread can be started")});
      wake_();
    }
  }
}

}  // namespace carya::loader
