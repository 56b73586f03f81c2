#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "transforms/jpeg/aligned_buffer.h"
#include "transforms/jpeg/decoder.h"
#include "transforms/jpeg/header.h"
#include "transforms/jpeg/huffman.h"
#include "transforms/jpeg/index.h"

// What one decode shares between its stages: plain data, prepared by plan.cc, used by the code of each SIMD
// target.
namespace carya::jpeg {

inline constexpr std::size_t kBitSlack =
    4096;  ///< readable bytes behind the unstuffed scan: more than one MCU can take
inline constexpr std::size_t kLineSlack = 64;  ///< bytes that vector loads and stores may touch beyond a line

inline constexpr std::size_t kIndexedScanMax = 0xFFFFFFFFu - 16;  ///< index points hold 32-bit offsets
inline constexpr int kLineGroup = 4;  ///< lines that go through upsampling together
inline constexpr int kRingRowsOne =
    4;  ///< MCU rows of samples kept: one in work, the one above for upsampling
inline constexpr int kRingRowsStreams =
    8;  ///< two in work, some done ahead of a slow one; a power of two like the other

/// A block to transform: coefficients in natural order, and where its first sample goes.
struct IdctJob {
  const std::int16_t* source;
  std::uint8_t* out;
};
struct JobList {
  AlignedBuffer<IdctJob> jobs;
  int count = 0;
};

/// Quantiser of one component and the coefficients it allows before 16-bit sums could wrap.
struct Quant {
  alignas(64) std::array<std::int16_t, 64> natural;
  alignas(64) std::array<std::int16_t, 64> limit;  ///< by zigzag index: largest magnitude of a coefficient
  std::uint32_t dc_limit = 0;
  bool coarse = false;  ///< a coefficient of the pair table (magnitude up to 127) may be beyond its limit
};

/// One block of an MCU, in the order of the scan.
struct BlockKind {
  const DcTable* dc = nullptr;
  const AcTable* ac = nullptr;
  const SkipTable* skip = nullptr;
  const Quant* quant = nullptr;
  int component = 0;
  std::ptrdiff_t to_next = 0;  ///< to the kind of the block behind it, from the last to the first
};

/// The part of one component that the region needs, in blocks of the image; a ring of MCU rows of samples.
struct Plane {
  int block_x0 = 0, block_x1 = 0;
  int block_y0 = 0, block_y1 = 0;
  int first_in_mcu = 0;  ///< index of its first block in an MCU
  std::size_t stride = 0;
  int line_mask = 0;  ///< lines of the ring - 1
  AlignedBuffer<std::uint8_t> samples;

  std::uint8_t* line(int y) { return samples.data() + static_cast<std::size_t>(y & line_mask) * stride; }
  /// Sample x (image coordinates) of line y.
  const std::uint8_t* at(int x, int y) const {
    return samples.data() + static_cast<std::size_t>(y & line_mask) * stride +
           static_cast<std::size_t>(x - 8 * block_x0);
  }
};

/// Entropy-coded bytes without stuffing; what a marker interrupts is a segment.
struct Unstuffed {
  AlignedBuffer<std::uint8_t> bytes;  ///< size() bytes, then kBitSlack readable ones
  std::vector<std::uint32_t>
      segment_ends;  ///< ends of restart intervals that RSTn closes, n counted up from 0
  std::vector<std::uint32_t> stuffed_after;  ///< for each removed 00: offset of the next byte here
  std::size_t size = 0;
  int segment_count = 0;
  int stuffed_count = 0;
  bool ended_by_eoi = false;
};

/// Coefficients of one MCU row (what of it the region needs), and where each block's last one stands.
struct CoefficientRow {
  AlignedBuffer<std::int16_t> blocks;
  AlignedBuffer<std::uint8_t> last;  ///< k at the end of the block, as PairTable has it
};

/// One decode and its scratch memory. Buffers only grow. Threads: owner only.
struct Work {
  const Header* header = nullptr;
  std::span<const std::uint8_t> scan;  ///< from the first entropy-coded byte to the end of the file
  Region region;
  Mode mode = Mode::kRgb;
  std::uint8_t* out = nullptr;
  std::size_t stride = 0;
  LineSink* sink = nullptr;  ///< not null: `out` is `band`, whose lines go there
  AlignedBuffer<std::uint8_t> band;

  int mcu_x0 = 0, mcu_x1 = 0;  ///< MCUs that the region needs
  int mcu_y0 = 0, mcu_y1 = 0;
  int plane_count = 0;  ///< components reconstructed: 1 for gray output
  std::array<BlockKind, 6> kinds;
  int kind_count = 0;
  std::array<Quant, 3> quants;
  std::array<Plane, 3> planes;
  int rows_emitted = 0;  ///< output lines written so far

  std::array<CoefficientRow, 2> coefficients;
  JobList full, sparse;
  AlignedBuffer<std::uint8_t> spare;  ///< eight lines that nobody reads
  AlignedBuffer<std::int16_t> chroma_sums;
  AlignedBuffer<std::uint8_t> chroma_lines;
  Unstuffed unstuffed;
  std::array<Unstuffed, 2> stream_bytes;

  const Index* index = nullptr;  ///< checked against the scan, or null
  Index* made = nullptr;         ///< gets points, or null
};

/// Which MCUs the region needs, upsampling's neighbours included.
void plan_region(Work& work);

/// Geometry, tables and buffer sizes for a decode of work.region, after plan_region().
void prepare(Work& work, TableCache& tables, bool two_streams);

/// Runs the decode on the best SIMD target of this machine (or the forced one: simd_target.h).
Outcome run_decode(Work& work, bool two_streams);

/// With index points: the MCU column where the streams of a row start.
int first_stored_mcu(const Work& work);

}  // namespace carya::jpeg
