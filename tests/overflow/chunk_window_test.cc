#include "loader/overflow/chunk_window.h"

#include <gtest/gtest.h>

namespace carya::loader {
namespace {

constexpr std::int64_t kMs = 1'000'000;

TEST(ChunkWindow, IsTwoPerCoreWhereNothingIsKnownOrTheWayIsShort) {
  ChunkWindow window;
  EXPECT_EQ(window.chunks(1), 2);
  EXPECT_EQ(window.chunks(8), 16);
  EXPECT_EQ(window.chunks(0), 2);  // a worker that did not say how many
  window.note(8 * kMs, 8 * kMs);
  EXPECT_EQ(window.chunks(8), 16);
}

TEST(ChunkWindow, CoversTheWayThereAndBack) {
  ChunkWindow window;
  window.note(56 * kMs, 8 * kMs);  // 48 ms of it on the way
  EXPECT_EQ(window.chunks(1), 8);
  EXPECT_EQ(window.chunks(4), 32);
}

// What waits in a worker's queue is no reason to give it more.
TEST(ChunkWindow, FollowsTheQuickestNotWhatWaited) {
  ChunkWindow window;
  window.note(8 * kMs, 8 * kMs);
  for (int i = 0; i < 16; ++i) {
    window.note(80 * kMs, 8 * kMs);
    window.note(9 * kMs, 8 * kMs);
  }
  EXPECT_LE(window.chunks(1), 3);
}

TEST(ChunkWindow, LearnsOfAWayThatHasBecomeLonger) {
  ChunkWindow window;
  window.note(8 * kMs, 8 * kMs);
  for (int i = 0; i < 500; ++i) window.note(56 * kMs, 8 * kMs);
  EXPECT_EQ(window.chunks(1), 8);
}

TEST(ChunkWindow, IsBoundedWhateverAWorkerSays) {
  ChunkWindow window;
  window.note(3'600'000 * kMs, 0);
  EXPECT_EQ(window.chunks(1), 64);
  window.note(-1, -1);
  EXPECT_GE(window.chunks(1), 2);
  window.note(1, INT64_MAX);
  EXPECT_GE(window.chunks(1), 2);
}

}  // namespace
}  // namespace carya::loader
