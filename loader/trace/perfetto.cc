#include "loader/trace/perfetto.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <initializer_list>
#include <map>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include "base/escape.h"
#include "base/hash.h"

namespace carya::loader {
namespace {

// Source: protos/perfetto/trace/ of Perfetto 0.59; tests/python/test_trace.py reads all of it by their own parser.
namespace packet {
enum : std::uint32_t {
  kClockSnapshot = 6,
  kTimestamp = 8,
  kSequenceId = 10,
  kTrackEvent = 11,
  kInterned = 12,
  kSequenceFlags = 13,
  kDefaults = 59,
  kTrackDescriptor = 60,
};
}
constexpr std::uint64_t kBegin = 1, kEnd = 2, kInstant = 3, kCounter = 4;  // TrackEvent.type
constexpr std::uint64_t kRealtime = 1, kMonotonic = 3, kBoottime = 6;      // builtin clocks
constexpr std::uint64_t kCleared = 1, kNeeded = 2;                         // sequence_flags

/// Appends fields of a protobuf message.
class Message {
 public:
  void number(std::uint32_t field, std::uint64_t value) {
    varint(field << 3);
    varint(value);
  }
  void fixed(std::uint32_t field, std::uint64_t value) {
    varint(field << 3 | 1);
    for (unsigned i = 0; i < 8; ++i) bytes_ += static_cast<char>(value >> (8 * i));
  }
  void text(std::uint32_t field, std::string_view value) {
    varint(field << 3 | 2);
    varint(value.size());
    bytes_ += value;
  }
  void message(std::uint32_t field, const Message& value) { text(field, value.bytes_); }
  const std::string& bytes() const { return bytes_; }

 private:
  void varint(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_ += static_cast<char>(value | 0x80);
    bytes_ += static_cast<char>(value);
  }
  std::string bytes_;
};

/// Names that packets repeat, by their number in these lists. 0 is no name.
constexpr std::array kEventNames{"",
                                 "read",
                                 "compute",
                                 "away",
                                 "computed there",
                                 "fill",
                                 "ready",
                                 "held",
                                 "next",
                                 "trainer",
                                 "functions",
                                 "broken record",
                                 "page cache missed",
                                 "compute the rest",
                                 "published",
                                 "took"};
enum EventName : std::size_t {
  kNameRead = 1,
  kNameCompute,
  kNameAway,
  kNameThere,
  kNameFill,
  kNameReady,
  kNameHeld,
  kNameNext,
  kNameTrainer,
  kNameCall,
  kNameBroken,
  kNameMissed,
  kNameRest,
  kNamePublished,
  kNameTook,
};
constexpr std::array kArgumentNames{"",      "record", "path",  "bytes",           "chunk",
                                    "batch", "rows",   "epoch", "from_page_cache", "worker_cpu_ns"};
enum ArgumentName : std::size_t {
  kArgRecord = 1,
  kArgPath,
  kArgBytes,
  kArgChunk,
  kArgBatch,
  kArgRows,
  kArgEpoch,
  kArgFromCache,
  kArgWorkerCpu,
};
// Kinds of flows; a flow's number is a hash of its kind, its stream and what it follows.
constexpr std::uint64_t kFlowRecord = 1, kFlowChunk = 2, kFlowBatch = 3;
constexpr std::size_t kTextBytesMax = 256;
constexpr std::uint64_t kRowsOfFlowsMax = 256;  // a chunk with more rows shows the reads of the first ones

std::uint64_t mixed(std::initializer_list<std::uint64_t> numbers) {
  std::uint64_t sum = 0;
  for (const std::uint64_t number : numbers)
    sum = hash64(std::string_view(reinterpret_cast<const char*>(&number), 8), sum);
  return sum | 1;  // 0 is no number of a track or flow
}

/// Foreign text: escaped, and of one that is long the end, which says more of a path.
std::string shown(std::string_view foreign) {
  std::string text = escaped(foreign);
  if (text.size() <= kTextBytesMax) return text;
  std::size_t from = text.size() - kTextBytesMax;
  while (from < text.size() && (text[from] & 0xc0) == 0x80) ++from;  // not inside of a character
  return "..." + text.substr(from);
}

class Writer {
 public:
  Writer(const TraceRecord& record, const PerfettoOptions& options) : options_(options) {
    for (const auto& [stream, names] : record.names) names_[stream] = &names;
    for (const ThreadEvents& thread : record.threads) {
      dropped_ += thread.dropped;
      for (const TraceEvent& event : thread.events)
        if (is_wanted(event)) events_.emplace_back(event, &thread);
    }
    std::ranges::sort(events_, {}, [](const auto& one) {
      return std::tuple(one.first.begin_ns, one.first.end_ns, one.first.kind, one.first.of);
    });
    if (events_.size() > options.events_max) {
      const std::size_t over = events_.size() - options.events_max;
      dropped_ += over;
      events_.erase(events_.begin(), events_.begin() + static_cast<std::ptrdiff_t>(over));
    }
  }

