#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <random>
#include <set>

#include "shm/ring_format.h"
#include "tests/shm/ring_fixture.h"

// Seeded models: random histories of an owner and its readers against a plain account of what must be, and
// readers that write whatever they like into the only page they may write.

namespace carya::shm {
namespace {

/// A reader's page, written directly: what a hostile process can do.
class RawPage {
 public:
  explicit RawPage(const SlotRing::ReaderFds& fds)
      : memory_(mmap(nullptr, format::kPageBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fds.page, 0)) {
    CHECK(memory_ != MAP_FAILED);
  }
  ~RawPage() { munmap(memory_, format::kPageBytes); }
  RawPage(const RawPage&) = delete;
  RawPage& operator=(const RawPage&) = delete;

  format::ReaderPage& page() { return *static_cast<format::ReaderPage*>(memory_); }
  std::byte* bytes() { return static_cast<std::byte*>(memory_); }
  void say(std::uint64_t taken, std::uint32_t slot, std::uint32_t generation) {
    page().taken = taken;
    page().releases[page().tail % format::kQueueEntries] = format::pack(slot, generation);
    page().tail.fetch_add(1);
  }

 private:
  void* memory_;
};

struct Lie {
  const char* name;
  void (*tell)(RawPage& page, std::uint32_t slot);
  const char* reason;
};

class LyingReader : public ::testing::TestWithParam<Lie> {};

TEST_P(LyingReader, IsDetachedWithAReasonAndTroublesNobodyElse) {
  auto ring = make_ring({.slots = 3, .readers = 2});
  auto honest = attach(*ring);
  const auto liar = ring->attach_reader();
  ASSERT_TRUE(liar.has_value());
  RawPage page(ring->reader_fds(*liar));
  const std::uint32_t slot = publish_value(*ring, 1, 1);
  auto lease = honest.reader->next(0);
  ASSERT_TRUE(lease.has_value());
  GetParam().tell(page, slot);
  ring->collect();
  EXPECT_NE(ring->detach_reason(*liar).find(GetParam().reason), std::string::npos)
      << ring->detach_reason(*liar);
  EXPECT_EQ(ring->held_by(*liar), 0u);
  EXPECT_EQ(ring->detach_reason(honest.index), "");
  EXPECT_EQ(ring->held_by(honest.index), 1u) << "the slot is still the honest reader's";
  EXPECT_TRUE(all_bytes_are(ring->layout(), lease->data(), 1));
  lease->release();
  EXPECT_EQ(ring->collect(), 1u);
}

INSTANTIATE_TEST_SUITE_P(
    Ring, LyingReader,
    ::testing::Values(
        Lie{"WrongSlot", [](RawPage& p, std::uint32_t) { p.say(1, 77, 1); }, "released slot 77 of 3"},
        Lie{"FreeSlot", [](RawPage& p, std::uint32_t slot) { p.say(1, slot + 1, 0); }, "does not hold"},
        Lie{"WrongGeneration", [](RawPage& p, std::uint32_t slot) { p.say(1, slot, 9); },
            "generation 9, it is at 1"},
        Lie{"NotTaken", [](RawPage& p, std::uint32_t slot) { p.say(0, slot, 1); }, "has not taken"},
        Lie{"TakenTooMany", [](RawPage& p, std::uint32_t slot) { p.say(5, slot, 1); }, "delivered were 1"},
        Lie{"TwiceAtOnce",
            [](RawPage& p, std::uint32_t slot) {
              p.say(1, slot, 1);
              p.say(1, slot, 1);
            },
            "says it released 2 slots, it has 1"},
        Lie{"Overflow", [](RawPage& p, std::uint32_t) { p.page().tail = 1ull << 40; }, "says it released"},
        Lie{"TailBackwards", [](RawPage& p, std::uint32_t) { p.page().tail = ~0ull; }, "says it released"}),
    [](const auto& test) { return test.param.name; });

TEST(RingModel, ADoubleReleaseOneByOneIsFound) {
  auto ring = make_ring({.slots = 2});
  const auto liar = ring->attach_reader();
  RawPage page(ring->reader_fds(*liar));
  const std::uint32_t slot = publish_value(*ring, 1, 1);
  page.say(1, slot, 1);
  EXPECT_EQ(ring->collect(), 1u);
  publish_value(*ring, 2, 2);  // the same slot again, generation 2
  page.say(2, slot, 1);
  ring->collect();
  EXPECT_NE(ring->detach_reason(*liar).find("generation 1, it is at 2"), std::string::npos);
}

/// A reader that took a slot at the moment it was retired gives it back unseen; to the owner it may be a slot
/// that the reader never held.
TEST(RingModel, WhatIsGivenBackAsItIsRetiredIsNoLie) {
  auto ring = make_ring({.slots = 2, .readers = 2});
  const auto leaving = ring->attach_reader();
  auto staying = attach(*ring);
  RawPage page(ring->reader_fds(*leaving));
  const std::uint32_t held = publish_value(*ring, 1, 1), dropped = publish_value(*ring, 2, 2);
  page.page().taken = 1;
  ring->retire_reader(*leaving, "closed");
  EXPECT_EQ(ring->held_by(*leaving), 1u);
  page.say(2, dropped, 1);
  ring->collect();
  EXPECT_EQ(ring->held_by(*leaving), 1u) << "what it holds it holds still";
  page.say(2, held, 1);
  ring->collect();
  EXPECT_EQ(ring->held_by(*leaving), 0u);
  for (std::uint8_t i = 1; i <= 2; ++i) {
    auto lease = staying.reader->next(0);
    ASSERT_TRUE(lease);
    EXPECT_TRUE(all_bytes_are(ring->layout(), lease->data(), i));
  }
  EXPECT_EQ(ring->collect(), 2u);
}

/// What must be, beside the ring: which batches each reader is still to see, and which are held by whom.
class RingAccount {
 public:
  RingAccount(std::uint32_t slots, std::uint32_t readers, std::mt19937& random)
      : random_(random), ring_(make_ring({.slots = slots, .readers = readers})) {
    for (std::uint32_t i = 0; i < readers; ++i) readers_.push_back({.end = attach(*ring_)});
  }
  void publish();
  void take(std::uint32_t who);
  void release();
  void look() const;
  /// A reader that is here is retired; one that was, is succeeded when it holds nothing any more.
  void replace(std::uint32_t who);
  void end() const {
    for (const Account& account : readers_)
      EXPECT_EQ(ring_->detach_reason(account.end.index) != "", account.retired);
  }

