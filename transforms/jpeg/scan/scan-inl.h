// Decodes in scan order with one stream, from the start of the scan or from the last index point before the region.
//
// For each MCU row it 1. passes over what is above or left of the region, 2. decodes what the region needs, 3. passes
// over what is right of it (not in the last row), 4. transforms and emits. Spans end at restart intervals and, if an
// index is being made, at its points.
#if defined(CARYA_JPEG_SCAN_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CARYA_JPEG_SCAN_INL_H_
#undef CARYA_JPEG_SCAN_INL_H_
#else
#define CARYA_JPEG_SCAN_INL_H_
#endif

#include <algorithm>
#include <cstdint>

#include "transforms/jpeg/scan/blocks-inl.h"
#include "transforms/jpeg/scan/entropy-inl.h"
#include "transforms/jpeg/scan/rows-inl.h"
#include "transforms/jpeg/scan/unstuff-inl.h"
#include "transforms/jpeg/work.h"

HWY_BEFORE_NAMESPACE();
namespace carya::jpeg::HWY_NAMESPACE {

// The state of the one stream.
struct Scan {
  Work& work;
  BitReader in;
  Doubt doubt;
  std::array<std::int32_t, 3> dc{};
  std::uint64_t end_bit = 0;          // the end of the segment that is being read
  std::uint32_t mcus_to_restart = 0;  // MCUs left in the restart interval; without restarts never 0
  int segment = 0;                    // segments that were begun after the first
  std::size_t base = 0;               // the offset in the scan of the first unstuffed byte
  int mcu = 0;                        // the next MCU, counted over the image
  std::uint32_t stuffed_seen = 0;     // entries of stuffed_after that were passed, for index points