  std::string write() {
    begin();
    for (const auto& [event, thread] : events_) {
      note_links(event);
      if (event.stream != 0 && std::ranges::count(streams_, event.stream) == 0)
        streams_.push_back(event.stream);
    }
    for (const auto& [event, thread] : events_) write_event(event, *thread);
    std::ranges::sort(timed_, {}, [](const Timed& one) { return std::pair(one.time, one.number); });
    for (const Timed& one : timed_) out_ += one.bytes;
    return std::move(out_);
  }

 private:
  using Links = std::vector<std::uint64_t>;
  struct Timed {
    std::uint64_t time = 0;
    std::size_t number = 0;  // packets of the same time stay in the order in which they were made
    std::string bytes;
  };

  bool is_wanted(const TraceEvent& event) const {
    return options_.only.empty() || event.kind == TraceKind::kClocks ||
           std::ranges::count(options_.only, event.stream) > 0;
  }

  void add(Message packet, std::uint64_t flags = kNeeded) {
    packet.number(packet::kSequenceId, sequence_);
    packet.number(packet::kSequenceFlags, flags);
    Message file;
    file.message(1, packet);
    out_ += file.bytes();
  }

  void begin() {
    Message first, defaults, interned;
    defaults.number(58, kMonotonic);  // timestamp_clock_id
    first.message(packet::kDefaults, defaults);
    const auto list = [&](std::uint32_t field, const auto& names) {
      for (std::size_t i = 1; i < names.size(); ++i) {
        Message name;
        name.number(1, i);
        name.text(2, names[i]);
        interned.message(field, name);
      }
    };
    list(2, kEventNames);
    list(3, kArgumentNames);
    first.message(packet::kInterned, interned);
    add(std::move(first), kCleared);
    Message process, about;
    process.number(1, static_cast<std::uint64_t>(getpid()));
    process.text(6, options_.process);
    about.message(3, process);
    if (dropped_ > 0)
      about.text(2, options_.process + " (" + std::to_string(dropped_) + " older events were dropped)");
    describe(process_, std::move(about), 0);
  }

  void describe(std::uint64_t track, Message about, std::uint64_t parent) {
    about.number(1, track);
    if (parent != 0) about.number(5, parent);
    Message packet;
    packet.message(packet::kTrackDescriptor, about);
    add(std::move(packet));
  }

  std::uint64_t thread_track(const ThreadEvents& thread) {
    const std::uint64_t track = mixed({process_, thread.thread});
    if (described_.insert(track).second) {
      Message about, one;
      one.number(1, static_cast<std::uint64_t>(getpid()));
      one.number(2, thread.thread);
      one.text(5, shown(thread.name));
      about.message(4, one);
      describe(track, std::move(about), 0);
    }
    return track;
  }

  /// "stream 2: " where there are several, in the order in which they appear.
  std::string of_stream(const TraceEvent& event) const {
    const auto found = std::ranges::find(streams_, event.stream);
    if (streams_.size() < 2 || found == streams_.end()) return "";
    return "stream " + std::to_string(found - streams_.begin() + 1) + ": ";
  }

