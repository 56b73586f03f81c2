// Many hand-offs between an owner and a reader that sleep and are woken: what is lost is repaired by nobody
// here, or so late that the patience for all of them is over.
#include <gtest/gtest.h>
#include <poll.h>

#include <chrono>
#include <optional>
#include <thread>

#include "tests/pace.h"
#include "tests/shm/ring_fixture.h"

namespace carya::shm {
namespace {

/// A slot as the engine takes one: asks for the bell, looks again, sleeps. None when the patience is over.
std::optional<std::uint32_t> take_slot(SlotRing& ring, const Pace& patience) {
  std::optional<std::uint32_t> slot = ring.acquire();
  while (!slot && !patience.over()) {
    ring.set_waiting(true);
    slot = ring.acquire();
    if (!slot) {
      pollfd bell{ring.event_fd(), POLLIN, 0};
      poll(&bell, 1, Pace::kLookMs);
    }
    ring.set_waiting(false);
    if (!slot) slot = ring.acquire();
  }
  return slot;
}

struct Handoffs {
  int count;
  std::uint32_t slots;
  std::chrono::nanoseconds making{};  ///< so long the owner takes for a batch, asleep
};

/// How many batches a reader gets in order before the patience for all of them ends.
int handed_over(const Handoffs& wanted) {
  auto ring = make_ring({.slots = wanted.slots});
  auto [index, reader] = attach(*ring);
  const Pace patience(wanted.count);
  std::thread owner([&] {
    for (int i = 1; i <= wanted.count; ++i) {
      const auto slot = take_slot(*ring, patience);
      if (!slot) return;
      if (wanted.making.count() > 0) std::this_thread::sleep_for(wanted.making);
      ring->publish(*slot, static_cast<std::uint64_t>(i), Meta{});
    }
  });
  int taken = 0;
  while (taken < wanted.count && !patience.over()) {
    const auto lease = reader->next(Pace::kLookMs);
    if (!lease) continue;
    EXPECT_EQ(lease->sequence(), static_cast<std::uint64_t>(++taken));
  }
  owner.join();
  return taken;
}

TEST(RingHandoff, AnOwnerThatIsAheadIsWokenByEachRelease) {
  for (const std::uint32_t slots : {1u, 3u}) EXPECT_EQ(handed_over({.count = 300, .slots = slots}), 300);
}

TEST(RingHandoff, AReaderThatIsAheadIsWokenByEachPublication) {
  EXPECT_EQ(handed_over({.count = 200, .slots = 2, .making = std::chrono::milliseconds(1)}), 200)
      << "it was asleep by then";
}

}  // namespace
}  // namespace carya::shm
