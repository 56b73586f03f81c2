#include "loader/trace/trace.h"

#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>
#include <ctime>
#include <map>
#include <memory>
#include <new>
#include <utility>

#include "base/clock.h"
#include "base/mutex.h"

namespace carya::loader {
namespace {

constexpr std::size_t kWords = 8;
static_assert(sizeof(TraceEvent) == kWords * sizeof(std::uint64_t));
constexpr std::int64_t kClocksEveryNs = 10'000'000'000;

/// The newest events of one thread. put() by that thread only, take() by any.
///
/// 1. The writer claims a number, so that a reader that finds words of the new event also finds the claim.
/// 2. It writes the words, and then counts the event.
/// 3. The reader copies the events that are counted, and then drops those whose place was claimed meanwhile.
class TraceRing {
 public:
  TraceRing(std::uint64_t session, std::size_t events)
      : session_(session),
        mask_(events - 1),
        words_(static_cast<std::uint64_t*>(std::calloc(events * kWords, sizeof(std::uint64_t))), &std::free) {
    if (!words_) throw std::bad_alloc();
    std::array<char, 32> name{};
    pthread_getname_np(pthread_self(), name.data(), name.size());
    name_ = name.data();
  }

  std::uint64_t session() const { return session_; }

  void put(const TraceEvent& event) noexcept {
    const std::uint64_t at = count_.load(std::memory_order_relaxed);
    claimed_.store(at + 1, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_release);  // partner: the fence in take()
    const auto words = std::bit_cast<std::array<std::uint64_t, kWords>>(event);
    std::uint64_t* const place = words_.get() + (at & mask_) * kWords;
    for (std::size_t i = 0; i < kWords; ++i)
      std::atomic_ref(place[i]).store(words[i], std::memory_order_relaxed);
    count_.store(at + 1, std::memory_order_release);  // partner: the load in take()
  }

  ThreadEvents take() const {
    const std::uint64_t count = count_.load(std::memory_order_acquire), room = mask_ + 1;
    const std::uint64_t first = count > room ? count - room : 0;
    ThreadEvents found{.thread = thread_, .name = name_, .dropped = 0, .events = {}};
    found.events.reserve(count - first);
    for (std::uint64_t at = first; at < count; ++at) {
      std::array<std::uint64_t, kWords> words{};
      for (std::size_t i = 0; i < kWords; ++i)
        words[i] = std::atomic_ref(words_.get()[(at & mask_) * kWords + i]).load(std::memory_order_relaxed);
      found.events.push_back(std::bit_cast<TraceEvent>(words));
    }
    std::atomic_thread_fence(std::memory_order_acquire);
    const std::uint64_t claimed = claimed_.load(std::memory_order_relaxed);
    const std::uint64_t whole = claimed > room ? claimed - room : 0;  // the first that nobody wrote over
    found.dropped = std::max(first, std::min(whole, count));
    found.events.erase(found.events.begin(),
                       found.events.begin() + static_cast<std::ptrdiff_t>(found.dropped - first));
    return found;
  }

