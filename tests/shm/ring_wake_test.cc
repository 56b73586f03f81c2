#include <gtest/gtest.h>

#include <chrono>
#include <span>
#include <thread>
#include <vector>

#include "shm/futex.h"
#include "shm/region.h"
#include "shm/ring_format.h"
#include "tests/shm/ring_fixture.h"

// RingReader::next looks up every 200 ms of its own accord, which would hide a lost wake-up: these tests
// sleep on the ring's own words, for long.

namespace carya::shm {
namespace {

constexpr int kLongMs = 30'000;

/// A reader's words, mapped as a reader maps them.
struct Words {
  Words(const SlotRing::ReaderFds& fds, std::uint32_t reader)
      : control(*Region::map(fds.control, format::kControlBytes, Region::Access::kReadOnly)),
        page(*Region::map(fds.page, format::kPageBytes, Region::Access::kReadWrite)),
        entry(reinterpret_cast<const format::ReaderEntry*>(control.data() + format::kReadersOffset)[reader]),
        own(*reinterpret_cast<format::ReaderPage*>(page.data())) {}

  Region control, page;
  const format::ReaderEntry& entry;
  format::ReaderPage& own;
};

/// How sleeps on the readers' futexes end when `change` is done to the ring meanwhile.
template <typename Change>
std::vector<FutexWait> sleep_while(std::span<Words> readers, Change change) {
  std::vector<FutexWait> results(readers.size(), FutexWait::kTimeout);
  std::vector<std::thread> sleepers;
  for (std::size_t i = 0; i < readers.size(); ++i) {
    const std::uint32_t seen = readers[i].entry.wake_word.load();
    readers[i].own.waiting.store(1);
    sleepers.emplace_back(
        [&, i, seen] { results[i] = futex_wait(readers[i].entry.wake_word, seen, kLongMs); });
  }
  std::this_thread::sleep_for(
      std::chrono::milliseconds(100));  // asleep by now; if not, they wake all the same
  change();
  for (std::thread& sleeper : sleepers) sleeper.join();
  return results;
}

template <typename Change>
FutexWait sleep_while(Words& words, Change change) {
  return sleep_while({&words, 1}, change).front();
}

TEST(RingWake, PublicationDetachAndEndWakeASleeper) {
  auto ring = make_ring({.slots = 2, .readers = 2});
  const auto first = ring->attach_reader();
  const auto second = ring->attach_reader();
  Words words(ring->reader_fds(*first), *first);
  Words other(ring->reader_fds(*second), *second);
  EXPECT_EQ(sleep_while(words, [&] { publish_value(*ring, 1, 1); }), FutexWait::kWoken);
  EXPECT_EQ(words.entry.tail.load(), 1u);
  EXPECT_EQ(sleep_while(words, [&] { ring->detach_reader(*first, "enough"); }), FutexWait::kWoken);
  EXPECT_EQ(words.entry.attach_id.load(), 0u);
  EXPECT_EQ(sleep_while(other, [&] { ring.reset(); }), FutexWait::kWoken);
}

TEST(RingWake, OnePublicationWakesAllWhoSleep) {
  auto ring = make_ring({.slots = 2, .readers = 4});
  std::vector<Words> readers;
  for (std::uint32_t i = 0; i < 4; ++i) readers.emplace_back(ring->reader_fds(*ring->attach_reader()), i);
  const std::vector<FutexWait> all(4, FutexWait::kWoken);
  EXPECT_EQ(sleep_while(readers, [&] { publish_value(*ring, 1, 1); }), all);
  EXPECT_EQ(sleep_while(readers, [&] { ring.reset(); }), all);
}

TEST(RingWake, AReadersSleepIsCounted) {
  auto ring = make_ring({.slots = 2});
  const auto index = ring->attach_reader();
  const auto reader = RingReader::attach(ring->reader_fds(*index), *index);
  EXPECT_EQ(ring->waited_ns(*index), 0u);
  EXPECT_FALSE((*reader)->next(30));
  const std::uint64_t waited_ns = ring->waited_ns(*index);
  EXPECT_GE(waited_ns, 29'000'000u);
  publish_value(*ring, 1, 1);
  EXPECT_TRUE((*reader)->next(kLongMs));
  EXPECT_EQ(ring->waited_ns(*index), waited_ns);  // it was there: nobody slept
  Words words(ring->reader_fds(*index), *index);
  words.own.waited_ns.store(UINT64_MAX);  // a lie is shown, and harms nothing
  EXPECT_EQ(ring->waited_ns(*index), UINT64_MAX);
}

TEST(RingWake, TheLeastSleepIsThatOfAttachedReaders) {
  auto ring = make_ring({.slots = 2, .readers = 3});
  EXPECT_EQ(ring->least_waited_ns(), 0u);
  const auto first = ring->attach_reader();
  const auto second = ring->attach_reader();
  Words(ring->reader_fds(*first), *first).own.waited_ns.store(7);
  Words(ring->reader_fds(*second), *second).own.waited_ns.store(5);
  EXPECT_EQ(ring->least_waited_ns(), 5u);
  ring->detach_reader(*second, "enough");
  EXPECT_EQ(ring->least_waited_ns(), 7u);
}

TEST(RingWake, EachPublicationChangesTheWord) {
  auto ring = make_ring({.slots = 2});
  const auto index = ring->attach_reader();
  const Words words(ring->reader_fds(*index), *index);
  const std::uint32_t before = words.entry.wake_word.load();
  publish_value(*ring, 1, 1);
  EXPECT_NE(words.entry.wake_word.load(), before);
  EXPECT_EQ(futex_wait(words.entry.wake_word, before, kLongMs), FutexWait::kWoken) << "does not fall asleep";
}

}  // namespace
}  // namespace carya::shm
