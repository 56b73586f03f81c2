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
#include "transforms/jpeg/reconstruct.h"
#include "transforms/simd/patience.h"

// The data that the stages of one decode share. plan.cc prepares it, and the code of each SIMD target uses it.
namespace carya::jpeg {

/// Readable bytes behind the unstuffed scan: more than one MCU can take.
inline constexpr std::size_t kBitSlack = 4096;
inline constexpr std::size_t kLineSlack = 64;  ///< bytes that vector loads and stores may touch behind a line

inline constexpr std::size_t kIndexedScanMax = 0xFFFFFFFFu - 16;  ///< index points hold 32-bit offsets
inline constexpr int kLineGroup = 4;                              ///< lines that are upsampled together
/// MCU rows of samples that are kept: one in work, and the one above it for upsampling.
inline constexpr int kRingRowsOne = 4;
/// The same for two streams: two rows in work, some done ahead of a slow one. Both are powers of two.
inline constexpr int kRingRowsStreams = 8;

/// A block to transform: its coefficients in natural order, and the address of its first sample.
struct IdctJob {
  const std::int16_t* source;
  std::uint8_t* out;
};
struct JobList {
  AlignedBuffer<IdctJob> jobs;
  int count = 0;
};

/// The quantiser of one component, and the largest coefficients before 16-bit sums could wrap.
struct Quant {
  alignas(64) std::array<std::int16_t, 64> natural;
  alignas(64) std::array<std::int16_t, 64> limit;  ///< by zigzag index: largest magnitude of a coefficient
  std::uint32_t dc_limit = 0;
  bool coarse = false;  ///< a coefficient of the pair table (magnitude up to 127) may exceed its limit
};

/// One block of an MCU, in the order of the scan.
struct BlockKind {
  const DcTable* dc = nullptr;
  const AcTable* ac = nullptr;
  const SkipTable* skip = nullptr;
  const Quant* quant = nullptr;
  int component = 0;
  std::ptrdiff_t to_next = 0;  ///< the distance to the kind of the next block, from the last one to the first
};

/// The part of one component that the region needs, in blocks of the image. Its samples are a ring of MCU rows.
struct Plane {
  int block_x0 = 0, block_x1 = 0;
  int block_y0 = 0, block_y1 = 0;
  int first_in_mcu = 0;  ///< index of its first block in an MCU
  std::size_t stride = 0;
  int line_mask = 0;  ///< lines of the ring - 1
  AlignedBuffer<std::uint8_t> samples;

  std::uint8_t* line(int y) { return samples.data() + static_cast<std::size_t>(y & line_mask) * stride; }
  /// The address of sample x (image coordinates) of line y.
  const std::uint8_t* at(int x, int y) const {
    return samples.data() + static_cast<std::size_t>(y & line_mask) * stride +
           static_cast<std::size_t>(x - 8 * block_x0);
  }
};

/// Entropy-coded bytes without stuffing. Restart markers cut them into segments.
struct Unstuffed {
  AlignedBuffer<std::uint8_t> bytes;  ///< size() bytes, then kBitSlack readable ones
  /// The ends of restart intervals that RSTn closes, with n counting up from 0.
  std::vector<std::uint32_t> segment_ends;
  std::vector<std::uint32_t> stuffed_after;  ///< for each removed 00, the offset of the next byte in `bytes`
  std::size_t size = 0;
  int segment_count = 0;
  int stuffed_count = 0;
  bool ended_by_eoi = false;
};

/// The coefficients of the part of one MCU row that the region needs, and the end of each block.
struct CoefficientRow {
  AlignedBuffer<std::int16_t> blocks;
  AlignedBuffer<std::uint8_t> last;  ///< k at the end of the block, as in PairTable
};

/// The state of a pass over the scan that makes points.
struct ScoutState {
  bool begun = false;
  int mcu_y = 0;   ///< the next row to pass over
  int column = 0;  ///< the MCU column in that row
  int mcu = 0;
  std::size_t base = 0;
  std::uint64_t bit = 0;
  std::uint32_t stuffed_seen = 0;
  std::array<std::int32_t, 3> dc{};
};

/// One decode and its scratch memory. Buffers only grow. Threads: owner only.
struct Work {
  const Header* header = nullptr;
  std::span<const std::uint8_t> scan;  ///< from the first entropy-coded byte to the end of the file
  Region region;
  Mode mode = Mode::kRgb;
  std::uint8_t* out = nullptr;
  std::size_t stride = 0;
  LineSink* sink = nullptr;  ///< not null: `out` is `band`, and its lines go to the sink
  AlignedBuffer<std::uint8_t> band;

  int mcu_x0 = 0, mcu_x1 = 0;  ///< MCUs that the region needs
  int mcu_y0 = 0, mcu_y1 = 0;
  int plane_count = 0;  ///< components to reconstruct: 1 for gray output
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

  const Index* index = nullptr;        ///< an index that was checked against the scan, or null
  Index* made = nullptr;               ///< the index that gets points, or null
  std::span<const IndexPoint> points;  ///< the known points of `index`, for two streams

  /// Not null: gets the coefficients of each row of MCUs, and no lines are written.
  CoefficientSink* coefficient_sink = nullptr;
  BlockSource* block_source = nullptr;  ///< gives coefficients to transform_blocks()

  Patience* patience = nullptr;  ///< that of the whole picture's owner; may be null

  // For one band of a region (bands.h):
  const Unstuffed* given = nullptr;  ///< the whole scan, in restart intervals; null: `unstuffed` is used
  bool first_band = true, last_band = true;
  int whole_mcu_y1 = 0;  ///< mcu_y1 of the whole region
  ScoutState scout;

  /// After one more row of MCUs, with the values of as many rows of the picture: whether it is still wanted.
  bool wanted() {
    const std::int64_t lines = 8 * header->components[0].v;
    return goes_on(patience, lines * header->width * header->component_count);
  }
  const Unstuffed& scan_bytes() const { return given != nullptr ? *given : unstuffed; }
};

/// Find the MCUs that the region needs, with the neighbours for upsampling.
void plan_region(Work& work);

/// Set geometry, tables and buffer sizes for a decode of work.region, after plan_region().
void prepare(Work& work, TableCache& tables, bool two_streams);

/// Set geometry, quantisers and buffer sizes for transform_blocks(), after plan_region().
void prepare_blocks(Work& work);

/// Make pixels of the coefficients that work.block_source gives. Runs on the best SIMD target.
Outcome transform_blocks(Work& work);

/// Set what scout_rows() needs, after plan_region().
void prepare_scout(Work& work, TableCache& tables);

/// Pass over MCU rows before `until`, each of them once. work.made then has their points and, if the region has more
/// rows, the first point of row `until`. This and all functions below run on the best SIMD target of this machine.
Outcome scout_rows(Work& work, int until);

/// Fill work.unstuffed with the whole scan.
void unstuff_scan(Work& work);

/// Run the decode on the best SIMD target of this machine (or the forced one: simd/targets.h).
Outcome run_decode(Work& work, bool two_streams);

/// With index points: the MCU column in which the streams of a row start.
int first_stored_mcu(const Work& work);

}  // namespace carya::jpeg