 private:
  const std::uint64_t session_;
  const std::uint64_t mask_;
  const std::uint64_t thread_ = static_cast<std::uint64_t>(syscall(SYS_gettid));
  std::string name_;
  std::unique_ptr<std::uint64_t[], decltype(&std::free)> words_;
  std::atomic<std::uint64_t> claimed_{0}, count_{0};
};

/// The present trace of the process.
struct Trace {
  Mutex mutex;
  std::vector<std::shared_ptr<TraceRing>> rings GUARDED_BY(mutex);
  std::map<std::uint64_t, TraceNames> names GUARDED_BY(mutex);
  std::size_t thread_events GUARDED_BY(mutex) = 0;
  std::atomic<std::uint64_t> session{0};
  std::atomic<std::int64_t> clocks_ns{0};
};

/// Never freed, since threads may note events while the process ends.
Trace& present(bool anew = false) {
  static Trace* trace = new Trace;
  if (anew) {
    const std::uint64_t session = trace->session;
    trace = new Trace;
    trace->session = session;
  }
  return *trace;
}

/// A forked child is not traced, and the lock may be held by a thread that it does not have.
void forget_in_child() {
  trace_detail::on = false;
  present(true);
}

thread_local std::shared_ptr<TraceRing> ring_of_this_thread;

/// Returns false if there is no memory, or if the trace has ended: the event is lost.
bool enter() noexcept {
  Trace& trace = present();
  try {
    const MutexLock lock(trace.mutex);
    if (!trace_on()) return false;
    auto ring = std::make_shared<TraceRing>(trace.session, trace.thread_events);
    trace.rings.push_back(ring);
    ring_of_this_thread = std::move(ring);
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

std::uint64_t now_by(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000ULL + static_cast<std::uint64_t>(now.tv_nsec);
}

void note_clocks(std::int64_t now_ns) noexcept {
  trace_note({.kind = TraceKind::kClocks,
              .begin_ns = now_ns,
              .end_ns = now_ns,
              .of = now_by(CLOCK_BOOTTIME),
              .step = now_by(CLOCK_MONOTONIC),
              .value = now_by(CLOCK_REALTIME)});
}

}  // namespace

void trace_note(const TraceEvent& event) noexcept {
  TraceRing* ring = ring_of_this_thread.get();
  if (ring == nullptr || ring->session() != present().session.load(std::memory_order_relaxed)) [[unlikely]] {
    if (!enter()) return;
    ring = ring_of_this_thread.get();
  }
  ring->put(event);
}

void trace_clocks(std::int64_t now_ns) noexcept {
  std::int64_t last = present().clocks_ns.load(std::memory_order_relaxed);
  if (now_ns - last < kClocksEveryNs) return;
  if (present().clocks_ns.compare_exchange_strong(last, now_ns)) note_clocks(now_ns);
}

std::uint64_t trace_stream(std::uint64_t number) {
  static const std::uint64_t salt =
      now_by(CLOCK_REALTIME) * 0x9e3779b97f4a7c15ULL ^ static_cast<std::uint64_t>(getpid()) << 48;
  return salt + number;
}

std::uint64_t trace_session() {
  return present().session.load(std::memory_order_relaxed);
}

void trace_names(std::uint64_t stream, const TraceNames& names) noexcept {
  try {
    const MutexLock lock(present().mutex);
    if (!trace_on()) return;
    TraceNames& known = present().names[stream];
    if (names.record) known.record = names.record;
    if (names.worker) known.worker = names.worker;
  } catch (const std::bad_alloc&) {  // then it has numbers only
  }
}

Result<std::uint64_t> start_trace(const TraceOptions& options) {
  if (options.thread_events == 0 || options.thread_events > kTraceThreadEventsMax)
    return fail(Code::kInvalidArgument, "trace: events of a thread: got " +
                                            std::to_string(options.thread_events) + "; give 1 to " +
                                            std::to_string(kTraceThreadEventsMax));
  static const int at_fork = pthread_atfork(nullptr, nullptr, &forget_in_child);
  if (at_fork != 0) return fail(Code::kExhausted, "trace: no memory for a handler of forks", at_fork);
  Trace& trace = present();
  const std::int64_t now = monotonic_ns();
  std::uint64_t session = 0;
  {
    const MutexLock lock(trace.mutex);
    trace.rings.clear();
    trace.names.clear();
    trace.thread_events = std::bit_ceil(options.thread_events);
    session = trace.session.fetch_add(1) + 1;
    trace.clocks_ns = now;
    trace_detail::on = true;
  }
  note_clocks(now);
  return session;
}

Result<TraceRecord> stop_trace(std::uint64_t session) {
  Trace& trace = present();
  note_clocks(monotonic_ns());
  const MutexLock lock(trace.mutex);
  if (!trace_on() || (session != 0 && session != trace.session))
    return fail(Code::kClosed, "trace: it does not run any more; another one was started, or it was stopped");
  trace_detail::on = false;
  TraceRecord record;
  for (const auto& ring : std::exchange(trace.rings, {})) record.threads.push_back(ring->take());
  for (auto& [stream, names] : std::exchange(trace.names, {}))
    record.names.emplace_back(stream, std::move(names));
  return record;
}

}  // namespace carya::loader
