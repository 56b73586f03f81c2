#include "loader/read/read_buffer.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <thread>

#include "shm/memory_limit.h"

namespace carya::loader {
namespace {

constexpr std::uint64_t kMiB = 1 << 20;

TEST(ReadBufferPool, HasRoomWhileMemoryIsLeftForTheRest) {
  std::uint64_t asked = 0;
  ReadBufferPool pool(64 * kMiB, [&] {
    ++asked;
    return shm::kSpareBytes / 2 + 4 * kMiB;
  });
  EXPECT_TRUE(pool.has_room(4 * kMiB));
  EXPECT_FALSE(pool.has_room(5 * kMiB));
  EXPECT_GE(asked, 1u);
}

TEST(ReadBufferPool, HasNoRoomInFullMemory) {
  for (const std::uint64_t available : {std::uint64_t{0}, shm::kSpareBytes / 2}) {
    ReadBufferPool pool(64 * kMiB, [&] { return available; });
    EXPECT_FALSE(pool.has_room(1)) << available;
  }
}

TEST(ReadBufferPool, WhatWasTakenIsNoRoomAnyMore) {
  // What the system says does not change: memory counts there when it is first written to.
  ReadBufferPool pool(64 * kMiB, [] { return shm::kSpareBytes / 2 + 4 * kMiB; });
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(pool.has_room(4 * kMiB));
    const ReadBuffer buffer = pool.take(3 * kMiB);
    ASSERT_TRUE(buffer.memory);
    if (!pool.has_room(2 * kMiB)) return;  // unless the system was asked again in between
  }
  FAIL() << "what was taken never counted";
}

TEST(ReadBufferPool, ABufferThatIsKeptNeedsNoRoom) {
  ReadBufferPool pool(64 * kMiB, [] { return std::uint64_t{0}; });
  ReadBuffer buffer = pool.take(2 * kMiB);  // the first is always to be had
  const std::byte* const memory = buffer.data();
  pool.give(std::move(buffer));
  EXPECT_TRUE(pool.has_room(2 * kMiB));
  EXPECT_FALSE(pool.has_room(3 * kMiB));
  EXPECT_EQ(pool.take(2 * kMiB).data(), memory);
  EXPECT_FALSE(pool.has_room(2 * kMiB)) << "it is in use";
}

TEST(ReadBufferPool, MemoryThatIsLentIsNotGivenAgain) {
  EXPECT_FALSE(ReadBuffer{}.lend()) << "a chunk without reads has none";
  ReadBufferPool pool(64 * kMiB);
  ReadBuffer buffer = pool.take(2 * kMiB);
  const std::byte* const memory = buffer.data();
  auto loan = buffer.lend();
  pool.give(buffer);
  EXPECT_NE(pool.take(2 * kMiB).data(), memory);
  loan.reset();
  pool.give(std::move(buffer));
  EXPECT_EQ(pool.take(2 * kMiB).data(), memory);
}

// The thread sanitizer sees whether the pool orders the reader's last look before the next user's write: nothing else
// here does, since the flag is relaxed.
TEST(ReadBufferPool, AReadersLastLookIsBeforeTheNextWrite) {
  ReadBufferPool pool(64 * kMiB);
  ReadBuffer buffer = pool.take(2 * kMiB);
  std::memset(buffer.data(), 7, 64);
  std::atomic<bool> is_back{false};
  int seen = 0;
  std::thread reader([loan = buffer.lend(), start = buffer.data(), &is_back, &seen]() mutable {
    seen = static_cast<int>(start[0]);
    loan.reset();
    is_back.store(true, std::memory_order_relaxed);
  });
  while (!is_back.load(std::memory_order_relaxed)) std::this_thread::yield();
  pool.give(std::move(buffer));
  const ReadBuffer next = pool.take(2 * kMiB);
  std::memset(next.data(), 9, 64);
  reader.join();
  EXPECT_EQ(seen, 7);
}

}  // namespace
}  // namespace carya::loader
