#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace carya::coefficients {

/// The blocks of one segment: so many neighbours in a row of blocks, fewer at its end (FORMAT.md).
inline constexpr int kSegmentBlocks = 32;
inline constexpr std::size_t kSegmentHeadBytes = 7;
inline constexpr int kDcGroup = 8;  ///< differences of so many blocks have one width
inline constexpr int kDcWidthMax = 15;
inline constexpr std::size_t kExceptionBytes = 3;
inline constexpr int kExceptionsMax = 255;
inline constexpr int kExceptionMax = 4095;  ///< the largest magnitude of an AC coefficient
inline constexpr int kPackedMax = 127;      ///< the largest one that is no exception
/// No segment has more bytes: its stream has at most 59 bytes of DC differences, and 57 + 512 bits of each block.
inline constexpr std::size_t kStreamBytesMax = 59 + kSegmentBlocks * 72;
inline constexpr std::size_t kSegmentBytesMax =
    kSegmentHeadBytes + kSegmentBlocks + kExceptionsMax * kExceptionBytes + kStreamBytesMax;
/// From the begin of a stream on so many bytes may be read by unpack_segment(), whatever they say.
inline constexpr std::size_t kStreamReach = kStreamBytesMax + 80;

/// One segment, taken apart by read_segment(). Nothing in it is trusted.
struct Segment {
  int blocks = 0;
  std::int16_t dc = 0;          ///< of the first block
  std::uint16_t dc_widths = 0;  ///< four bits for each group
  int exceptions = 0;
  const std::uint8_t* profiles = nullptr;
  const std::uint8_t* exception = nullptr;
  const std::uint8_t* stream = nullptr;
  std::size_t stream_bytes = 0;
};

/// Take apart the segment of `blocks` blocks at the begin of `bytes`. Returns its bytes; 0 if they are none.
std::size_t read_segment(std::span<const std::uint8_t> bytes, int blocks, Segment& segment);

/// Unpack blocks [begin, end) of a segment, whose stream has kStreamReach readable bytes: 64 coefficients each, in
/// natural order, to `blocks` (aligned to 64 bytes), and to `last` the zigzag index of the last one that is not zero.
/// Returns false if the segment does not hold so many blocks. Whatever its bytes are, nothing outside is written.
bool unpack_segment(const Segment& segment, int begin, int end, std::int16_t* blocks, std::uint8_t* last);

/// Append a segment of `count` blocks of 64 coefficients in natural order. Returns false if a coefficient has no place in
/// the format, or there are too many exceptions; `out` is as before then. The bytes are the same on every target.
bool pack_segment(const std::int16_t* const* blocks, int count, std::vector<std::uint8_t>& out);

}  // namespace carya::coefficients
