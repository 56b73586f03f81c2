#include "loader/overflow/chunk_window.h"

#include <gtest/gtest.h>

namespace carya::loader {
namespace {

constexpr std::int64_t kMs = 1'000'000;

TEST(ChunkWindow, IsTwoPerCoreWhereNothingIsKnown) {
  const ChunkWindow window;
  EXPECT_EQ(window.chunks(1), 2U);
  EXPECT_EQ(window.chunks(8), 16U);
  EXPECT_EQ(window.chunks(0), 2U);  // a worker that did not say how many
}

TEST(ChunkWindow, CoversTheWayThereAndBack) {
  ChunkWindow window;
  window.note(8 * kMs, 4 * kMs);
  EXPECT_EQ(window.chunks(1), 3U);
  window.note_round_trip(40 * kMs);
  EXPECT_EQ(window.chunks(1), 8U);
  EXPECT_EQ(window.chunks(4), 32U);
}

TEST(ChunkWindow, TheQuickestRoundTripCounts) {
  ChunkWindow window;
  window.note(8 * kMs, 1);
  window.note_round_trip(4 * kMs);
  window.note_round_trip(400 * kMs);  // it waited behind results
  window.note_round_trip(0);
  EXPECT_EQ(window.chunks(1), 3U);
}

TEST(ChunkWindow, FollowsChunksOfAnotherSize) {
  ChunkWindow window;
  window.note_round_trip(40 * kMs);
  window.note(1 * kMs, 1);
  EXPECT_EQ(window.chunks(1), 43U);
  for (int i = 0; i < 100; ++i) window.note(40 * kMs, 1);
  EXPECT_EQ(window.chunks(1), 4U);
}

TEST(ChunkWindow, SaysWhenAChunkIsHome) {
  ChunkWindow window;
  EXPECT_EQ(window.next_home_ns(3, 2), 0) << "nothing is known";
  window.note(8 * kMs, 1 * kMs);
  window.note_round_trip(4 * kMs);
  EXPECT_EQ(window.next_home_ns(0, 2), 14 * kMs);
  EXPECT_EQ(window.next_home_ns(1, 2), 16 * kMs) << "on the other core";
  EXPECT_EQ(window.next_home_ns(3, 2), 28 * kMs) << "behind two";
  for (int i = 0; i < 100; ++i)
    window.note_away(3 * window.next_home_ns(0, 2) / 2, window.next_home_ns(0, 2));
  EXPECT_GT(window.next_home_ns(0, 2), 100 * kMs) << "always later than it says";
  for (int i = 0; i < 100; ++i) window.note_away(14 * kMs, window.next_home_ns(0, 2));
  EXPECT_NEAR(window.next_home_ns(0, 2), 14 * kMs, kMs);
}

TEST(ChunkWindow, IsBoundedWhateverAWorkerSays) {
  ChunkWindow window;
  window.note(0, INT64_MAX);
  EXPECT_EQ(window.chunks(1), 64U);
  window.note(-1, -1);
  window.note_round_trip(-1);
  EXPECT_EQ(window.chunks(2), 128U);
  for (int i = 0; i < 100; ++i) window.note(INT64_MAX, 0);
  EXPECT_GE(window.chunks(1), 2U);
}

}  // namespace
}  // namespace carya::loader
