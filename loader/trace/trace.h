#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/error.h"

namespace carya::loader {

/// What a trace event says. All times are CLOCK_MONOTONIC, in ns. `stream` is trace_stream() of the stream's number, and
/// `step` is trace_step() of the batch. The meaning of `of`, `rows`, `value` and `lane` stands behind each kind.
enum class TraceKind : std::uint8_t {
  kRead =
      1,     ///< storage read a record: of = chunk, lane = its row in the chunk, rows = bytes, value = record
  kCompute,  ///< the thread made rows: of = chunk, rows = rows, value = the first row's record, lane = kTraceFromCache etc.
  kAway,  ///< a worker made rows: of = chunk, rows = CPU ns there, value = when its result began to arrive, lane = worker
  kFill,  ///< a slot was filled and published: of = sequence, rows = rows, value = epoch, lane = slot
  kHold,  ///< the trainer held a slot: of = sequence, lane = slot
  kNext,  ///< the thread waited for a batch: of = sequence, rows = rows, value = epoch, lane = slot
  kTrainer,  ///< the thread did its own work from one batch to asking for the next: of = sequence of the first
  kCall,     ///< a process ran Python functions: of = chunk, rows = rows, value = epoch, lane = process
  kBroken,   ///< a record was found broken: value = record
  kFigures,  ///< counters: of = ready slots, step = bytes in read buffers, rows = reads open, value = chunks computed
  kClocks,  ///< the same moment by three clocks: of = BOOTTIME, step = MONOTONIC, value = REALTIME
};

/// Bits of a kCompute event's `lane`.
inline constexpr std::uint32_t kTraceFromCache = 1;  ///< its thread took the records from the page cache
inline constexpr std::uint32_t kTraceMissed = 2;     ///< some were not there: nothing was computed
inline constexpr std::uint32_t kTraceRest = 4;       ///< a worker had made the first part

/// One event. It holds numbers only, never bytes of a record or names.
struct TraceEvent {
  TraceKind kind{};
  std::uint32_t lane = 0;
  std::uint64_t stream = 0;
  std::int64_t begin_ns = 0, end_ns = 0;
  std::uint64_t of = 0, step = 0, rows = 0, value = 0;
};

namespace trace_detail {
inline std::atomic<bool> on{false};
}  // namespace trace_detail

/// Whether events are wanted. Cost when they are not: one relaxed load.
inline bool trace_on() {
  return trace_detail::on.load(std::memory_order_relaxed);
}
/// Keep the event in the ring of this thread. A full ring drops its oldest event. Call it while trace_on(). Threads:
/// thread-safe; never waits but for the first event of a thread, which makes its ring.
void trace_note(const TraceEvent& event) noexcept;
/// An event of this moment.
inline void trace_moment(TraceKind kind, std::uint64_t stream, std::uint64_t value) noexcept {
  const std::int64_t now = monotonic_ns();
  trace_note({.kind = kind, .stream = stream, .begin_ns = now, .end_ns = now, .value = value});
}
/// Note the clocks, if that was last done 10 s ago.
void trace_clocks(std::int64_t now_ns) noexcept;

/// The number of a stream that differs between processes too.
std::uint64_t trace_stream(std::uint64_t number);
/// The number of a batch; 0: of none that will be published.
inline std::uint64_t trace_step(std::uint64_t session, std::uint64_t number) {
  return session << 40 | (number + 1);
}

/// The number of the present trace; each start has another one.
std::uint64_t trace_session();
/// Names of a stream's records, or of its workers, for the file. `name` is called when the trace is written.
struct TraceNames {
  std::function<std::string(std::uint64_t record)> record;
  std::function<std::string(std::uint64_t worker)> worker;
};
/// Names for the present trace; it keeps them until it is stopped. What `names` lacks stays as it was.
void trace_names(std::uint64_t stream, const TraceNames& names) noexcept;

struct TraceOptions {
  std::size_t thread_events =
      1 << 16;  ///< the newest events of each thread, 64 B each; rounded up to a power of two
};
inline constexpr std::size_t kTraceThreadEventsMax = 1 << 22;
/// Start to record in this process. A trace that runs is dropped. Returns trace_session(). Errors: kInvalidArgument.
Result<std::uint64_t> start_trace(const TraceOptions& options);

/// The events of one thread.
struct ThreadEvents {
  std::uint64_t thread = 0;  ///< its ID
  std::string name;
  std::uint64_t dropped = 0;  ///< events that the ring no longer has
  std::vector<TraceEvent> events;
};
/// All that was recorded.
struct TraceRecord {
  std::vector<ThreadEvents> threads;
  std::vector<std::pair<std::uint64_t, TraceNames>> names;  ///< by stream
};
/// Stop recording and take what there is. Errors: kClosed, if `session` is not the present trace (0: any).
Result<TraceRecord> stop_trace(std::uint64_t session = 0);

}  // namespace carya::loader