  /// The lane of a group of tracks. Slices on one track must not overlap: one that does goes to the next lane.
  std::uint64_t lane_track(const std::string& name, const TraceEvent& event) {
    const std::string group = of_stream(event) + name;
    const std::uint64_t base = mixed({process_, event.stream, hash64(group)});
    std::vector<std::int64_t>& ends = lanes_[base];
    std::size_t lane = 0;
    while (lane < ends.size() && ends[lane] > event.begin_ns) ++lane;
    if (lane == ends.size()) ends.push_back(0);
    ends[lane] = event.end_ns;
    const std::uint64_t track = mixed({base, lane});
    if (described_.insert(track).second) {
      Message about;
      about.text(2, shown(group));
      describe(track, std::move(about), process_);
    }
    return track;
  }

  void count(const TraceEvent& event, const char* name, std::uint64_t value, bool is_bytes = false) {
    const std::uint64_t track = mixed({process_, event.stream, hash64(std::string_view(name))});
    if (described_.insert(track).second) {
      Message about, counter;
      counter.number(3, is_bytes ? 3 : 2);  // unit
      about.text(2, of_stream(event) + name);
      about.message(8, counter);
      describe(track, std::move(about), process_);
    }
    Message counted;
    counted.number(9, kCounter);
    counted.number(11, track);
    counted.number(30, value);
    at(event.begin_ns, counted);
  }

  void at(std::int64_t time_ns, const Message& event) {
    Message packet, file;
    const auto time = static_cast<std::uint64_t>(std::max<std::int64_t>(time_ns, 0));
    packet.number(packet::kTimestamp, time);
    packet.message(packet::kTrackEvent, event);
    packet.number(packet::kSequenceId, sequence_);
    packet.number(packet::kSequenceFlags, kNeeded);
    file.message(1, packet);
    timed_.push_back({time, timed_.size(), file.bytes()});
  }

  struct Slice {
    std::size_t name = 0;
    std::initializer_list<std::pair<std::size_t, std::uint64_t>> arguments{};
    std::string path{};
    Links flows{}, ends{};
  };
  static Message begun(std::uint64_t type, std::uint64_t track, const Slice& slice) {
    Message event;
    event.number(9, type);
    event.number(11, track);
    event.number(10, slice.name);
    for (const auto& [name, value] : slice.arguments) {
      Message argument;
      argument.number(1, name);
      argument.number(3, value);
      event.message(4, argument);
    }
    if (!slice.path.empty()) {
      Message argument;
      argument.number(1, kArgPath);
      argument.text(6, slice.path);
      event.message(4, argument);
    }
    for (const std::uint64_t flow : slice.flows) event.fixed(47, flow);
    for (const std::uint64_t flow : slice.ends) event.fixed(48, flow);
    return event;
  }
  static Message ended(std::uint64_t track) {
    Message end;
    end.number(9, kEnd);
    end.number(11, track);
    return end;
  }
  void slice(std::uint64_t track, std::int64_t begin_ns, std::int64_t end_ns, const Slice& slice) {
    at(begin_ns, begun(kBegin, track, slice));
    at(std::max(begin_ns, end_ns), ended(track));
  }
  /// A moment at the end of the event. Flows lead there, since one may not lead back in time: a slot is given, and a batch
  /// asked for, before the chunks are computed.
  void mark(std::uint64_t track, const TraceEvent& event, const Slice& slice) {
    at(event.end_ns, begun(kInstant, track, slice));
  }

  /// What later events of the file refer to: reads by chunk, chunks by batch, publishing by slot.
  void note_links(const TraceEvent& event) {
    if (event.kind == TraceKind::kRead)
      reads_.insert(mixed({kFlowRecord, event.stream, event.of, event.lane}));
    const bool made = event.kind == TraceKind::kAway || event.kind == TraceKind::kCall ||
                      (event.kind == TraceKind::kCompute && !(event.lane & kTraceMissed));
    if (made && event.step != 0) chunks_[{event.stream, event.step}].insert(event.of);
    if (event.kind == TraceKind::kFill) published_[{event.stream, event.of}] = event.end_ns;
  }

