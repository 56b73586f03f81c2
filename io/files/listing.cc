#include "io/files/listing.h"

#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <memory>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "io/files/open_failure.h"

namespace carya::io {
namespace {

constexpr std::int64_t kTickNs = 50'000'000;           // a tick of the kernel's coarse clock is at most 10 ms
constexpr std::int64_t kSecondTickNs = 2'100'000'000;  // where times are whole (or even) seconds

std::int64_t in_ns(const timespec& time) {
  return time.tv_sec * 1'000'000'000LL + time.tv_nsec;
}

}  // namespace

bool ListingProgress::add(std::uint64_t seen) {
  if (stopped()) return false;
  const std::uint64_t seen_by_now = seen_.fetch_add(seen, std::memory_order_relaxed) + seen;
  if (!progress_ || std::this_thread::get_id() != caller_) return true;
  const std::int64_t now = monotonic_ns();
  if (now - told_ns_ < tell_every_ns_) return true;
  told_ns_ = now;
  if (!progress_(seen_by_now)) stopped_ = true;
  return !stopped();
}

bool ListingProgress::tell() {
  told_ns_ = 0;
  return add(0);
}

unsigned listing_threads(std::uint32_t asked) {
  if (asked != 0) return std::min(asked, 64u);
  cpu_set_t allowed;
  if (::sched_getaffinity(0, sizeof allowed, &allowed) != 0) return 1;
  return std::clamp(static_cast<unsigned>(CPU_COUNT(&allowed)), 1u, 64u);
}

Status for_each_index(std::uint64_t count, unsigned threads, ListingProgress& progress, const IndexTask& task,
                      Caller caller) {
  return for_each_index_by(count, threads, progress, [&] { return task; }, caller);
}

Status for_each_index_by(std::uint64_t count, unsigned threads, ListingProgress& progress,
                         const std::function<IndexTask()>& make_task, Caller caller) {
  std::atomic<std::uint64_t> next = 0;
  Mutex mutex;
  std::optional<Error> error;                 // guarded by mutex
  std::atomic<std::uint64_t> failed = count;  // lowest index that failed; written under mutex
  std::size_t ended_count = 0;                // of the other threads; guarded by mutex
  Condition ended;
  const auto run = [&] {
    const IndexTask task = make_task();
    for (;;) {
      const std::uint64_t index = next.fetch_add(1, std::memory_order_relaxed);
      // Indexes are taken in order, so all below the lowest failure are done or under way.
      if (index >= failed.load(std::memory_order_relaxed) || progress.stopped()) return;
      Status status = task(index);
      if (status) continue;
      const MutexLock lock(mutex);
      if (index < failed.load(std::memory_order_relaxed)) {
        failed = index;
        error = std::move(status.error());
      }
    }
  };
  std::vector<std::thread> others;
  for (unsigned i = caller == Caller::kWorks ? 1 : 0; i < threads && i < count; ++i) {
    try {
      others.emplace_back([&] {
        run();
        const MutexLock lock(mutex);
        ++ended_count;
        ended.notify_all();
      });
    } catch (const std::system_error&) {
      break;  // fewer threads, same result
    }
  }
  if (caller == Caller::kWorks || others.empty()) run();
  for (MutexLock lock(mutex); ended_count < others.size();) {
    ended.wait_for_ns(lock, progress.tell_every_ns());
    lock.unlock();  // the caller's function may wait for locks of its own
    progress.add(0);
    lock.lock();
  }
  for (std::thread& thread : others) thread.join();
  if (!progress.tell()) return listing_stopped();
  if (error) return std::unexpected(std::move(*error));
  return {};
}

std::unexpected<Error> listing_stopped() {
  return fail(Code::kClosed, "the listing was stopped");
}

SourceStamp stamp_of(const struct stat& status) {
  return {in_ns(status.st_mtim), in_ns(status.st_ctim), status.st_ino,
          static_cast<std::uint64_t>(status.st_size)};
}

std::optional<SourceStamp> stamp_of(int directory, const char* path) {
  struct stat status;
  if (::fstatat(directory, *path == '\0' ? "." : path, &status, 0) != 0) return std::nullopt;
  return stamp_of(status);
}

bool settled(const SourceStamp& stamp) {
  timespec now;
  ::clock_gettime(CLOCK_REALTIME, &now);
  const std::int64_t newest = std::max(stamp.mtime_ns, stamp.ctime_ns);
  const std::int64_t tick = newest % 1'000'000'000 == 0 ? kSecondTickNs : kTickNs;
  return in_ns(now) - newest > tick;
}

Result<std::string> real_path(const std::string& path) {
  const std::unique_ptr<char, decltype(&::free)> resolved(::realpath(path.c_str(), nullptr), &::free);
  if (resolved == nullptr) return fail_open(path, errno);
  return std::string(resolved.get());
}

}  // namespace carya::io
