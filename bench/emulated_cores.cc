// The seams of bench_cores: functions of the loader and of libc which the linker finds here first.
#include "bench/emulated_cores.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <ctime>

#include "base/clock.h"
#include "loader/stream/chunk_compute.h"
#include "transforms/plan/scratch.h"

namespace carya::bench {
namespace {

std::atomic<std::int64_t> compute_ns{0};
std::atomic<std::int64_t> storage_delay_ns{0};

/// Counted by one thread, read by all.
struct alignas(64) Counts {
  std::atomic<std::uint64_t> rows, chunks, locks, contended;
  std::atomic<std::int64_t> computing_ns, waiting_ns, holding_ns;
};
std::array<Counts, 4096> counts;  // those of threads that have ended stay
std::atomic<std::size_t> counts_used{0};

thread_local Counts* mine = nullptr;
thread_local std::int64_t held_since_ns = 0;  // the outermost mutex
thread_local int held = 0;
thread_local std::int64_t late_ns = 0;

Counts& my_counts() {
  if (mine == nullptr) mine = &counts[std::min(counts_used.fetch_add(1), counts.size() - 1)];
  return *mine;
}

template <typename T>
void add(std::atomic<T>& sum, T more) {  // nobody else writes it
  sum.store(sum.load(std::memory_order_relaxed) + more, std::memory_order_relaxed);
}

void sleep_until(std::int64_t ns) {
  const timespec until{.tv_sec = ns / 1'000'000'000, .tv_nsec = ns % 1'000'000'000};
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr) == EINTR) {
  }
}

template <typename Fn>
Fn* real(const char* name) {
  return reinterpret_cast<Fn*>(dlsym(RTLD_NEXT, name));
}

void took() {
  if (held++ == 0) held_since_ns = monotonic_ns();
}
void let_go() {
  if (--held == 0) add(my_counts().holding_ns, monotonic_ns() - held_since_ns);
}

}  // namespace

void set_compute_ns(std::int64_t ns) {
  compute_ns = ns;
}

void set_storage_delay_ns(std::int64_t ns) {
  storage_delay_ns = ns;
}

void emulate_rows(std::uint64_t rows) {
  thread_local const bool exact = prctl(PR_SET_TIMERSLACK, 1) == 0;
  static_cast<void>(exact);
  Counts& count = my_counts();
  const std::int64_t start = monotonic_ns();
  const std::int64_t wanted = compute_ns * static_cast<std::int64_t>(rows);
  const std::int64_t paid = std::min(late_ns, wanted);
  if (wanted > paid) sleep_until(start + wanted - paid);
  const std::int64_t took_ns = monotonic_ns() - start;
  late_ns += took_ns - wanted;
  add(count.rows, rows);
  add(count.chunks, std::uint64_t{1});
  add(count.computing_ns, took_ns);
}

EmulationCounts emulation_counts() {
  EmulationCounts all;
  for (const Counts& count : counts) {
    all.rows += count.rows;
    all.chunks += count.chunks;
    all.computing_ns += count.computing_ns;
    all.locks += count.locks;
    all.contended += count.contended;
    all.waiting_ns += count.waiting_ns;
    all.holding_ns += count.holding_ns;
  }
  return all;
}

}  // namespace carya::bench

namespace carya::loader {

void compute_chunk(const ComputeParts& parts, Chunk& chunk, ComputeScratch& scratch) {
  bench::emulate_rows(chunk.tasks.size());
  // What the stream learns of its costs. The plan has named its counters when they were collected for the first time.
  if (transforms::StageCounters& profile = *scratch.transforms.impl().last; profile.plan != 0) {
    profile.samples += chunk.tasks.size();
    profile.timed_samples += chunk.tasks.size();
    profile.stages[0].cpu_ns += chunk.tasks.size() * static_cast<std::uint64_t>(bench::compute_ns);
  }
  SlotRows::Row row;
  for (const RowTask& task : chunk.tasks) {
    parts.rows.begin(row, *chunk.step->slot, task.row);
    parts.rows.finish(row, *chunk.step->slot, task.row, task.record);
  }
}

}  // namespace carya::loader

using namespace carya;
using namespace carya::bench;

// Also for libraries, whose waits on conditions let go of a mutex.
#pragma GCC visibility push(default)
extern "C" {

int pthread_mutex_trylock(pthread_mutex_t* mutex) {
  static auto* const try_lock = real<int(pthread_mutex_t*)>("pthread_mutex_trylock");
  const int failed = try_lock(mutex);
  if (failed != 0) return failed;
  add(my_counts().locks, std::uint64_t{1});
  took();
  return 0;
}

int pthread_mutex_lock(pthread_mutex_t* mutex) {
  static auto* const lock = real<int(pthread_mutex_t*)>("pthread_mutex_lock");
  static auto* const try_lock = real<int(pthread_mutex_t*)>("pthread_mutex_trylock");
  Counts& count = my_counts();
  add(count.locks, std::uint64_t{1});
  if (try_lock(mutex) != 0) {
    const std::int64_t start = monotonic_ns();
    if (const int failed = lock(mutex); failed != 0) return failed;
    add(count.contended, std::uint64_t{1});
    add(count.waiting_ns, monotonic_ns() - start);
  }
  took();
  return 0;
}

int pthread_mutex_unlock(pthread_mutex_t* mutex) {
  static auto* const unlock = real<int(pthread_mutex_t*)>("pthread_mutex_unlock");
  let_go();
  return unlock(mutex);
}

int pthread_cond_wait(pthread_cond_t* condition, pthread_mutex_t* mutex) {
  static auto* const wait = real<int(pthread_cond_t*, pthread_mutex_t*)>("pthread_cond_wait");
  let_go();
  const int failed = wait(condition, mutex);
  took();
  return failed;
}

int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock,
                           const timespec* until) {
  static auto* const wait =
      real<int(pthread_cond_t*, pthread_mutex_t*, clockid_t, const timespec*)>("pthread_cond_clockwait");
  let_go();
  const int failed = wait(condition, mutex, clock, until);
  took();
  return failed;
}

ssize_t pread(int file, void* to, size_t bytes, off_t at) {
  if (const std::int64_t delay = storage_delay_ns; delay > 0) sleep_until(monotonic_ns() + delay);
  return syscall(SYS_pread64, file, to, bytes, at);
}

ssize_t preadv2(int file, const iovec* to, int count, off_t at, int flags) {
  if (storage_delay_ns > 0) {  // only what is in memory is read this way
    errno = EAGAIN;
    return -1;
  }
  static auto* const read = real<ssize_t(int, const iovec*, int, off_t, int)>("preadv2");
  return read(file, to, count, at, flags);
}

}  // extern "C"
#pragma GCC visibility pop