  Links reads_of(const TraceEvent& chunk, std::uint64_t rows) const {
    Links flows;
    for (std::uint64_t row = 0; row < std::min(rows, kRowsOfFlowsMax); ++row)
      if (const auto flow = mixed({kFlowRecord, chunk.stream, chunk.of, row}); reads_.contains(flow))
        flows.push_back(flow);
    return flows;
  }
  static std::uint64_t chunk_flow(const TraceEvent& event, std::uint64_t chunk) {
    return mixed({kFlowChunk, event.stream, event.step, chunk});
  }
  Links chunks_of(const TraceEvent& batch) const {
    Links flows;
    if (const auto found = chunks_.find({batch.stream, batch.step}); found != chunks_.end())
      for (const std::uint64_t chunk : found->second) flows.push_back(chunk_flow(batch, chunk));
    return flows;
  }
  static std::uint64_t batch_flow(const TraceEvent& event) {
    return mixed({kFlowBatch, event.stream, event.of});
  }

  std::string name_of(const TraceEvent& event, std::uint64_t number,
                      std::function<std::string(std::uint64_t)> TraceNames::* which) const {
    const auto found = names_.find(event.stream);
    return found != names_.end() && found->second->*which ? shown((found->second->*which)(number)) : "";
  }
  std::string path_of(const TraceEvent& event) const {
    return name_of(event, event.value, &TraceNames::record);
  }

  void write_event(const TraceEvent& event, const ThreadEvents& thread) {
    const auto slot = [&] { return lane_track("slot " + std::to_string(event.lane), event); };
    switch (event.kind) {
      case TraceKind::kRead:
        return slice(
            lane_track("reads", event), event.begin_ns, event.end_ns,
            {.name = kNameRead,
             .arguments = {{kArgRecord, event.value}, {kArgBytes, event.rows}, {kArgChunk, event.of}},
             .path = path_of(event),
             .flows = {mixed({kFlowRecord, event.stream, event.of, event.lane})}});
      case TraceKind::kCompute: {
        const bool missed = (event.lane & kTraceMissed) != 0, rest = (event.lane & kTraceRest) != 0;
        return slice(thread_track(thread), event.begin_ns, event.end_ns,
                     {.name = missed ? kNameMissed
                              : rest ? kNameRest
                                     : kNameCompute,
                      .arguments = {{kArgChunk, event.of},
                                    {kArgRows, event.rows},
                                    {kArgRecord, event.value},
                                    {kArgFromCache, event.lane & kTraceFromCache}},
                      .flows = missed ? Links{} : Links{chunk_flow(event, event.of)},
                      .ends = missed ? Links{} : reads_of(event, event.rows)});
      }
      case TraceKind::kAway: {
        const std::string worker = name_of(event, event.lane, &TraceNames::worker);
        const std::uint64_t track =
            lane_track("worker " + (worker.empty() ? std::to_string(event.lane) : worker), event);
        at(event.begin_ns, begun(kBegin, track,
                                 {.name = kNameAway,
                                  .arguments = {{kArgChunk, event.of}, {kArgWorkerCpu, event.rows}},
                                  .flows = {chunk_flow(event, event.of)},
                                  .ends = reads_of(event, kRowsOfFlowsMax)}));
        const auto there = static_cast<std::int64_t>(event.value),
                   cpu = static_cast<std::int64_t>(event.rows);
        if (there > event.begin_ns && there <= event.end_ns)
          slice(track, std::max(event.begin_ns, there - cpu), there, {.name = kNameThere});
        return at(event.end_ns, ended(track));
      }
      case TraceKind::kFill: {
        const std::uint64_t track = slot();
        const auto ends = chunks_of(event);
        at(event.begin_ns,
           begun(kBegin, track,
                 {.name = kNameFill,
                  .arguments = {{kArgBatch, event.of}, {kArgRows, event.rows}, {kArgEpoch, event.value}}}));
        mark(track, event, {.name = kNamePublished, .flows = {batch_flow(event)}, .ends = ends});
        return at(event.end_ns, ended(track));
      }
      case TraceKind::kHold:
        return slice(slot(), event.begin_ns, event.end_ns,
                     {.name = kNameHeld, .arguments = {{kArgBatch, event.of}}});
      case TraceKind::kNext: {
        const std::uint64_t track = thread_track(thread);
        Links ends = chunks_of(event);  // of Python functions, whose slots are not traced
        ends.push_back(batch_flow(event));
        at(event.begin_ns,
           begun(kBegin, track,
                 {.name = kNameNext,
                  .arguments = {{kArgBatch, event.of}, {kArgRows, event.rows}, {kArgEpoch, event.value}}}));
        mark(track, event, {.name = kNameTook, .ends = std::move(ends)});
        at(event.end_ns, ended(track));
        const auto published = published_.find({event.stream, event.of});
        if (published == published_.end() || published->second > event.end_ns) return;
        TraceEvent ready = event;
        ready.begin_ns = published->second;
        return slice(lane_track("slot " + std::to_string(event.lane), ready), ready.begin_ns, ready.end_ns,
                     {.name = kNameReady, .arguments = {{kArgBatch, event.of}}});
      }
      case TraceKind::kTrainer:
        return slice(thread_track(thread), event.begin_ns, event.end_ns,
                     {.name = kNameTrainer, .arguments = {{kArgBatch, event.of}}});
      case TraceKind::kCall:
        return slice(lane_track("function process " + std::to_string(event.lane), event), event.begin_ns,
                     event.end_ns,
                     {.name = kNameCall,
                      .arguments = {{kArgChunk, event.of}, {kArgRows, event.rows}, {kArgEpoch, event.value}},
                      .flows = {chunk_flow(event, event.of)}});
      case TraceKind::kBroken:
        return at(
            event.begin_ns,
            begun(kInstant, thread_track(thread),
                  {.name = kNameBroken, .arguments = {{kArgRecord, event.value}}, .path = path_of(event)}));
      case TraceKind::kFigures:
        count(event, "ready slots", event.of);
        count(event, "read buffers", event.step, true);
        count(event, "reads under way", event.rows);
        return count(event, "chunks computed at once", event.value);
      case TraceKind::kClocks:
        return write_clocks(event);
    }
  }

