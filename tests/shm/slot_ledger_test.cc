#include "shm/slot_ledger.h"

#include <gtest/gtest.h>

namespace carya::shm {
namespace {

/// A ledger of two slots with reader 0 attached and slot 0 (generation 1) published to it and taken.
SlotLedger with_one_held() {
  SlotLedger ledger(2);
  ledger.attach(0);
  EXPECT_EQ(ledger.acquire(), 0u);
  EXPECT_EQ(ledger.publish(0, ~0u, 1), 1u);
  EXPECT_TRUE(ledger.take_to(0, 1).has_value());
  return ledger;
}

TEST(SlotLedger, AReleaseThatIsTrueFreesTheSlot) {
  SlotLedger ledger = with_one_held();
  EXPECT_EQ(ledger.state(0), SlotLedger::State::kReady);
  EXPECT_EQ(ledger.outstanding(0), 1u);
  const auto freed = ledger.release(0, 0, 1);
  ASSERT_TRUE(freed.has_value());
  EXPECT_TRUE(*freed);
  EXPECT_EQ(ledger.state(0), SlotLedger::State::kFree);
  EXPECT_EQ(ledger.outstanding(0), 0u);
}

TEST(SlotLedger, ALieIsRefusedAndChangesNothing) {
  SlotLedger ledger = with_one_held();
  EXPECT_FALSE(ledger.release(0, 2, 1).has_value()) << "no such slot";
  EXPECT_FALSE(ledger.release(0, ~0u, 1).has_value()) << "no such slot";
  EXPECT_FALSE(ledger.release(0, 0, 0).has_value()) << "an older generation";
  EXPECT_FALSE(ledger.release(0, 0, 2).has_value()) << "a generation to come";
  EXPECT_FALSE(ledger.release(0, 1, 0).has_value()) << "a free slot";
  EXPECT_FALSE(ledger.release(1, 0, 1).has_value()) << "another reader's";
  EXPECT_FALSE(ledger.take_to(0, 0).has_value()) << "untaken";
  EXPECT_FALSE(ledger.take_to(0, 2).has_value()) << "taken beyond what was delivered";
  EXPECT_EQ(ledger.holders(0), 1u);
  EXPECT_TRUE(ledger.release(0, 0, 1).has_value());
  EXPECT_FALSE(ledger.release(0, 0, 1).has_value()) << "twice";
}

TEST(SlotLedger, APendingSlotCannotBeReleased) {
  SlotLedger ledger(1);
  ledger.attach(3);
  ledger.acquire();
  ledger.publish(0, ~0u, 1);
  EXPECT_FALSE(ledger.release(3, 0, 1).has_value());
  EXPECT_TRUE(ledger.take_to(3, 1).has_value());
  EXPECT_TRUE(ledger.release(3, 0, 1).has_value());
}

TEST(SlotLedger, DetachFreesWhatNobodyElseHolds) {
  SlotLedger ledger(2);
  ledger.attach(0);
  ledger.attach(31);
  ledger.acquire();
  ledger.acquire();
  ledger.publish(0, ~0u, 1);
  ledger.publish(1, 1u, 2);
  EXPECT_EQ(ledger.detach(0), 1u);
  EXPECT_EQ(ledger.state(1), SlotLedger::State::kFree);
  EXPECT_EQ(ledger.holders(0), 1u << 31);
  EXPECT_EQ(ledger.detach(31), 1u);
  EXPECT_EQ(ledger.attached_mask(), 0u);
}

TEST(SlotLedger, DetachFreesAlsoWhatWasTaken) {
  SlotLedger ledger(3);
  ledger.attach(4);
  for (std::uint32_t slot = 0; slot < 3; ++slot) {
    ledger.acquire();
    ledger.publish(slot, ~0u, slot + 1);
  }
  EXPECT_TRUE(ledger.take_to(4, 2).has_value());  // as if it died with two leases
  EXPECT_EQ(ledger.detach(4), 3u);
  for (std::uint32_t slot = 0; slot < 3; ++slot) EXPECT_EQ(ledger.state(slot), SlotLedger::State::kFree);
}

TEST(SlotLedger, ARetiredReaderHoldsWhatItTookAndGetsNothingMore) {
  SlotLedger ledger(3);
  ledger.attach(0);
  ledger.attach(1);
  for (std::uint32_t slot = 0; slot < 3; ++slot) ASSERT_EQ(ledger.acquire(), slot);
  ledger.publish(0, ~0u, 1);
  ledger.publish(1, 1u, 2);
  ASSERT_TRUE(ledger.take_to(0, 1));
  EXPECT_EQ(ledger.retire(0), 1u) << "slot 1 was its alone, and untaken";
  EXPECT_EQ(ledger.publish(2, ~0u, 3), 1u << 1);
  EXPECT_EQ(ledger.holders(0), 3u);
  EXPECT_EQ(ledger.outstanding(0), 1u);
  EXPECT_TRUE(ledger.attached(0) && ledger.retired(0));
  EXPECT_EQ(ledger.release(0, 0, 1), false) << "the other one holds it still";
  EXPECT_EQ(ledger.outstanding(0), 0u);
  ledger.detach(0);
  EXPECT_FALSE(ledger.attached(0) || ledger.retired(0));
  ledger.attach(0);
  EXPECT_EQ(ledger.holders(2), 2u);
  ledger.deliver(2, 0);
  EXPECT_EQ(ledger.holders(2), 3u);
}

TEST(SlotLedger, WhatIsReadyIsListedInOrderUnlessSomeOfItIsGone) {
  SlotLedger ledger(3);
  ledger.attach(0);
  for (std::uint32_t slot = 0; slot < 3; ++slot) ledger.acquire();
  ledger.publish(2, ~0u, 10);
  ledger.publish(0, ~0u, 11);
  ledger.publish(1, ~0u, 12);
  using Slots = std::vector<std::uint32_t>;
  EXPECT_EQ(ledger.ready_from(10), (Slots{2, 0, 1}));
  EXPECT_EQ(ledger.ready_from(12), (Slots{1}));
  EXPECT_EQ(ledger.ready_from(13), Slots());
  ASSERT_TRUE(ledger.take_to(0, 3));
  ASSERT_TRUE(ledger.release(0, 0, 1));
  EXPECT_EQ(ledger.ready_from(10), std::nullopt);
  EXPECT_EQ(ledger.ready_from(11), std::nullopt);
  EXPECT_EQ(ledger.ready_from(12), (Slots{1}));
}

TEST(SlotLedger, TheSlotFreedLastIsFilledNext) {
  SlotLedger ledger(3);
  EXPECT_EQ(ledger.acquire(), 0u);
  EXPECT_EQ(ledger.acquire(), 1u);
  ledger.abandon(0);
  EXPECT_EQ(ledger.acquire(), 0u);
  EXPECT_EQ(ledger.generation(0), 2u);
}

using SlotLedgerDeathTest = ::testing::Test;
TEST(SlotLedgerDeathTest, PublishingWhatIsNotFillingIsABug) {
  SlotLedger ledger(1);
  EXPECT_DEATH(ledger.publish(0, 1, 1), "");
  EXPECT_DEATH(ledger.abandon(0), "");
  EXPECT_DEATH(ledger.publish(9, 1, 1), "");
}

}  // namespace
}  // namespace carya::shm
