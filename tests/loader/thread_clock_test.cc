// The times of a thread, beside others that want its core and where it sleeps.
#include "loader/engine/thread_clock.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <chrono>
#include <stop_token>
#include <thread>

namespace carya::loader {
namespace {

constexpr std::int64_t kWorkNs = 200'000'000;

/// The calling thread runs on the one core from now on, of those that it may use.
void stay_on_one_core() {
  cpu_set_t cores;
  ASSERT_EQ(sched_getaffinity(0, sizeof cores, &cores), 0);
  int core = 0;
  while (!CPU_ISSET(core, &cores)) ++core;
  CPU_ZERO(&cores);
  CPU_SET(core, &cores);
  ASSERT_EQ(sched_setaffinity(0, sizeof cores, &cores), 0);
}

void compute(std::int64_t ns) {
  const std::int64_t end_ns = thread_cpu_ns() + ns;
  while (thread_cpu_ns() < end_ns) {
  }
}

/// In a thread of its own, whose core is its own business.
template <typename Work>
ThreadTime timed(Work work) {
  ThreadTime took;
  std::thread([&] {
    stay_on_one_core();
    ThreadClock clock;
    clock.begin();
    work();
    took = clock.end(0);
  }).join();
  return took;
}

TEST(ThreadClock, AThreadWhoseCoreOthersHaveIsNotBlocked) {
  const std::jthread rival([](const std::stop_token& over) {
    stay_on_one_core();
    while (!over.stop_requested()) {
    }
  });
  const ThreadTime took = timed([] { compute(kWorkNs); });
  EXPECT_GE(took.cpu_ns, kWorkNs);
  EXPECT_GT(took.ns, kWorkNs * 5 / 4) << "the other had the core meanwhile";
  EXPECT_LT(took.blocked_ns, (took.ns - took.cpu_ns) / 4);
}

TEST(ThreadClock, AThreadThatSleepsIsBlocked) {
  const ThreadTime took = timed([] { std::this_thread::sleep_for(std::chrono::nanoseconds(kWorkNs)); });
  EXPECT_LT(took.cpu_ns, kWorkNs / 4);
  EXPECT_GE(took.blocked_ns, kWorkNs * 9 / 10);
}

TEST(ThreadClock, WhatHelpersSpentIsAdded) {
  ThreadClock clock;
  clock.begin();
  const ThreadTime took = clock.end(kWorkNs);
  EXPECT_GE(took.ns, kWorkNs);
  EXPECT_GE(took.cpu_ns, kWorkNs);
}

}  // namespace
}  // namespace carya::loader