  void write_clocks(const TraceEvent& event) {
    Message packet, snapshot;
    const std::pair<std::uint64_t, std::uint64_t> clocks[] = {
        {kBoottime, event.of}, {kMonotonic, event.step}, {kRealtime, event.value}};
    for (const auto& [id, time] : clocks) {
      Message clock;
      clock.number(1, id);
      clock.number(2, time);
      snapshot.message(1, clock);
    }
    packet.message(packet::kClockSnapshot, snapshot);
    add(std::move(packet));
  }

  const PerfettoOptions& options_;
  const std::uint64_t process_ = trace_stream(0) | 1;  // the track of this process
  const std::uint64_t sequence_ = (static_cast<std::uint64_t>(getpid()) & 0x7fffffff) + 1;
  std::uint64_t dropped_ = 0;
  std::map<std::uint64_t, const TraceNames*> names_;
  std::vector<std::pair<TraceEvent, const ThreadEvents*>> events_;  // by time
  std::vector<std::uint64_t> streams_;                              // as they appear
  std::set<std::uint64_t> reads_;
  std::map<std::pair<std::uint64_t, std::uint64_t>, std::set<std::uint64_t>> chunks_;
  std::map<std::pair<std::uint64_t, std::uint64_t>, std::int64_t> published_;
  std::set<std::uint64_t> described_;
  std::map<std::uint64_t, std::vector<std::int64_t>> lanes_;  // until when each is taken
  std::string out_;
  std::vector<Timed> timed_;
};

}  // namespace

std::string to_perfetto(const TraceRecord& record, const PerfettoOptions& options) {
  std::string written = Writer(record, options).write();
  for (PerfettoOptions fewer = options; written.size() > options.bytes_max && fewer.events_max > 1;) {
    fewer.events_max /= 2;
    written = Writer(record, fewer).write();
  }
  return written;
}

}  // namespace carya::loader
