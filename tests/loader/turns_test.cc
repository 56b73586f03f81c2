// Whose turn it is, by a clock that only the test moves.
#include "loader/engine/turns.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "tests/amount.h"

namespace carya::loader {
namespace {

constexpr double kUs = 1e3, kMs = 1e6, kSecond = 1e9;

/// A stream whose chunks take so long, with a spread; after each batch of chunks it has none for a while.
struct Model {
  Turn turn;
  double chunk_ns = kMs;
  double spread = 0;           ///< of a chunk: 0.5 is from half to one and a half
  std::uint64_t threads = 99;  ///< that may compute its chunks at the same time
  double idle_until_ns = 0;
  // What came of it.
  double had_ns = 0;
  std::uint64_t running = 0;
  double waits_since_ns = 0;  ///< the last turn, while it had chunks
  std::vector<double> gaps_ns{};
};

/// Threads that compute the chunks of streams, in turns.
class Host {
 public:
  Host(std::vector<Model> streams, std::size_t threads, std::uint64_t seed)
      : streams(std::move(streams)), threads_(threads), random_(seed) {
    for (const Model& stream : this->streams) turns_.add(stream.turn);
  }
  /// Until the clock says so. What had begun by then counts.
  void run(double until_ns) {
    while (now_ns < until_ns) {
      Thread& thread = *std::ranges::min_element(threads_, {}, &Thread::free_ns);
      now_ns = std::max(now_ns, thread.free_ns);
      if (thread.stream) end(thread);
      const auto at = turns_.next([&](std::size_t i) {
        return streams[i].idle_until_ns <= now_ns && streams[i].running < streams[i].threads;
      });
      if (at) {
        begin(thread, *at);
      } else {
        thread.free_ns = now_ns + 10 * kUs;
      }
    }
  }
  /// What the stream had of all that threads did.
  double share(std::size_t at) const {
    return streams[at].had_ns /
           std::accumulate(streams.begin(), streams.end(), 0.0,
                           [](double sum, const Model& one) { return sum + one.had_ns; });
  }

  std::vector<Model> streams;
  double now_ns = 0;

 private:
  struct Thread {
    std::optional<std::size_t> stream;
    double free_ns = 0, expected_ns = 0, took_ns = 0;
  };
  void begin(Thread& thread, std::size_t at) {
    Model& stream = streams[at];
    const double part = std::uniform_real_distribution<double>(-1, 1)(random_);
    thread = {at, 0, turns_.begin(at), stream.chunk_ns * (1 + stream.spread * part)};
    thread.free_ns = now_ns + thread.took_ns;
    stream.gaps_ns.push_back(now_ns - stream.waits_since_ns);
    stream.waits_since_ns = now_ns;
    ++stream.running;
  }
  void end(Thread& thread) {
    Model& stream = streams[*thread.stream];
    turns_.end(*thread.stream, thread.expected_ns, thread.took_ns);
    stream.had_ns += thread.took_ns;
    --stream.running;
    thread.stream.reset();
  }

