#include "transforms/coefficients/unpacker.h"

#include <algorithm>
#include <cstring>

namespace carya::coefficients {

// Take the next segment of `rest_`, which begins at block x of its row. Its stream can be read without checks.
bool Unpacker::Blocks::next_segment(int component, int x, Segment& segment) {
  const int columns = block_columns(head.header.components[component]);
  const std::size_t size = read_segment(rest_, std::min(kSegmentBlocks, columns - x), segment);
  if (size == 0) return false;
  rest_ = rest_.subspan(size);
  return true;
}

// The rows of blocks that a component has in the row of MCUs.
int Unpacker::Blocks::rows_in(int component, int row_of_mcus) const {
  const jpeg::Component& its = head.header.components[component];
  return std::min<int>(its.v, block_rows(its) - row_of_mcus * its.v);
}

// Pass over rows of blocks up to this one.
bool Unpacker::Blocks::go_to(int component, int block_y) {
  const int v = head.header.components[component].v;
  const int wanted_mcu = block_y / v;
  int row = block_y % v;
  for (int c = 0; c < component; ++c) row += rows_in(c, wanted_mcu);
  if (mcu_y != wanted_mcu || row < row_) {
    rest_ = row_of(entry, head, wanted_mcu);
    mcu_y = wanted_mcu;
    row_ = 0;
  }
  Segment passed;
  for (; row_ < row; ++row_) {
    int c = 0;
    for (int before = rows_in(0, wanted_mcu); before <= row_; before += rows_in(c, wanted_mcu)) ++c;
    for (int x = 0; x < block_columns(head.header.components[c]); x += kSegmentBlocks)
      if (!next_segment(c, x, passed)) return false;
  }
  return true;
}

bool Unpacker::Blocks::give(int component, int block_y, int x0, int x1, std::int16_t* blocks,
                            std::uint8_t* last) {
  if (!go_to(component, block_y)) return false;
  const int columns = block_columns(head.header.components[component]);
  for (int x = 0; x < columns; x += kSegmentBlocks) {
    const std::span<const std::uint8_t> here = rest_;
    Segment segment;
    if (!next_segment(component, x, segment)) return false;
    const int begin = std::max(x0, x) - x;
    const int end = std::min(x1 - x, segment.blocks);
    if (begin >= end) continue;
    if (static_cast<std::size_t>(entry.data() + entry.size() - segment.stream) < kStreamReach) {
      // Bytes behind the entry's end may not be read.
      const std::size_t size = here.size() - rest_.size();
      std::memcpy(tail_.data(), here.data(), size);
      std::memset(tail_.data() + size, 0, kStreamReach);
      read_segment({tail_.data(), size}, segment.blocks, segment);
    }
    const int at = x + begin - x0;
    if (!unpack_segment(segment, begin, end, blocks + 64 * at, last + at)) return false;
  }
  ++row_;
  return true;
}

bool Unpacker::open(std::span<const std::uint8_t> entry) {
  blocks_.entry = entry;
  blocks_.mcu_y = -1;
  return read_head(entry, blocks_.head);
}

jpeg::Outcome Unpacker::decode(const jpeg::Region& region, jpeg::Mode mode, std::uint8_t* out,
                               std::size_t stride) {
  blocks_.mcu_y = -1;
  return reconstructor_.decode(blocks_.head.header, blocks_, region, mode, out, stride);
}

}  // namespace carya::coefficients