  const std::uint8_t* bytes() const { return work.scan_bytes().bytes.data(); }
  std::uint64_t bit() const { return in.position(bytes()); }
};

inline void enter_segment(Scan& scan, std::uint64_t bit) {
  const Unstuffed& unstuffed = scan.work.scan_bytes();
  scan.end_bit = 8 * std::uint64_t{scan.segment < unstuffed.segment_count
                                       ? unstuffed.segment_ends[static_cast<std::size_t>(scan.segment)]
                                       : unstuffed.size};
  scan.in.start(scan.bytes(), bit);
  const int interval = scan.work.header->restart_interval;
  scan.mcus_to_restart = interval > 0 ? static_cast<std::uint32_t>(interval) : ~0u;
}

// Begin the next restart interval. Returns false if this one does not end at its last MCU, or if no marker follows.
inline bool restart(Scan& scan) {
  if (scan.segment >= scan.work.scan_bytes().segment_count || scan.end_bit - scan.bit() >= 8) return false;
  const std::uint64_t begin = scan.end_bit;
  ++scan.segment;
  scan.dc = {};
  enter_segment(scan, begin);
  return true;
}

enum class Span { kSkip, kStore };

// Pass over `count` MCUs inside one segment. Returns false on a doubt.
HWY_NOINLINE bool skip_mcus(Scan& scan, int count) {
  const Work& work = scan.work;
  BitReader in = scan.in;
  Doubt doubt;
  std::array<std::int32_t, 3> dc = scan.dc;
  const std::uint8_t* const base = scan.bytes();
  const std::uint64_t end_bit = scan.end_bit;
  const BlockKind* const kinds_end = work.kinds.data() + work.kind_count;
  for (int i = 0; i < count; ++i) {
    for (const BlockKind* kind = work.kinds.data(); kind != kinds_end; ++kind)
      skip_block(in, *kind, dc.data(), doubt);
    if (HWY_UNLIKELY(in.position(base) > end_bit || doubt.damage != 0)) {
      doubt.damage = 1;
      break;
    }
  }
  scan.in = in;
  scan.dc = dc;
  scan.doubt.damage |= doubt.damage;
  scan.doubt.range |= doubt.range;
  return doubt.damage == 0;
}

// Store `count` MCUs inside one segment, from block_at on. Returns false on a doubt.
inline bool store_mcus(Scan& scan, int count, CoefficientRow& row, std::size_t& block_at) {
  const Work& work = scan.work;
  const std::size_t blocks = static_cast<std::size_t>(count) * static_cast<std::size_t>(work.kind_count);
  BlockRun run;
  run.in = scan.in;
  run.limit = data_limit(scan.bytes(), scan.end_bit);
  run.start(work, row, block_at, blocks);
  read_blocks(run, scan.doubt);
  scan.in = run.in;
  scan.doubt.damage |= scan.bit() > scan.end_bit;
  if (scan.doubt.damage != 0) return false;
  sum_dc(work, row, block_at, count, scan.dc.data(), scan.doubt);
  block_at += blocks;
  return true;
}

// The position of the stream, in bytes of the file's scan.
inline IndexPoint point_here(Scan& scan) {
  const Unstuffed& unstuffed = scan.work.scan_bytes();
  const std::uint64_t bit = scan.bit();
  const std::uint32_t byte = static_cast<std::uint32_t>(bit >> 3);
  while (scan.stuffed_seen < static_cast<std::uint32_t>(unstuffed.stuffed_count) &&
         unstuffed.stuffed_after[scan.stuffed_seen] <= byte) {
    ++scan.stuffed_seen;
  }
  IndexPoint point;
  point.byte = static_cast<std::uint32_t>(scan.base) + byte + scan.stuffed_seen;
  point.bit = static_cast<std::uint8_t>(bit & 7);
  for (int c = 0; c < 3; ++c) point.dc[c] = static_cast<std::int16_t>(scan.dc[c]);
  return point;
}

// The number of the point at an MCU, or -1.
inline int point_at(const Index& index, const Header& header, int mcu) {
  const int column = mcu % header.mcu_cols;
  if (index.spacing() == 0 ? column != 0 : column % index.spacing() != 0) return -1;
  return mcu / header.mcu_cols * index.per_row() + (index.spacing() == 0 ? 0 : column / index.spacing());
}

// Write or compare the index point at the current MCU. Returns false if it is known as another one.
inline bool meet_point(Scan& scan) {
  Work& work = scan.work;
  if (work.index != nullptr) {
    const int number = point_at(*work.index, *work.header, scan.mcu);
    const auto known = work.index->points();
    if (number >= 0 && static_cast<std::size_t>(number) < known.size() &&
        known[static_cast<std::size_t>(number)] != point_here(scan)) {
      return false;
    }
  }
  if (work.made != nullptr) {
    const int number = point_at(*work.made, *work.header, scan.mcu);
    if (number >= 0 && static_cast<std::size_t>(number) == work.made->points().size())
      work.made->append(point_here(scan));
  }
  return true;
}

// The number of MCUs from the current one to the next place where an index may have a point.
inline int to_next_point(const Work& work, int column) {
  const Index* index = work.made != nullptr ? work.made : work.index;
  if (index == nullptr || index->spacing() == 0) return work.header->mcu_cols;
  return index->spacing() - column % index->spacing();
}

template <Span kSpan>
Outcome run_span(Scan& scan, int begin, int end, CoefficientRow& row, std::size_t& block_at) {
  for (int column = begin; column < end;) {
    if (scan.mcus_to_restart == 0 && !restart(scan)) return Outcome::kDamaged;
    if (!meet_point(scan)) return Outcome::kIndexLies;
    int count = std::min(end - column, to_next_point(scan.work, column));
    if (static_cast<std::uint32_t>(count) > scan.mcus_to_restart)
      count = static_cast<int>(scan.mcus_to_restart);
    const bool good = kSpan == Span::kSkip ? skip_mcus(scan, count) : store_mcus(scan, count, row, block_at);
    if (!good) return Outcome::kDamaged;
    scan.mcus_to_restart -= static_cast<std::uint32_t>(count);
    scan.mcu += count;
    column += count;
  }
  return Outcome::kDone;
}

// Whether the scan ends well after the last MCU of the image: only padding bits and the end marker may follow.
inline bool ends_well(const Scan& scan) {
  const Unstuffed& unstuffed = scan.work.scan_bytes();
  return scan.segment == unstuffed.segment_count && scan.end_bit - scan.bit() < 8 && unstuffed.ended_by_eoi;
}

inline Outcome decode_row(Scan& scan, int mcu_y, int first_column) {
  Work& work = scan.work;
  const int columns = work.header->mcu_cols;
  CoefficientRow& row = work.coefficients[0];
  std::size_t at = 0;
  const bool above = mcu_y < work.mcu_y0;
  const int skip_to = above ? columns : work.mcu_x0;
  Outcome outcome = run_span<Span::kSkip>(scan, first_column, skip_to, row, at);
  if (outcome != Outcome::kDone || above) return outcome;
  outcome = run_span<Span::kStore>(scan, work.mcu_x0, work.mcu_x1, row, at);
  if (outcome != Outcome::kDone) return outcome;
  if (mcu_y + 1 < work.whole_mcu_y1) {
    outcome = run_span<Span::kSkip>(scan, work.mcu_x1, columns, row, at);
    if (outcome != Outcome::kDone) return outcome;
  }
  // A range doubt is final, so the transform is not worth it.
  if (scan.doubt.range != 0 || !transform_row(work, mcu_y, work.mcu_x0, row)) return Outcome::kRange;
  if (work.coefficient_sink != nullptr)
    work.coefficient_sink->take(mcu_y, row.blocks.data());
  else
    emit_lines(work, mcu_y + 1);
  return Outcome::kDone;
}

// Start at the last known point that is not behind the region's first MCU.
inline void start_scan(Scan& scan, int& mcu_y, int& column) {
  Work& work = scan.work;
  IndexPoint point;
  mcu_y = column = 0;
  if (work.index != nullptr && !work.index->points().empty()) {
    const Index& index = *work.index;
    const int in_row = index.spacing() == 0 ? 0 : work.mcu_x0 / index.spacing();
    const int wanted = work.mcu_y0 * index.per_row() + in_row;
    const int number = std::min(wanted, static_cast<int>(index.points().size()) - 1);
    point = index.points()[static_cast<std::size_t>(number)];
    mcu_y = number / index.per_row();
    column = number % index.per_row() * index.spacing();
  }
  scan.base = point.byte;
  scan.mcu = mcu_y * work.header->mcu_cols + column;
  unstuff(work.scan.subspan(point.byte), work.header->restart_interval > 0, work.unstuffed);
  for (int c = 0; c < 3; ++c) scan.dc[c] = point.dc[c];
  enter_segment(scan, point.bit);
}

// Start at the restart interval that has the band's first MCU. The first band reads what is above the region. Returns
// false if there are fewer intervals.
inline bool start_band(Scan& scan, int& mcu_y, int& column) {
  const Work& work = scan.work;
  const int columns = work.header->mcu_cols;
  const int interval = work.header->restart_interval;
  scan.segment = work.first_band ? 0 : (work.mcu_y0 * columns + work.mcu_x0) / interval;
  if (scan.segment > work.given->segment_count) return false;
  scan.mcu = scan.segment * interval;
  mcu_y = scan.mcu / columns;
  column = scan.mcu % columns;
  enter_segment(
      scan, scan.segment == 0
                ? 0
                : 8 * std::uint64_t{work.given->segment_ends[static_cast<std::size_t>(scan.segment - 1)]});
  return true;
}

inline Outcome decode_in_order(Work& work) {
  Scan scan{work, {}, {}, {}, 0, 0, 0, 0, 0, 0};
  int mcu_y = 0;
  int column = 0;
  if (work.given == nullptr)
    start_scan(scan, mcu_y, column);
  else if (!start_band(scan, mcu_y, column))
    return Outcome::kDamaged;
  for (; mcu_y < work.mcu_y1; ++mcu_y, column = 0) {
    const Outcome outcome = decode_row(scan, mcu_y, column);
    if (outcome != Outcome::kDone) return outcome;
    if (!work.wanted()) return Outcome::kGivenUp;
  }
  // If the band ends with a restart interval, no other band checks that end.
  if (!work.last_band && scan.mcus_to_restart == 0 && !restart(scan)) return Outcome::kDamaged;
  const Header& header = *work.header;
  if (work.mcu_y1 == header.mcu_rows && work.mcu_x1 == header.mcu_cols && !ends_well(scan))
    return Outcome::kTail;
  return scan.doubt.range != 0 ? Outcome::kRange : Outcome::kDone;
}

// scout_rows() in work.h has the contract. It checks what decode_in_order() checks of blocks that it passes over.
inline Outcome pass_over_rows(Work& work, int until) {
  Scan scan{work, {}, {}, {}, 0, 0, 0, 0, 0, 0};
  ScoutState& state = work.scout;
  if (state.begun) {
    scan.base = state.base;
    scan.mcu = state.mcu;
    scan.stuffed_seen = state.stuffed_seen;
    scan.dc = state.dc;
    enter_segment(scan, state.bit);
  } else {
    start_scan(scan, state.mcu_y, state.column);
    state.begun = true;
  }
  std::size_t unused = 0;
  for (; state.mcu_y < until; ++state.mcu_y, state.column = 0) {
    const int end = state.mcu_y + 1 < work.mcu_y1 ? work.header->mcu_cols : work.mcu_x1;
    const Outcome outcome = run_span<Span::kSkip>(scan, state.column, end, work.coefficients[0], unused);
    if (outcome != Outcome::kDone) return outcome;
  }
  if (scan.doubt.range != 0) return Outcome::kRange;
  if (until < work.mcu_y1 && !meet_point(scan)) return Outcome::kIndexLies;
  state.base = scan.base;
  state.mcu = scan.mcu;
  state.stuffed_seen = scan.stuffed_seen;
  state.dc = scan.dc;
  state.bit = scan.bit();
  return Outcome::kDone;
}

}  // namespace carya::jpeg::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard
