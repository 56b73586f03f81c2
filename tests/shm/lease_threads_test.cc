#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include "tests/shm/ring_fixture.h"

namespace carya::shm {
namespace {

/// Leases handed from the thread that takes them to those that release them.
class LeaseQueue {
 public:
  void push(Lease lease) {
    const std::lock_guard lock(mutex_);
    leases_.push_back(std::move(lease));
    changed_.notify_one();
  }
  /// An empty lease when it was closed.
  Lease pop() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return closed_ || !leases_.empty(); });
    if (leases_.empty()) return {};
    Lease lease = std::move(leases_.front());
    leases_.pop_front();
    return lease;
  }
  void close() {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Lease> leases_;
  bool closed_ = false;
};

TEST(LeaseThreads, EightThreadsReleaseWhileOneTakesAndOnePublishes) {
  constexpr std::uint64_t kBatches = 20'000;
  auto ring = make_ring({.slots = 12});
  auto [index, reader] = attach(*ring);
  LeaseQueue queue;
  std::atomic<std::uint64_t> released{0};
  std::vector<std::thread> releasers;
  for (int i = 0; i < 8; ++i) {
    releasers.emplace_back([&] {
      while (Lease lease = queue.pop()) {
        EXPECT_EQ(lease.meta()[0], lease.sequence());
        lease.release();
        released.fetch_add(1);
      }
    });
  }
  std::thread taker([&, &r = *reader] {
    for (std::uint64_t sequence = 1; sequence <= kBatches; ++sequence) {
      auto lease = r.next(60'000);
      ASSERT_TRUE(lease.has_value()) << lease.error().message;
      ASSERT_EQ(lease->sequence(), sequence);
      queue.push(std::move(*lease));
    }
    queue.close();
  });
  for (std::uint64_t sequence = 1; sequence <= kBatches;) {
    const auto slot = ring->acquire();
    if (!slot) {
      std::this_thread::yield();
      continue;
    }
    ring->publish(*slot, sequence, Meta{sequence});
    ++sequence;
  }
  taker.join();
  for (std::thread& thread : releasers) thread.join();
  EXPECT_EQ(released.load(), kBatches);
  ring->collect();
  EXPECT_EQ(ring->detach_reason(index), "") << "no release was torn, lost or doubled";
  EXPECT_EQ(ring->stats().free, ring->slots());
  EXPECT_EQ(reader->held(), 0u);
}

TEST(LeaseThreads, LeasesAreReleasedWhileReaderAndRingEnd) {
  for (int round = 0; round < 50; ++round) {
    auto ring = make_ring({.slots = 8});
    auto attached = attach(*ring);
    std::vector<std::thread> releasers;
    for (std::uint64_t i = 0; i < 8; ++i) publish_value(*ring, i, static_cast<std::uint8_t>(i));
    for (std::uint64_t i = 0; i < 8; ++i) {
      auto lease = attached.reader->next(0);
      ASSERT_TRUE(lease.has_value());
      releasers.emplace_back([i, kept = std::move(*lease)]() mutable {
        EXPECT_TRUE(all_bytes_are(small_layout(), kept.data(), static_cast<std::uint8_t>(i)));
        kept.release();
      });
    }
    attached.reader.reset();
    ring.reset();
    for (std::thread& thread : releasers) thread.join();
  }
}

/// Retired at any moment of a take: either it holds what it took, or it never saw it.
TEST(LeaseThreads, WhatIsTakenAsItsReaderIsRetiredIsHeldOrNeverSeen) {
  constexpr int kRounds = 5'000;
  auto ring = make_ring({.slots = 2, .readers = 1});
  Attached leaving;
  Result<Lease> lease = fail(Code::kTimeout, "");
  std::atomic<int> begun{0}, entered{0}, ended{0};
  std::thread taker([&] {
    for (int round = 1; round <= kRounds; ++round) {
      while (begun.load() != round) std::this_thread::yield();
      entered.store(round);
      lease = leaving.reader->next(0);
      ended.store(round);
    }
  });
  int seen = 0;
  for (int round = 1; round <= kRounds; ++round) {
    leaving = attach(*ring);
    publish_value(*ring, static_cast<std::uint64_t>(round), 1);
    begun.store(round);
    while (entered.load() != round) std::this_thread::yield();
    std::atomic<int> wait = round % 200;
    while (wait.fetch_sub(1) > 0) continue;
    ring->retire_reader(leaving.index, "closed");
    while (ended.load() != round) std::this_thread::yield();
    ring->collect();
    EXPECT_EQ(ring->held_by(leaving.index) == 1, lease.has_value()) << "round " << round;
    seen += lease ? 1 : 0;
    lease = fail(Code::kTimeout, "");
    ring->detach_reader(leaving.index, "done");
  }
  taker.join();
  RecordProperty("seen", seen);
  EXPECT_EQ(ring->stats().free, 2u);
}

}  // namespace
}  // namespace carya::shm