  Turns turns_;
  std::vector<Thread> threads_;
  std::mt19937_64 random_;
};

double quantile(std::vector<double> of, double q) {
  std::ranges::sort(of);
  return of.at(static_cast<std::size_t>(q * static_cast<double>(of.size() - 1)));
}

TEST(Turns, ThreadTimeFollowsTheWeights) {
  std::mt19937_64 random(11);
  for (int trial = 0; trial < 5 / one_case_of(5); ++trial) {
    const std::size_t count = 2 + random() % (63 / static_cast<std::uint64_t>(one_case_of(4))),
                      threads = 1 + random() % 16;
    std::vector<Model> streams;
    double weights = 0;
    for (std::size_t i = 0; i < count; ++i) {
      // Small arrays beside photos beside slow functions.
      const double chunk =
          std::exp(std::uniform_real_distribution<double>(std::log(20 * kUs), std::log(5 * kMs))(random));
      streams.push_back(
          {.turn = {.weight = static_cast<double>(1 + random() % 4)}, .chunk_ns = chunk, .spread = 0.5});
      weights += streams.back().turn.weight;
    }
    const auto right = [&](std::size_t i) { return streams[i].turn.weight / weights; };
    Host host(streams, threads, trial);
    host.run(10 * kSecond);
    for (std::size_t i = 0; i < count; ++i)
      EXPECT_NEAR(host.share(i) / right(i), 1, 0.05)
          << "trial " << trial << ", stream " << i << " of " << count;
  }
}

TEST(Turns, NobodyWaitsLongerThanItsShareSays) {
  std::vector<Model> streams;
  for (int i = 0; i < 8; ++i)
    streams.push_back({.turn = {.weight = i == 0 ? 4.0 : 1.0}, .chunk_ns = kMs, .spread = 0.3});
  Host host(streams, 2, 3);
  host.run(10 * kSecond);
  for (std::size_t i = 0; i < streams.size(); ++i) {
    // With two threads and a weight of 11 in all: a chunk each 5.5 ms, the first one each 1.4 ms.
    const double even = 11 * kMs / 2 / streams[i].turn.weight;
    EXPECT_LE(quantile(host.streams[i].gaps_ns, 0.99), 2 * even) << i;
  }
}

TEST(Turns, WhoHadNothingReadyCatchesUpByLittle) {
  std::vector<Model> streams(2);
  Host host(streams, 1, 5);
  host.streams[1].idle_until_ns = 5 * kSecond;
  host.run(5 * kSecond);
  EXPECT_NEAR(host.streams[0].had_ns, 5 * kSecond, 3 * kMs) << "who is alone has all";
  EXPECT_EQ(host.streams[1].had_ns, 0);
  const double before = host.streams[0].had_ns;
  host.run(6 * kSecond);
  EXPECT_NEAR(host.streams[1].had_ns, kSecond / 2 + Turns::kCreditNs / 2, 5 * kMs);
  EXPECT_NEAR(host.streams[0].had_ns - before, kSecond / 2 - Turns::kCreditNs / 2, 5 * kMs);
}

TEST(Turns, StreamsOfOneJobShareItsPart) {
  // A job of three ranks beside a job of one: half each.
  std::vector<Model> streams(4);
  for (std::size_t i = 0; i < 3; ++i) streams[i].turn.job = 7;
  streams[3].chunk_ns = 3 * kMs;
  Host host(streams, 1, 9);
  host.run(10 * kSecond);
  EXPECT_NEAR(host.share(3), 0.5, 0.02);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_NEAR(host.share(i), 1.0 / 6, 0.01) << i;
}

TEST(Turns, AJobHasTheNewestWeight) {
  Turns turns;
  turns.add({.job = 1});
  turns.add({.job = 2});
  turns.add({.job = 1, .weight = 3});
  std::vector<double> had(3);
  for (int i = 0; i < 4000; ++i) {
    const std::size_t at = *turns.next([](std::size_t) { return true; });
    turns.end(at, turns.begin(at), kMs);
    had[at] += 1;
  }
  EXPECT_NEAR(had[1], 1000, 25);
  EXPECT_NEAR(had[0], had[2], 10);
}

/// What the first of `count` equal streams has of the threads' time, of which each chunk of its takes `blocked_ns` more
/// than the others' of a millisecond, or only the first one.
double share_of_one_that_is_blocked(std::size_t count, double blocked_ns, bool once) {
  Turns turns;
  for (std::size_t i = 0; i < count; ++i) turns.add({});
  std::vector<double> had(count);
  std::size_t chunks = 0;
  for (int i = 0; i < 10'000; ++i) {
    const std::size_t at = *turns.next([](std::size_t) { return true; });
    const double blocked = at == 0 && (!once || chunks++ == 0) ? blocked_ns : 0;
    turns.end(at, turns.begin(at), kMs, blocked);
    had[at] += kMs + (once ? 0 : blocked);
  }
  return had[0] / std::accumulate(had.begin(), had.end(), 0.0);
}

TEST(Turns, WhatBlockedAStreamOnceDoesNotKeepItWaiting) {
  EXPECT_NEAR(share_of_one_that_is_blocked(64, 400 * kMs, true), 1.0 / 64, 0.06 / 64);
}

TEST(Turns, WhatBlocksAStreamAgainAndAgainIsItsPart) {
  EXPECT_NEAR(share_of_one_that_is_blocked(10, 20 * kMs, false), 0.1, 0.005);
}

TEST(Turns, StreamsComeAndGo) {
  std::mt19937_64 random(1);
  Turns turns;
  std::vector<std::uint64_t> jobs;  // as they should be
  const auto all = [](std::size_t) { return true; };
  for (int i = 0; i < 20'000; ++i) {
    if (jobs.empty() || (jobs.size() < 40 && random() % 3 == 0)) {
      jobs.push_back(random() % 5);
      turns.add({.job = jobs.back(), .weight = 1 + static_cast<double>(random() % 3)});
    } else if (random() % 8 == 0) {
      const std::size_t gone = random() % jobs.size();
      jobs.erase(jobs.begin() + static_cast<std::ptrdiff_t>(gone));
      turns.remove(gone);
    }
    if (jobs.empty()) {
      EXPECT_FALSE(turns.next(all));
      continue;
    }
    const std::size_t only = random() % jobs.size();
    EXPECT_EQ(turns.next([&](std::size_t at) { return at == only; }), only);
    const std::size_t at = *turns.next(all);
    ASSERT_LT(at, jobs.size());
    turns.end(at, turns.begin(at), static_cast<double>(random() % 3) * kMs);
  }
}

}  // namespace
}  // namespace carya::loader
