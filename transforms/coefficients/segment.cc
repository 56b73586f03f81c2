#include "transforms/coefficients/segment.h"

namespace carya::coefficients {

std::size_t read_segment(std::span<const std::uint8_t> bytes, int blocks, Segment& segment) {
  const std::size_t count = static_cast<std::size_t>(blocks);
  if (bytes.size() < kSegmentHeadBytes + count) return 0;
  const std::uint8_t* const at = bytes.data();
  const std::size_t size = at[0] | at[1] << 8;
  segment.blocks = blocks;
  segment.dc = static_cast<std::int16_t>(at[2] | at[3] << 8);
  segment.dc_widths = static_cast<std::uint16_t>(at[4] | at[5] << 8);
  segment.exceptions = at[6];
  segment.profiles = at + kSegmentHeadBytes;
  segment.exception = segment.profiles + count;
  const std::size_t before =
      kSegmentHeadBytes + count + kExceptionBytes * static_cast<std::size_t>(segment.exceptions);
  if (size < before || size > bytes.size() || size > kSegmentBytesMax) return 0;
  segment.stream = at + before;
  segment.stream_bytes = size - before;
  return size;
}

}  // namespace carya::coefficients
