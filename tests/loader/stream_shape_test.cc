#include "loader/stream/stream_shape.h"

#include <gtest/gtest.h>

#include <vector>

namespace carya::loader {
namespace {

StreamShape shape(std::uint64_t records, std::uint64_t global, std::uint64_t world, std::uint64_t rank,
                  bool drop, bool pad) {
  return {records, global, world, rank, drop, pad};
}

/// How often each position is delivered as a valid row from `begin` to the end of the epoch, over all ranks.
std::vector<int> deliveries(std::uint64_t records, std::uint64_t global, std::uint64_t world,
                            std::uint64_t begin, bool drop, bool pad) {
  std::vector<int> seen(records, 0);
  for (std::uint64_t rank = 0; rank < world; ++rank) {
    const StreamShape s = shape(records, global, world, rank, drop, pad);
    std::uint64_t steps = 0;
    for (std::uint64_t position = begin; !s.at_end(position);
         position += s.step_positions(position), ++steps) {
      const RankPart part = s.part(position);
      EXPECT_LE(part.count, part.rows);
      EXPECT_LE(part.rows, s.rank_rows_max());
      EXPECT_GE(part.rows, 1);
      EXPECT_LE(part.first + part.count, records);
      if (!part.repeated)
        for (std::uint64_t i = 0; i < part.count; ++i) ++seen.at(part.first + i);
    }
    EXPECT_EQ(steps, s.steps_from(begin));
  }
  return seen;
}

TEST(StreamShape, DeliversEveryPositionOnceForEverySmallShape) {
  for (std::uint64_t records = 1; records <= 50; ++records)
    for (std::uint64_t global = 1; global <= 12; ++global)
      for (std::uint64_t world = 1; world <= global; ++world) {
        if (global % world != 0) continue;
        for (const bool pad : {false, true}) {
          const std::vector<int> seen = deliveries(records, global, world, 0, false, pad);
          EXPECT_EQ(seen, std::vector<int>(records, 1))
              << records << " " << global << " " << world << " " << pad;
        }
        const std::vector<int> seen = deliveries(records, global, world, 0, true, false);
        for (std::uint64_t p = 0; p < records; ++p) EXPECT_EQ(seen[p], p < records / global * global ? 1 : 0);
      }
}

TEST(StreamShape, RestoredWithAnotherGlobalSizeDeliversTheRestOnce) {
  for (std::uint64_t records = 1; records <= 24; ++records)
    for (std::uint64_t begin = 0; begin <= records; ++begin)
      for (std::uint64_t global = 1; global <= 8; ++global) {
        const std::vector<int> seen = deliveries(records, global, 1, begin, false, false);
        for (std::uint64_t p = 0; p < records; ++p) EXPECT_EQ(seen[p], p >= begin ? 1 : 0);
      }
}

TEST(StreamShape, SplitsTheLastStepAsEvenlyAsPossibleAndRepeatsWhereItHasTooFew) {
  std::vector<RankPart> parts;
  for (std::uint64_t rank = 0; rank < 4; ++rank) parts.push_back(shape(10, 8, 4, rank, false, false).part(8));
  const std::vector<RankPart> wanted{{8, 1, 1}, {9, 1, 1}, {8, 1, 1, true}, {9, 1, 1, true}};
  EXPECT_EQ(parts, wanted);
  EXPECT_EQ(shape(15, 8, 4, 3, false, false).part(8), (RankPart{14, 1, 1}));
  EXPECT_EQ(shape(10, 8, 4, 2, false, true).part(8), (RankPart{10, 0, 2})) << "pad_last repeats nothing";
}

TEST(StreamShape, RefusesWhatCannotBe) {
  EXPECT_EQ(StreamShape::create(10, 0, 6, 4, 0, false, false).error().code, Code::kInvalidArgument);
  EXPECT_EQ(StreamShape::create(10, 2, 0, 2, 2, false, false).error().code, Code::kInvalidArgument);
  EXPECT_EQ(StreamShape::create(0, 2, 0, 1, 0, false, false).error().code, Code::kInvalidArgument);
  EXPECT_EQ(StreamShape::create(3, 4, 0, 1, 0, true, false).error().code, Code::kInvalidArgument);
  EXPECT_EQ(StreamShape::create(3, UINT64_MAX, 0, 2, 0, false, false).error().code, Code::kInvalidArgument);
  EXPECT_TRUE(StreamShape::create(3, 4, 0, 1, 0, false, false));
}

}  // namespace
}  // namespace carya::loader
