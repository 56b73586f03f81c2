// Jobs whose work other processes do, beside streams, on a machine that is played in small steps.
#include "loader/engine/guests.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

namespace carya::loader {
namespace {

constexpr std::int64_t kUs = 1'000, kMs = 1'000'000, kSecond = 1'000'000'000, kStep = 100 * kUs;
/// How often a guest reports, and how often one that waits does.
constexpr std::int64_t kOftenNs = 8 * kMs, kWaitsNs = 3 * kMs;

struct PlayedStream {
  double weight = 1;
  double chunk_ns = kMs;
  double had_ns = 0;
  bool is_idle = false;
};

struct PlayedGuest {
  double weight = 1;
  std::uint32_t workers = 2;
  std::int64_t late_ns = 0;             ///< of one report in each second
  double computes = 1;                  ///< of the time of a worker; the rest is sleep
  std::optional<std::uint32_t> says{};  ///< that it wants; none: the workers that compute
  double had_ns = 0;
  // What it does now.
  bool waits = false;
  double unsaid_ns = 0;
  std::int64_t next_ns = 0, seconds = 0;
};

/// Engine threads and workers that share the cores evenly.
class Machine {
 public:
  Machine(std::vector<PlayedStream> streams, std::vector<PlayedGuest> guests, std::uint32_t cores)
      : streams(std::move(streams)), guests(std::move(guests)), cores_(cores), threads_(cores) {
    for (const PlayedStream& stream : this->streams) turns_.add({.weight = stream.weight});
  }

  void run(std::int64_t until_ns) {
    for (; now_ns_ < until_ns; now_ns_ += kStep) {
      for (Thread& thread : threads_) take(thread);
      for (std::size_t i = 0; i < guests.size(); ++i) report(i);
      pass();
    }
  }
  double cpu_ns() const {
    double sum = 0;
    for (const PlayedStream& one : streams) sum += one.had_ns;
    for (const PlayedGuest& one : guests) sum += one.had_ns;
    return sum;
  }

  std::vector<PlayedStream> streams;
  std::vector<PlayedGuest> guests;

 private:
  struct Thread {
    std::optional<std::size_t> stream;
    double left_ns = 0, expected_ns = 0;
    std::optional<Guests::Loan> loan;
    std::int64_t loan_ends_ns = 0;
  };
  void report(std::size_t i) {
    PlayedGuest& guest = guests[i];
    if (now_ns_ < guest.next_ns) return;
    const double computing = guest.workers * guest.computes;
    const std::uint32_t wants =
        guest.says.value_or(guest.computes > 0.5 ? guest.workers : static_cast<std::uint32_t>(computing));
    const GuestReport said{
        .weight = guest.weight, .used_ns = static_cast<std::uint64_t>(guest.unsaid_ns), .wants = wants};
    guest.unsaid_ns = 0;
    const std::size_t place = guests_.hear(i + 1, said, cores_, now_ns_);
    const auto busy =
        std::ranges::count_if(threads_, [](const Thread& one) { return one.stream || one.loan; });
    const GuestTurn turn = guests_.turn(
        place, cores_, now_ns_, [&](std::size_t) { return static_cast<std::uint32_t>(busy) == cores_; });
    guest.waits = turn.threads == 0;
    guest.next_ns = now_ns_ + (guest.waits ? kWaitsNs : kOftenNs);
    if (!guest.waits && now_ns_ / kSecond > guest.seconds) {
      guest.seconds = now_ns_ / kSecond;
      guest.next_ns += guest.late_ns;
    }
  }
  void take(Thread& thread) {
    if (thread.loan && now_ns_ >= thread.loan_ends_ns) {
      guests_.take_back(*thread.loan, Guests::kLoanNs);
      thread.loan.reset();
    }
    if (thread.loan || thread.stream || std::ranges::all_of(streams, &PlayedStream::is_idle)) return;
    const auto at = turns_.next([&](std::size_t index) {
      return index < streams.size() ? !streams[index].is_idle
                                    : guests_.borrows(index - streams.size(), now_ns_);
    });
    if (*at >= streams.size()) {
      thread.loan = guests_.lend(*at - streams.size());
      thread.loan_ends_ns = now_ns_ + Guests::kLoanNs;
      return;
    }
    thread.stream = at;
    thread.left_ns = streams[*at].chunk_ns;
    thread.expected_ns = turns_.begin(*at);
  }
  void pass() {
    double running = 0;
    for (const Thread& thread : threads_) running += thread.stream ? 1 : 0;
    for (const PlayedGuest& guest : guests) running += guest.waits ? 0 : guest.workers * guest.computes;
    const double each = running > cores_ ? kStep * cores_ / running : kStep;
    for (Thread& thread : threads_) {
      if (!thread.stream) continue;
      PlayedStream& stream = streams[*thread.stream];
      stream.had_ns += each;
      thread.left_ns -= each;
      if (thread.left_ns > 0) continue;
      turns_.end(*thread.stream, thread.expected_ns, stream.chunk_ns);
      guests_.note_others(now_ns_);
      thread.stream.reset();
    }
    for (PlayedGuest& guest : guests) {
      const double had = guest.waits ? 0 : each * guest.workers * guest.computes;
      guest.had_ns += had;
      guest.unsaid_ns += had;
    }
  }

