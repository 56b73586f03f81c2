#include "loader/trace/trace.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "loader/trace/perfetto.h"

namespace carya::loader {
namespace {

/// Numbers that belong together, so that an event of two halves shows.
void note(std::uint64_t at) {
  if (trace_on())
    trace_note({.kind = TraceKind::kRead,
                .stream = at,
                .begin_ns = static_cast<std::int64_t>(at),
                .end_ns = static_cast<std::int64_t>(at),
                .of = at,
                .step = at,
                .rows = at,
                .value = at});
}

bool is_whole(const TraceEvent& event) {
  const auto at = static_cast<std::uint64_t>(event.begin_ns);
  return event.kind == TraceKind::kRead && event.stream == at && event.of == at && event.step == at &&
         event.rows == at && event.value == at && event.end_ns == event.begin_ns;
}

std::vector<TraceEvent> reads_of(const ThreadEvents& thread) {
  std::vector<TraceEvent> reads;
  std::ranges::copy_if(thread.events, std::back_inserter(reads),
                       [](const TraceEvent& event) { return event.kind != TraceKind::kClocks; });
  return reads;
}

TEST(Trace, IsOffUntilItIsStarted) {
  EXPECT_FALSE(trace_on());
  EXPECT_EQ(stop_trace().error().code, Code::kClosed);
  EXPECT_EQ(start_trace({.thread_events = 0}).error().code, Code::kInvalidArgument);
  EXPECT_EQ(start_trace({.thread_events = kTraceThreadEventsMax + 1}).error().code, Code::kInvalidArgument);
  EXPECT_FALSE(trace_on());
}

TEST(Trace, KeepsTheNewestEventsOfEachThreadAndCountsTheRest) {
  ASSERT_TRUE(start_trace({.thread_events = 60}));  // rounded up to 64
  std::thread other([] {
    for (std::uint64_t at = 0; at < 10; ++at) note(at);
  });
  other.join();
  for (std::uint64_t at = 0; at < 1000; ++at) note(at);
  const auto record = stop_trace();
  ASSERT_TRUE(record);
  ASSERT_EQ(record->threads.size(), 2U);
  for (const ThreadEvents& thread : record->threads) {
    const std::vector<TraceEvent> reads = reads_of(thread);
    EXPECT_TRUE(std::ranges::all_of(reads, is_whole));
    if (thread.thread == static_cast<std::uint64_t>(gettid())) {
      EXPECT_GE(thread.events.size(), 63U);
      EXPECT_LE(thread.events.size(), 64U);
      EXPECT_EQ(thread.dropped + thread.events.size(), 1002U);  // and the clocks, twice
      EXPECT_EQ(reads.back().of, 999U);
    } else {
      EXPECT_EQ(reads.size(), 10U);
      EXPECT_EQ(thread.dropped, 0U);
    }
  }
}

TEST(Trace, EventsThatAreTakenWhileOthersAreWrittenAreWhole) {
  std::atomic<bool> over{false};
  std::vector<std::thread> writers;
  for (int i = 0; i < 3; ++i)
    writers.emplace_back([&] {
      for (std::uint64_t at = 0; !over; ++at) note(at);
    });
  for (int i = 0; i < 200; ++i) {
    ASSERT_TRUE(start_trace({.thread_events = std::size_t{1} << (i % 10)}));
    std::this_thread::yield();
    const auto record = stop_trace();
    ASSERT_TRUE(record);
    for (const ThreadEvents& thread : record->threads) {
      const std::vector<TraceEvent> reads = reads_of(thread);
      EXPECT_TRUE(std::ranges::all_of(reads, is_whole));
      EXPECT_TRUE(std::ranges::is_sorted(reads, {}, &TraceEvent::of));
    }
  }
  over = true;
  for (std::thread& writer : writers) writer.join();
}

TEST(Trace, AnotherStartTakesOver) {
  const auto first = start_trace({});
  note(1);
  const auto second = start_trace({});
  ASSERT_TRUE(first && second);
  EXPECT_NE(*first, *second);
  note(2);
  EXPECT_EQ(stop_trace(*first).error().code, Code::kClosed);
  const auto record = stop_trace(*second);
  ASSERT_TRUE(record);
  ASSERT_EQ(record->threads.size(), 1U);
  const std::vector<TraceEvent> reads = reads_of(record->threads.front());
  ASSERT_EQ(reads.size(), 1U);
  EXPECT_EQ(reads.front().of, 2U);
}

TEST(Trace, AForkedChildIsNotTracedAndMayTraceItself) {
  ASSERT_TRUE(start_trace({}));
  note(1);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    bool fine = !trace_on() && start_trace({});
    note(7);
    const auto record = stop_trace();
    fine = fine && record && record->threads.size() == 1 && reads_of(record->threads.front()).size() == 1;
    _exit(fine ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(stop_trace());
}

TEST(Trace, NamesAreAskedForWhenItIsWritten) {
  ASSERT_TRUE(start_trace({}));
  trace_names(
      5, {.record = [](std::uint64_t record) { return "name of " + std::to_string(record) + "\x1b\xff"; },
          .worker = {}});
  trace_note({.kind = TraceKind::kRead, .stream = 5, .begin_ns = 10, .end_ns = 20, .value = 3});
  const auto record = stop_trace();
  ASSERT_TRUE(record);
  const std::string bytes = to_perfetto(*record, {});
  EXPECT_NE(bytes.find("name of 3\\x1b\\xff"), std::string::npos);
  EXPECT_EQ(bytes.find("3\x1b"), std::string::npos);
}

TEST(Trace, OnlyTheStreamsAndTheNewestEventsThatAreWanted) {
  ASSERT_TRUE(start_trace({}));
  for (std::uint64_t stream = 1; stream <= 2; ++stream)
    for (std::int64_t at = 1; at <= 100; ++at)
      trace_note({.kind = TraceKind::kBroken, .stream = stream, .begin_ns = at});
  const auto record = stop_trace();
  ASSERT_TRUE(record);
  const std::size_t all = to_perfetto(*record, {}).size();
  const std::size_t half = to_perfetto(*record, {.only = {2}}).size();
  EXPECT_LT(half, all * 2 / 3);
  EXPECT_GT(half, all / 3);
  const std::string few = to_perfetto(*record, {.events_max = 4});
  EXPECT_NE(few.find("(198 older events were dropped)"), std::string::npos);
}

}  // namespace
}  // namespace carya::loader
