#include "shm/slot_ring.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/stat.h>

#include <chrono>
#include <thread>

#include "shm/region.h"
#include "shm/ring_format.h"
#include "tests/shm/ring_fixture.h"

namespace carya::shm {
namespace {

TEST(SlotRing, DeliversInOrderOfPublicationWithMetaAndBytes) {
  auto ring = make_ring();
  auto [index, reader] = attach(*ring);
  for (std::uint8_t i = 0; i < 4; ++i) publish_value(*ring, 100 + i, i);
  for (std::uint8_t i = 0; i < 4; ++i) {
    EXPECT_EQ(reader->pending(), 4u - i);
    auto lease = reader->next(0);
    ASSERT_TRUE(lease.has_value()) << lease.error().message;
    EXPECT_EQ(lease->sequence(), 100u + i);
    EXPECT_EQ(lease->meta()[1], i);
    EXPECT_TRUE(all_bytes_are(reader->layout(), lease->data(), i));
  }
}

TEST(SlotRing, NothingReadyTimesOut) {
  auto ring = make_ring();
  auto [index, reader] = attach(*ring);
  EXPECT_EQ(reader->next(0).error().code, Code::kTimeout);
  EXPECT_EQ(reader->next(5).error().code, Code::kTimeout);
  EXPECT_EQ(reader->next(-1).error().code, Code::kTimeout);
}

TEST(SlotRing, AcquireHasNoneWhenFullAndOneAfterARelease) {
  auto ring = make_ring({.slots = 2});
  auto [index, reader] = attach(*ring);
  publish_value(*ring, 1, 1);
  publish_value(*ring, 2, 2);
  EXPECT_FALSE(ring->acquire().has_value());
  auto lease = reader->next(0);
  ASSERT_TRUE(lease.has_value());
  EXPECT_FALSE(ring->acquire().has_value());
  const std::uint32_t slot = lease->slot();
  lease->release();
  lease->release();  // once is enough, twice is harmless
  EXPECT_EQ(ring->acquire(), slot);
}

std::uint64_t allocated_bytes(const SlotRing& ring) {
  std::uint64_t bytes = 0;
  for (const int fd : ring.reader_fds(0).slots) {
    struct stat info{};
    EXPECT_EQ(fstat(fd, &info), 0);
    bytes += static_cast<std::uint64_t>(info.st_blocks) * 512;
  }
  return bytes;
}

TEST(SlotRing, UnderALimitSlotsGiveTheirMemoryBackAndTakeItAgain) {
  auto ring = make_ring({.slots = 8});
  auto [index, reader] = attach(*ring);
  const std::uint64_t all = allocated_bytes(*ring);
  EXPECT_EQ(ring->stats().bytes, all);
  ring->set_limit(2);
  EXPECT_EQ(allocated_bytes(*ring), all / 4);
  EXPECT_EQ(ring->stats().bytes, all / 4);
  publish_value(*ring, 1, 1);
  publish_value(*ring, 2, 2);
  EXPECT_FALSE(ring->acquire()) << "two lie ready";
  std::vector<Lease> held;
  for (std::uint8_t i = 1; i <= 6; ++i) {  // what is held does not count, and costs memory
    held.push_back(std::move(*reader->next(0)));
    if (i < 5) publish_value(*ring, i + 2u, static_cast<std::uint8_t>(i + 2));
  }
  EXPECT_EQ(allocated_bytes(*ring), all * 6 / 8);
  for (std::uint8_t i = 1; i <= 6; ++i)
    EXPECT_TRUE(all_bytes_are(reader->layout(), held[i - 1u].data(), i)) << int{i};
  held.clear();
  ring->set_limit(2);
  EXPECT_EQ(allocated_bytes(*ring), all / 4);
  ring->set_limit(8);
  for (std::uint8_t i = 1; i <= 8; ++i) publish_value(*ring, 10u + i, i);
  EXPECT_EQ(allocated_bytes(*ring), all);
  for (std::uint8_t i = 1; i <= 8; ++i) {
    const auto lease = reader->next(0);
    ASSERT_TRUE(lease) << int{i};
    EXPECT_TRUE(all_bytes_are(reader->layout(), lease->data(), i)) << int{i};
  }
}

TEST(SlotRing, SlotsThatReadersMayNotWriteKeepTheirMemoryUnderALimit) {
  auto ring = make_ring({.slots = 4, .readers_may_write = false});
  auto [index, reader] = attach(*ring);
  const std::uint64_t all = allocated_bytes(*ring);
  ring->set_limit(2);
  EXPECT_EQ(allocated_bytes(*ring), all);
  publish_value(*ring, 1, 1);
  publish_value(*ring, 2, 2);
  EXPECT_FALSE(ring->acquire());
}

TEST(SlotRing, AbandonedSlotIsNeverSeen) {
  auto ring = make_ring({.slots = 1});
  auto [index, reader] = attach(*ring);
  const auto slot = ring->acquire();
  ASSERT_TRUE(slot.has_value());
  EXPECT_EQ(ring->stats().filling, 1u);
  ring->abandon(*slot);
  EXPECT_EQ(ring->stats().free, 1u);
  EXPECT_EQ(reader->next(0).error().code, Code::kTimeout);
}

TEST(SlotRing, SlotIsFreeOnlyWhenAllItsReadersReleased) {
  auto ring = make_ring({.slots = 1, .readers = 3});
  auto first = attach(*ring);
  auto second = attach(*ring);
  auto third = attach(*ring);
  publish_value(*ring, 1, 7, 1u << first.index | 1u << second.index);
  EXPECT_EQ(third.reader->next(0).error().code, Code::kTimeout);
  auto a = first.reader->next(0);
  auto b = second.reader->next(0);
  ASSERT_TRUE(a && b);
  a->release();
  EXPECT_EQ(ring->collect(), 0u);
  EXPECT_FALSE(ring->acquire().has_value());
  b->release();
  EXPECT_EQ(ring->collect(), 1u);
  EXPECT_TRUE(ring->acquire().has_value());
}

TEST(SlotRing, PublishedToNobodyIsFreeAgain) {
  auto ring = make_ring({.slots = 1});
  publish_value(*ring, 1, 1);
  EXPECT_EQ(ring->stats().free, 1u);
}

TEST(SlotRing, CountsPendingAndHeld) {
  auto ring = make_ring({.slots = 3});
  auto [index, reader] = attach(*ring);
  publish_value(*ring, 1, 1);
  publish_value(*ring, 2, 2);
  EXPECT_EQ(ring->stats().ready, 2u);
  auto lease = reader->next(0);
  ASSERT_TRUE(lease.has_value());
  const SlotRingStats stats = ring->stats();
  EXPECT_EQ(stats.ready, 1u);
  EXPECT_EQ(stats.held, 1u);
  EXPECT_EQ(stats.free, 1u);
  EXPECT_EQ(stats.bytes, 3 * ring->layout().slot_bytes());
  EXPECT_LE(stats.huge_bytes, stats.bytes);
  EXPECT_EQ(ring->held_by(index), 1u);
  EXPECT_EQ(reader->held(), 1u);
  lease->release();
  EXPECT_EQ(ring->held_by(index), 0u) << "also before it is collected";
  EXPECT_EQ(reader->held(), 0u);
}

TEST(SlotRing, DetachTakesLeasesAndPendingBack) {
  auto ring = make_ring({.slots = 2});
  auto [index, reader] = attach(*ring);
  publish_value(*ring, 1, 1);
  publish_value(*ring, 2, 2);
  auto lease = reader->next(0);
  ASSERT_TRUE(lease.has_value());
  EXPECT_EQ(ring->detach_reason(index), "");
  ring->detach_reader(index, "hung up");
  EXPECT_EQ(ring->detach_reason(index), "hung up");
  EXPECT_EQ(ring->stats().free, 2u);
  EXPECT_EQ(reader->next(0).error().code, Code::kClosed);
  lease->release();  // into a page nobody reads any more
  EXPECT_EQ(ring->collect(), 0u);
}

TEST(SlotRing, AReusedReaderIndexIsNotTroubledByItsPredecessor) {
  auto ring = make_ring({.slots = 2});
  auto old = attach(*ring);
  publish_value(*ring, 1, 1);
  auto stale = old.reader->next(0);
  ASSERT_TRUE(stale.has_value());
  ring->detach_reader(old.index, "hung up");
  auto fresh = attach(*ring);
  ASSERT_EQ(fresh.index, old.index);
  publish_value(*ring, 2, 2);
  auto lease = fresh.reader->next(0);
  ASSERT_TRUE(lease.has_value());
  stale->release();
  ring->collect();
  EXPECT_EQ(old.reader->next(0).error().code, Code::kClosed);
  EXPECT_EQ(ring->detach_reason(fresh.index), "");
  EXPECT_EQ(ring->held_by(fresh.index), 1u);
  EXPECT_EQ(lease->sequence(), 2u);
}

TEST(SlotRing, ALateReaderGetsWhatIsPublishedAfterIt) {
  auto ring = make_ring({.slots = 3, .readers = 2});
  auto early = attach(*ring);
  publish_value(*ring, 1, 1);
  auto late = attach(*ring);
  publish_value(*ring, 2, 2);
  EXPECT_EQ(early.reader->next(0)->sequence(), 1u);
  EXPECT_EQ(late.reader->next(0)->sequence(), 2u);
}

TEST(SlotRing, ReadersAreBounded) {
  auto ring = make_ring({.readers = 1});
  EXPECT_TRUE(ring->attach_reader().has_value());
  EXPECT_EQ(ring->attach_reader().error().code, Code::kExhausted);
}

TEST(SlotRing, OneReaderPerAttachment) {
  auto ring = make_ring();
  auto [index, reader] = attach(*ring);
  EXPECT_EQ(RingReader::attach(ring->reader_fds(index), index).error().code, Code::kInvalidArgument);
}

TEST(SlotRing, BadOptionsAreRefused) {
  const SlotLayout layout = small_layout();
  EXPECT_EQ(SlotRing::create(layout, {.slots = 0}).error().code, Code::kInvalidArgument);
  EXPECT_EQ(SlotRing::create(layout, {.slots = 257}).error().code, Code::kInvalidArgument);
  EXPECT_EQ(SlotRing::create(layout, {.readers = 0}).error().code, Code::kInvalidArgument);
  EXPECT_EQ(SlotRing::create(layout, {.readers = 33}).error().code, Code::kInvalidArgument);
}

TEST(SlotRing, TooMuchMemoryIsAnErrorAtCreationWithTheNumbers) {
  auto layout = SlotLayout::create({SlotTensor{"image", DType::kUint8, {1ull << 46}, 0}});
  ASSERT_TRUE(layout.has_value());
  const auto ring = SlotRing::create(*layout, {.slots = 2});
  ASSERT_FALSE(ring.has_value());
  EXPECT_EQ(ring.error().code, Code::kExhausted);
  EXPECT_NE(ring.error().message.find("slots: 2 of 64.0 TiB want 128 TiB: "), std::string::npos)
      << ring.error().message;
  EXPECT_NE(ring.error().message.find("; give a smaller batch or image, or fewer slots="), std::string::npos);
}

TEST(SlotRing, HugePagesOfThePoolWorkOrSayThatThereAreNone) {
  const auto ring = SlotRing::create(small_layout(), {.slots = 2, .hugetlb = true});
  if (ring) {
    EXPECT_EQ((*ring)->stats().huge_bytes, (*ring)->stats().bytes);
    auto [index, reader] = attach(**ring);
    publish_value(**ring, 1, 9);
    EXPECT_TRUE(all_bytes_are(reader->layout(), reader->next(0)->data(), 9));
  } else {
    EXPECT_TRUE(ring.error().code == Code::kExhausted || ring.error().code == Code::kUnsupported);
  }
}

TEST(SlotRing, ALeaseOutlivesReaderAndRing) {
  auto ring = make_ring();
  auto attached = attach(*ring);
  publish_value(*ring, 1, 42);
  auto lease = attached.reader->next(0);
  ASSERT_TRUE(lease.has_value());
  Lease kept = std::move(*lease);
  attached.reader.reset();
  ring.reset();
  EXPECT_TRUE(all_bytes_are(small_layout(), kept.data(), 42));
  kept.release();
  EXPECT_FALSE(kept);
}

TEST(SlotRing, TheEndOfTheRingClosesItsReadersAfterWhatItPublished) {
  auto ring = make_ring();
  auto [index, reader] = attach(*ring);
  publish_value(*ring, 1, 6);
  ring.reset();
  auto last = reader->next(120'000);
  ASSERT_TRUE(last.has_value());
  EXPECT_TRUE(all_bytes_are(reader->layout(), last->data(), 6));
  EXPECT_EQ(reader->next(120'000).error().code, Code::kClosed);
}

TEST(SlotRing, MovedLeasesReleaseOnce) {
  auto ring = make_ring({.slots = 2});
  auto [index, reader] = attach(*ring);
  publish_value(*ring, 1, 1);
  publish_value(*ring, 2, 2);
  Lease a = std::move(*reader->next(0));
  Lease b = std::move(*reader->next(0));
  a = std::move(b);  // releases the first
  EXPECT_FALSE(b);
  EXPECT_EQ(a.sequence(), 2u);
  EXPECT_EQ(ring->collect(), 1u);
  a.release();
  EXPECT_EQ(ring->collect(), 1u);
  EXPECT_EQ(ring->detach_reason(index), "");
}

TEST(SlotRing, AWaitingReaderIsWokenByAPublication) {
  auto ring = make_ring();
  auto [index, reader] = attach(*ring);
  std::thread waiter([&r = *reader] {
    auto lease = r.next(60'000);
    ASSERT_TRUE(lease.has_value());
    EXPECT_EQ(lease->sequence(), 5u);
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  publish_value(*ring, 5, 1);
  waiter.join();
}

TEST(SlotRing, AWaitingReaderIsWokenByTheEnd) {
  auto ring = make_ring({.readers = 2});
  auto a = attach(*ring);
  auto b = attach(*ring);
  std::thread detached([&] { EXPECT_EQ(a.reader->next(60'000).error().code, Code::kClosed); });
  std::thread orphan([&] { EXPECT_EQ(b.reader->next(60'000).error().code, Code::kClosed); });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  ring->detach_reader(a.index, "enough");
  detached.join();
  ring.reset();
  orphan.join();
}

bool rung(const SlotRing& ring) {
  pollfd bell{ring.event_fd(), POLLIN, 0};
  return poll(&bell, 1, 0) == 1;
}

TEST(SlotRing, TheBellRingsOnlyWhenTheOwnerWaits) {
  auto ring = make_ring();
  auto [index, reader] = attach(*ring);
  for (std::uint8_t i = 0; i < 3; ++i) publish_value(*ring, i, i);
  reader->next(0)->release();
  EXPECT_FALSE(rung(*ring));
  ring->set_waiting(true);
  EXPECT_EQ(ring->collect(), 1u);
  EXPECT_FALSE(rung(*ring));
  reader->next(0)->release();
  EXPECT_TRUE(rung(*ring));
  EXPECT_EQ(ring->collect(), 1u);
  EXPECT_FALSE(rung(*ring)) << "collect() silences it";
  reader->next(0)->release();
  EXPECT_TRUE(rung(*ring)) << "and it rings again";
  ring->set_waiting(false);
  EXPECT_FALSE(rung(*ring));
  EXPECT_EQ(ring->stats().free, ring->slots());
}

TEST(SlotRing, GenerationsKeepFillingsApartOverManyRounds) {
  auto ring = make_ring({.slots = 3});
  auto [index, reader] = attach(*ring);
  for (std::uint64_t round = 0; round < 2000; ++round) {
    publish_value(*ring, round, static_cast<std::uint8_t>(round));
    auto lease = reader->next(0);
    ASSERT_TRUE(lease.has_value());
    ASSERT_EQ(lease->sequence(), round);
    ASSERT_EQ(lease->data()[small_layout().tensors()[0].offset], std::byte{static_cast<std::uint8_t>(round)});
  }
  EXPECT_EQ(ring->detach_reason(index), "");
}

TEST(SlotRing, TheTableIsRestoredAfterAReaderWroteOverIt) {
  auto ring = make_ring({.slots = 1});
  auto [index, reader] = attach(*ring);
  publish_value(*ring, 1, 1);
  {
    auto lease = reader->next(0);
    ASSERT_TRUE(lease.has_value());
    std::fill_n(lease->writable_data(), 4096, std::byte{0xFF});
  }
  publish_value(*ring, 2, 2);
  auto lease = reader->next(0);
  ASSERT_TRUE(lease.has_value());
  EXPECT_TRUE(SlotLayout::parse(lease->data(), reader->layout().slot_bytes()).has_value());
}

TEST(SlotRing, WhatARetiredReaderTookIsKeptUntilItIsReleased) {
  auto ring = make_ring({.slots = 4, .readers = 2, .readers_may_write = false});
  auto leaving = attach(*ring);
  auto staying = attach(*ring);
  for (std::uint8_t i = 1; i <= 3; ++i) publish_value(*ring, i, i);
  auto first = leaving.reader->next(0);
  auto second = leaving.reader->next(0);
  ASSERT_TRUE(first && second);
  ring->retire_reader(leaving.index, "closed");
  EXPECT_EQ(leaving.reader->next(0).error().code, Code::kClosed);
  EXPECT_EQ(ring->held_by(leaving.index), 2u);
  EXPECT_EQ(ring->detach_reason(leaving.index), "closed");
  publish_value(*ring, 4, 4);
  for (std::uint8_t i = 1; i <= 4; ++i) {
    auto lease = staying.reader->next(0);
    ASSERT_TRUE(lease);
    EXPECT_TRUE(all_bytes_are(ring->layout(), lease->data(), i)) << "undisturbed";
  }
  EXPECT_EQ(ring->collect(), 2u) << "3, which was not taken, and 4, which was not delivered";
  publish_value(*ring, 5, 5);
  publish_value(*ring, 6, 6);
  EXPECT_FALSE(ring->acquire()) << "the other two are held";
  EXPECT_TRUE(all_bytes_are(ring->layout(), first->data(), 1));
  EXPECT_TRUE(all_bytes_are(ring->layout(), second->data(), 2));
  first->release();
  EXPECT_EQ(ring->collect(), 1u);
  EXPECT_EQ(ring->held_by(leaving.index), 1u);
  ring->detach_reader(leaving.index, "its process ended");
  EXPECT_EQ(ring->stats().free, 2u);
  EXPECT_EQ(ring->detach_reason(staying.index), "");
}

TEST(SlotRing, ARetiredReadersPlaceIsNotGivenAway) {
  auto ring = make_ring({.slots = 2, .readers = 2});
  auto first = attach(*ring);
  ring->retire_reader(first.index, "closed");
  EXPECT_NE(attach(*ring).index, first.index);
  EXPECT_EQ(ring->attach_reader().error().code, Code::kExhausted);
  ring->detach_reader(first.index, "gone");
  EXPECT_EQ(attach(*ring).index, first.index);
}

TEST(SlotRing, ALateReaderGetsWhatIsStillReadyInOrder) {
  auto ring = make_ring({.slots = 4, .readers = 2});
  auto first = attach(*ring);
  for (std::uint8_t i = 1; i <= 4; ++i) publish_value(*ring, i, i);
  EXPECT_TRUE(first.reader->next(0)) << "taken and released";
  auto held = first.reader->next(0);
  ASSERT_TRUE(held);
  ring->collect();
  EXPECT_EQ(ring->attach_reader(1).error().code, Code::kNotFound);
  const auto index = ring->attach_reader(2);
  ASSERT_TRUE(index) << index.error().message;
  auto late = RingReader::attach(ring->reader_fds(*index), *index);
  ASSERT_TRUE(late);
  publish_value(*ring, 5, 5);
  for (std::uint8_t i = 2; i <= 5; ++i) {
    auto lease = (*late)->next(0);
    ASSERT_TRUE(lease) << lease.error().message;
    EXPECT_EQ(lease->sequence(), i);
    EXPECT_TRUE(all_bytes_are(ring->layout(), lease->data(), i));
  }
  EXPECT_EQ((*late)->next(0).error().code, Code::kTimeout);
}

TEST(SlotRing, WhatADeadReaderDidNotTakeIsKeptForItsSuccessor) {
  auto ring = make_ring({.slots = 4});
  auto dead = attach(*ring);
  for (std::uint8_t i = 1; i <= 3; ++i) publish_value(*ring, i, i);
  EXPECT_TRUE(dead.reader->next(0)) << "taken and released";
  auto held = dead.reader->next(0);
  ASSERT_TRUE(held);
  ring->keep_untaken(dead.index);
  ring->detach_reader(dead.index, "its process ended");
  EXPECT_EQ(ring->stats().ready, 1u) << "1 and 2 were taken";
  EXPECT_EQ(ring->stats().free, 3u);
  publish_value(*ring, 4, 4);
  publish_value(*ring, 5, 5);
  EXPECT_EQ(ring->stats().ready, 3u) << "what nobody reads yet is kept too";
  EXPECT_EQ(ring->attach_reader(2).error().code, Code::kNotFound);
  ring->drop_kept(4);
  EXPECT_EQ(ring->stats().ready, 2u);
  const auto index = ring->attach_reader(4);
  ASSERT_TRUE(index);
  auto next = RingReader::attach(ring->reader_fds(*index), *index);
  ASSERT_TRUE(next);
  EXPECT_TRUE((*next)->next(0)) << "4";
  ring->collect();
  EXPECT_EQ(ring->stats().ready, 2u) << "another reader may want it still";
  ring->stop_keeping();
  EXPECT_EQ(ring->stats().ready, 1u);
  auto last = (*next)->next(0);
  ASSERT_TRUE(last);
  EXPECT_TRUE(all_bytes_are(ring->layout(), last->data(), 5));
  last->release();
  EXPECT_EQ(ring->collect(), 1u);
  EXPECT_EQ(ring->stats().free, 4u);
}

TEST(SlotRing, NothingIsKeptOfAReaderThatLied) {
  auto ring = make_ring({.slots = 2});
  const auto liar = ring->attach_reader();
  ASSERT_TRUE(liar);
  publish_value(*ring, 1, 1);
  auto page = Region::map(ring->reader_fds(*liar).page, format::kPageBytes, Region::Access::kReadWrite);
  ASSERT_TRUE(page);
  reinterpret_cast<format::ReaderPage*>(page->data())->taken = 7;
  ring->keep_untaken(*liar);
  EXPECT_NE(ring->detach_reason(*liar), "");
  EXPECT_EQ(ring->stats().free, 2u);
  publish_value(*ring, 2, 2);
  EXPECT_EQ(ring->stats().free, 2u);
}

}  // namespace
}  // namespace carya::shm