  const std::uint32_t cores_;
  std::int64_t now_ns_ = 0;
  Turns turns_;
  Guests guests_{turns_};
  std::vector<Thread> threads_;
};

void expect_shares(const Machine& machine) {
  double weights = 0;
  for (const PlayedStream& one : machine.streams) weights += one.weight;
  for (const PlayedGuest& one : machine.guests) weights += one.weight;
  const auto expect = [&](double had_ns, double weight, const char* what, std::size_t i) {
    EXPECT_NEAR(had_ns / machine.cpu_ns() / (weight / weights), 1, 0.05) << what << ' ' << i;
  };
  for (std::size_t i = 0; i < machine.streams.size(); ++i)
    expect(machine.streams[i].had_ns, machine.streams[i].weight, "stream", i);
  for (std::size_t i = 0; i < machine.guests.size(); ++i)
    expect(machine.guests[i].had_ns, machine.guests[i].weight, "guest", i);
}

TEST(Guests, CpuTimeFollowsTheWeights) {
  for (const std::vector<double>& weights :
       std::vector<std::vector<double>>{{1}, {3}, {0.5}, {1, 2}, {0.5, 2}})
    for (const std::size_t streams : {1, 2, 6}) {
      std::vector<PlayedStream> played;
      for (std::size_t i = 0; i < streams; ++i)
        played.push_back(
            {.weight = static_cast<double>(1 + i % 2), .chunk_ns = i % 3 == 0 ? 3.0 * kMs : 0.3 * kMs});
      std::vector<PlayedGuest> guests;
      for (const double weight : weights) guests.push_back({.weight = weight});
      Machine machine(played, guests, 2);
      machine.run(10 * kSecond);
      SCOPED_TRACE(testing::Message()
                   << streams << " streams, " << weights.size() << " guests, the first of " << weights[0]);
      expect_shares(machine);
      EXPECT_GT(machine.cpu_ns(), 0.97 * 2 * 10 * kSecond) << "no core is left idle";
    }
}

TEST(Guests, ReportsThatComeLateTakeNothingFromOthers) {
  constexpr double kWeights[] = {1, 2, 3, 0.5};
  std::vector<PlayedStream> streams(12);
  for (std::size_t i = 0; i < streams.size(); ++i)
    streams[i] = {.weight = kWeights[i % 4], .chunk_ns = static_cast<double>((1 + i % 3) * kMs)};
  std::vector<PlayedGuest> guests;
  for (const double weight : kWeights) guests.push_back({.weight = weight, .late_ns = 100 * kMs});
  Machine machine(streams, guests, 2);
  machine.run(20 * kSecond);
  const double weights = 4 * (1 + 2 + 3 + 0.5);
  for (const PlayedStream& stream : machine.streams)
    EXPECT_NEAR(stream.had_ns / machine.cpu_ns() / (stream.weight / weights), 1, 0.05) << stream.weight;
}

TEST(Guests, AloneTheyShareAmongThemselves) {
  Machine machine({}, {{.weight = 1}, {.weight = 3}}, 2);
  machine.run(10 * kSecond);
  expect_shares(machine);
}

TEST(Guests, WhatNobodyWantedIsNoDebt) {
  Machine machine({{}}, {{}}, 2);
  machine.streams[0].is_idle = true;
  machine.run(5 * kSecond);
  EXPECT_NEAR(machine.guests[0].had_ns, 2 * 5 * kSecond, 0.1 * kSecond) << "alone it has all";
  machine.streams[0].is_idle = false;
  machine.run(7 * kSecond);
  EXPECT_NEAR(machine.guests[0].had_ns, (10 + 2) * kSecond, 0.2 * kSecond) << "then half";
}

TEST(Guests, WhoSleepsKeepsNoCoreFromOthers) {
  Machine machine({{}}, {{.workers = 8, .computes = 0.05}}, 2);
  machine.run(10 * kSecond);
  // 0.4 cores beside two threads on two cores.
  EXPECT_NEAR(machine.guests[0].had_ns, 0.4 / 2.4 * 2 * 10 * kSecond, 0.02 * kSecond)
      << "it never waits for a turn";
  EXPECT_GT(machine.cpu_ns(), 0.95 * 2 * 10 * kSecond);
}

TEST(Guests, WhoWantsAllAndUsesNothingStarvesNobody) {
  // It is taken to use a quarter of two cores: the others have what its weight leaves.
  Machine machine({{}}, {{.weight = 1, .computes = 0, .says = kThreadsMax}, {.weight = 1}}, 2);
  machine.run(10 * kSecond);
  EXPECT_GT(machine.guests[1].had_ns, 0.25 * 2 * 10 * kSecond);
  EXPECT_GT(machine.streams[0].had_ns, 0.25 * 2 * 10 * kSecond);
  Machine two({}, {{.weight = 1, .computes = 0, .says = kThreadsMax}, {.weight = 1}}, 2);
  two.run(10 * kSecond);
  EXPECT_GT(two.guests[1].had_ns, 0.2 * 2 * 10 * kSecond);
}

TEST(Guests, NobodyUsesMoreThanThereIs) {
  // One that says so would be ahead of all for ever, and what is due to the others would be as far.
  Machine machine({{}}, {{}, {}}, 2);
  machine.run(kSecond);
  machine.guests[0].unsaid_ns = 1e18;
  machine.run(11 * kSecond);
  expect_shares(machine);
}

TEST(Guests, WhoIsSilentOrHasLeftIsForgotten) {
  Turns turns;
  Guests guests(turns);
  const auto none = [](std::size_t) { return false; };
  const GuestReport greedy{.used_ns = 50 * kMs, .wants = 2};
  constexpr std::int64_t kBegin = kSecond, later = kBegin + kMs + Guests::kSilentNs;
  EXPECT_TRUE(guests.turn(guests.hear(1, greedy, 2, kBegin), 2, kBegin, none).alone);
  static_cast<void>(guests.hear(2, {.wants = 2}, 2, kBegin));
  EXPECT_EQ(guests.turn(guests.hear(1, greedy, 2, kBegin + kMs), 2, kBegin + kMs, none).threads, 0u)
      << "the second one had nothing yet";
  const GuestTurn turn = guests.turn(guests.hear(1, greedy, 2, later), 2, later, none);
  EXPECT_TRUE(turn.alone);
  EXPECT_EQ(turn.threads, kThreadsMax);
  static_cast<void>(guests.hear(2, {.wants = 2}, 2, later));
  EXPECT_FALSE(guests.turn(guests.hear(1, greedy, 2, later), 2, later, none).alone);
  const Guests::Loan loan = guests.lend(1);
  guests.leave(2);
  guests.take_back(loan, kMs);  // its guest has gone
  EXPECT_TRUE(guests.turn(guests.hear(1, greedy, 2, later), 2, later, none).alone);
  guests.leave(1);
  guests.leave(1);
  EXPECT_TRUE(guests.empty());
  EXPECT_EQ(turns.size(), 0u);
}

}  // namespace
}  // namespace carya::loader