 private:
  struct Account {
    Attached end;
    std::vector<std::uint64_t> pending{};
    bool retired = false;
  };
  struct Held {
    std::uint64_t sequence = 0;
    std::uint32_t who = 0;
    Lease lease;
  };
  std::set<std::uint64_t> busy() const {
    std::set<std::uint64_t> busy;
    for (const Account& account : readers_) busy.insert(account.pending.begin(), account.pending.end());
    for (const Held& held : held_) busy.insert(held.sequence);
    return busy;
  }
  bool holds_any(std::uint32_t who) const {
    return std::ranges::any_of(held_, [who](const Held& held) { return held.who == who; });
  }

  std::mt19937& random_;
  std::shared_ptr<SlotRing> ring_;
  std::vector<Account> readers_;
  std::vector<Held> held_;
  std::uint64_t sequence_ = 0;
};

void RingAccount::publish() {
  const auto slot = ring_->acquire();
  ASSERT_EQ(slot.has_value(), busy().size() < ring_->slots());
  if (!slot) return;
  if (random_() % 5 == 0) return ring_->abandon(*slot);
  const std::uint32_t mask = 1 + random_() % ((1u << readers_.size()) - 1);
  ring_->data(*slot)[8000] = static_cast<std::byte>(++sequence_);
  ring_->publish(*slot, sequence_, Meta{sequence_ * 3}, mask);
  for (Account& account : readers_)
    if ((mask & 1u << account.end.index) != 0 && !account.retired) account.pending.push_back(sequence_);
}

void RingAccount::take(std::uint32_t who) {
  Account& account = readers_[who];
  auto lease = account.end.reader->next(0);
  if (account.retired) {
    ASSERT_EQ(lease.error().code, Code::kClosed);
  }
  ASSERT_EQ(lease.has_value(), !account.pending.empty());
  if (!lease) return;
  const std::uint64_t expected = account.pending.front();
  account.pending.erase(account.pending.begin());
  ASSERT_EQ(lease->sequence(), expected);
  ASSERT_EQ(lease->meta()[0], expected * 3);
  held_.push_back({expected, who, std::move(*lease)});
}

void RingAccount::release() {
  if (!held_.empty()) held_.erase(held_.begin() + static_cast<std::ptrdiff_t>(random_() % held_.size()));
}

void RingAccount::look() const {
  for (const Held& held : held_) ASSERT_EQ(held.lease.data()[8000], static_cast<std::byte>(held.sequence));
}

void RingAccount::replace(std::uint32_t who) {
  Account& account = readers_[who];
  if (!account.retired) {
    ring_->retire_reader(account.end.index, "retired");
    account.retired = true;
    account.pending.clear();
    return;
  }
  ring_->collect();
  ASSERT_EQ(ring_->held_by(account.end.index) == 0, !holds_any(who));
  if (holds_any(who)) return;
  ring_->detach_reader(account.end.index, "it holds nothing");
  // From a random place on: to be had when all from there on is still held by somebody.
  const std::uint64_t from = sequence_ + 1 - std::min<std::uint64_t>(sequence_, random_() % 4);
  std::vector<std::uint64_t> wanted;
  for (std::uint64_t sequence = from; sequence <= sequence_; ++sequence) wanted.push_back(sequence);
  const std::set<std::uint64_t> there = busy();
  const bool all = std::ranges::all_of(wanted, [&](std::uint64_t one) { return there.contains(one); });
  auto index = ring_->attach_reader(from);
  ASSERT_EQ(index.has_value(), all);
  if (!index) index = ring_->attach_reader();
  ASSERT_TRUE(index);
  auto reader = RingReader::attach(ring_->reader_fds(*index), *index);
  ASSERT_TRUE(reader);
  account = {{*index, std::move(*reader)}, all ? wanted : std::vector<std::uint64_t>(), false};
}

/// Random histories: what the readers get must be what an obvious model says, and slots are never lost.
TEST(RingModel, RandomHistoriesAgreeWithAPlainAccount) {
  for (std::uint32_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    const std::uint32_t slots = 1 + random() % 5;
    const std::uint32_t readers = 1 + random() % 3;
    RingAccount account(slots, readers, random);
    for (int step = 0; step < 600 && !::testing::Test::HasFatalFailure(); ++step) {
      const std::uint32_t who = random() % readers;
      switch (random() % 12) {
        case 0:
        case 1:
        case 2:
          account.publish();
          break;
        case 3:
        case 4:
        case 5:
          account.take(who);
          break;
        case 6:
        case 7:
        case 8:
          account.release();
          break;
        case 9:
        case 10:
          account.look();
          break;
        default:
          account.replace(who);
      }
    }
    account.end();
  }
}

/// A reader that writes random bytes all over its page: the owner stays whole, the honest reader misses
/// nothing, no slot is lost, and the scribbler is out for good once it was caught.
TEST(RingModel, AScribblingReaderCostsNobodyElseAnything) {
  std::uint32_t caught = 0;
  for (std::uint32_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    auto ring = make_ring({.slots = 4, .readers = 2});
    auto honest = attach(*ring);
    auto scribbler = ring->attach_reader();
    ASSERT_TRUE(scribbler.has_value());
    auto page = std::make_unique<RawPage>(ring->reader_fds(*scribbler));
    for (std::uint64_t sequence = 1; sequence <= 200; ++sequence) {
      auto slot = ring->acquire();
      if (!slot) {  // the scribbler holds all: what a daemon does with a reader that never answers
        ring->detach_reader(*scribbler, "holds every slot");
        slot = ring->acquire();
      }
      ASSERT_TRUE(slot.has_value());
      ring->data(*slot)[8000] = static_cast<std::byte>(sequence);
      ring->publish(*slot, sequence, Meta{});
      const std::uint64_t style = random() % 4;
      if (style == 0) page->bytes()[random() % format::kPageBytes] = static_cast<std::byte>(random());
      if (style == 1) page->page().tail = random() % 8;
      if (style == 2)
        page->say(random() % (sequence + 2), random() % 5, static_cast<std::uint32_t>(random() % 100));
      auto lease = honest.reader->next(0);
      ASSERT_TRUE(lease.has_value());
      ASSERT_EQ(lease->sequence(), sequence);
      ASSERT_EQ(lease->data()[8000], static_cast<std::byte>(sequence));
      ring->collect();
      ASSERT_LE(ring->held_by(*scribbler), 4u);
      static_cast<void>(ring->stats());
      if (!ring->detach_reason(*scribbler).empty()) {
        ++caught;
        scribbler = ring->attach_reader();
        ASSERT_TRUE(scribbler.has_value());
        page = std::make_unique<RawPage>(ring->reader_fds(*scribbler));
      }
    }
    ring->detach_reader(*scribbler, "done");
    ring->collect();
    EXPECT_EQ(ring->stats().free, 4u);
    EXPECT_EQ(ring->detach_reason(honest.index), "");
  }
  EXPECT_GT(caught, 100u) << "the test means nothing when nobody is caught";
}

}  // namespace
}  // namespace carya::shm
