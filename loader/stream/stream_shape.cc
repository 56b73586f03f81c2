#include "loader/stream/stream_shape.h"

#include <algorithm>

#include "base/checked.h"

namespace carya::loader {

Result<StreamShape> StreamShape::create(std::uint64_t records, std::uint64_t batch_size,
                                        std::uint64_t global_size, std::uint64_t world_size,
                                        std::uint64_t rank, bool drop_last, bool pad_last) {
  if (world_size == 0) return fail(Code::kInvalidArgument, "world_size: got 0; give 1 or more");
  if (rank >= world_size)
    return fail(Code::kInvalidArgument, "rank: got " + std::to_string(rank) + "; give 0 to " +
                                            std::to_string(world_size - 1) + " for world_size " +
                                            std::to_string(world_size));
  if (global_size == 0) {
    const auto product = checked_mul(batch_size, world_size);
    if (!product || *product == 0 || *product > (1ull << 40))
      return fail(Code::kInvalidArgument, "batch: batch_size " + std::to_string(batch_size) +
                                              " x world_size " + std::to_string(world_size) +
                                              "; give 1 to 2^40 samples in a step");
    global_size = *product;
  }
  if (global_size % world_size != 0)
    return fail(Code::kInvalidArgument, "batch: global_size " + std::to_string(global_size) +
                                            " is not divisible by world_size " + std::to_string(world_size) +
                                            "; choose a multiple of the world size");
  if (records == 0)
    return fail(Code::kInvalidArgument, "dataset: it has no records; check its path and its views");
  if (drop_last && records < global_size)
    return fail(Code::kInvalidArgument,
                "batch: the dataset has " + std::to_string(records) + " records, fewer than one step of " +
                    std::to_string(global_size) +
                    ", and drop_last drops it; use drop_last=False or a smaller batch");
  return StreamShape{records, global_size, world_size, rank, drop_last, pad_last};
}

std::uint64_t StreamShape::steps_from(std::uint64_t position) const {
  if (position >= records) return 0;
  const std::uint64_t left = records - position;
  return left / global_size + (!drop_last && left % global_size != 0 ? 1 : 0);
}

std::uint64_t StreamShape::step_positions(std::uint64_t position) const {
  return position >= records ? 0 : std::min(global_size, records - position);
}

RankPart StreamShape::part(std::uint64_t position) const {
  const std::uint64_t positions = step_positions(position);
  const std::uint64_t rows = rank_rows_max();
  if (positions == 0) return {position, 0, 0};
  if (positions == global_size) return {position + rank * rows, rows, rows};
  if (pad_last) {
    const std::uint64_t begin = std::min(rank * rows, positions);
    return {position + begin, std::min((rank + 1) * rows, positions) - begin, rows};
  }
  const std::uint64_t even = positions / world_size;
  const std::uint64_t extra = positions % world_size;
  const std::uint64_t count = even + (rank < extra ? 1 : 0);
  if (count == 0) return {position + rank % positions, 1, 1, true};
  return {position + rank * even + std::min(rank, extra), count, count};
}

}  // namespace carya::loader
