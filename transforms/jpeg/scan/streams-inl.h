// Decodes from index points: each MCU row is a stream of its own, and one loop decodes two of them.
//
// A symbol's look-up waits for the one before it; the other stream fills that time. Rows are handed out in order. A row
// that is done is transformed at once, and lines are emitted when all rows above them are done too.
#if defined(CARYA_JPEG_STREAMS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CARYA_JPEG_STREAMS_INL_H_
#undef CARYA_JPEG_STREAMS_INL_H_
#else
#define CARYA_JPEG_STREAMS_INL_H_
#endif

#include <algorithm>
#include <cstdint>

#include "transforms/jpeg/scan/blocks-inl.h"
#include "transforms/jpeg/scan/rows-inl.h"
#include "transforms/jpeg/scan/unstuff-inl.h"
#include "transforms/jpeg/work.h"

HWY_BEFORE_NAMESPACE();
namespace carya::jpeg::HWY_NAMESPACE {

// One row that is being decoded.
struct Stream {
  BlockRun run;
  const std::uint8_t* base = nullptr;
  std::uint64_t end_bit = 0;
  std::array<std::int32_t, 3> dc{};
  int row = -1;  // -1: idle
};

// The rows of one decode.
struct Rows {
  Work& work;
  Doubt doubt;
  std::array<Stream, 2> streams;
  int first_mcu = 0;             // the column where streams start
  int next_row = 0;              // the next row to hand out
  int emitted_to = 0;            // all rows before it are transformed
  std::uint32_t done_ahead = 0;  // bit i: row emitted_to + i is transformed
};

// The point at (row, MCU column), or null if there is none.
inline const IndexPoint* point_of(const Work& work, int row, int column) {
  const Index& index = *work.index;
  const int spacing = index.spacing();
  if (column >= work.header->mcu_cols) {
    column = 0;
    ++row;
  }
  if (spacing == 0 ? column != 0 : column % spacing != 0) return nullptr;
  const auto number = static_cast<std::size_t>(row) * static_cast<std::size_t>(index.per_row()) +
                      static_cast<std::size_t>(spacing == 0 ? 0 : column / spacing);
  return row < work.header->mcu_rows && number < work.points.size() ? &work.points[number] : nullptr;
}

// The first point at or behind the end of the part that is decoded. Only the bytes before it are needed.
inline const IndexPoint* bound_of(const Work& work, int row) {
  const int spacing = work.index->spacing();
  const int columns = work.header->mcu_cols;
  const int column = spacing == 0 ? columns : (work.mcu_x1 + spacing - 1) / spacing * spacing;
  return point_of(work, row, std::min(column, columns));
}

inline void hand_out_row(Rows& rows, int which) {
  Work& work = rows.work;
  Stream& stream = rows.streams[which];
  stream.row = -1;
  if (rows.next_row >= work.mcu_y1 || rows.next_row >= rows.emitted_to + kRingRowsStreams / 2) return;
  const int row = rows.next_row++;
  const IndexPoint begin = *point_of(work, row, rows.first_mcu);
  const IndexPoint* bound = bound_of(work, row);
  std::size_t end = work.scan.size();
  // The last byte may be an FF with its 00.
  if (bound != nullptr) end = std::min<std::size_t>(end, std::max(bound->byte, begin.byte) + 2u);
  Unstuffed& bytes = work.stream_bytes[which];
  unstuff(work.scan.subspan(begin.byte, end - begin.byte), false, bytes);
  stream.base = bytes.bytes.data();
  stream.end_bit = 8 * std::uint64_t{bytes.size};
  for (int c = 0; c < 3; ++c) stream.dc[c] = begin.dc[c];
  const int blocks = (work.mcu_x1 - rows.first_mcu) * work.kind_count;
  stream.run.start(work, work.coefficients[which], 0, static_cast<std::size_t>(blocks));
  stream.run.limit = data_limit(stream.base, stream.end_bit);
  stream.run.in.start(stream.base, begin.bit);
  stream.row = row;
}

// Check the end of the row against the point there (if any) and the end of the image.
inline Outcome check_end(const Rows& rows, int which) {
  const Work& work = rows.work;
  const Stream& stream = rows.streams[which];
  const Unstuffed& bytes = work.stream_bytes[which];
  const std::uint64_t bit = stream.run.in.position(stream.base);
  const Header& header = *work.header;
  if (stream.row + 1 == header.mcu_rows && work.mcu_x1 == header.mcu_cols) {
    return stream.end_bit - bit < 8 && bytes.ended_by_eoi ? Outcome::kDone : Outcome::kTail;
  }
  const IndexPoint* point = point_of(work, stream.row, work.mcu_x1);
  if (point == nullptr) return Outcome::kDone;
  const std::uint32_t byte = static_cast<std::uint32_t>(bit >> 3);
  std::uint32_t stuffed = 0;
  while (stuffed < static_cast<std::uint32_t>(bytes.stuffed_count) && bytes.stuffed_after[stuffed] <= byte)
    ++stuffed;
  const IndexPoint begin = *point_of(work, stream.row, rows.first_mcu);
  bool same = point->byte == begin.byte + byte + stuffed && point->bit == (bit & 7);
  for (int c = 0; c < header.component_count; ++c)
    same &= point->dc[c] == static_cast<std::int16_t>(stream.dc[c]);
  return same ? Outcome::kDone : Outcome::kIndexLies;
}

inline Outcome finish_row(Rows& rows, int which) {
  Work& work = rows.work;
  Stream& stream = rows.streams[which];
  const int row = stream.row;
  if (stream.run.in.position(stream.base) > stream.end_bit) return Outcome::kDamaged;
  sum_dc(work, work.coefficients[which], 0, work.mcu_x1 - rows.first_mcu, stream.dc.data(), rows.doubt);
  if (rows.doubt.range != 0) return Outcome::kRange;
  if (const Outcome outcome = check_end(rows, which); outcome != Outcome::kDone) return outcome;
  if (!transform_row(work, row, rows.first_mcu, work.coefficients[which])) return Outcome::kRange;
  rows.done_ahead |= 1u << (row - rows.emitted_to);
  const int before = rows.emitted_to;
  for (; (rows.done_ahead & 1) != 0; rows.done_ahead >>= 1) ++rows.emitted_to;
  if (rows.emitted_to > before) emit_lines(work, rows.emitted_to);
  return Outcome::kDone;
}

// Decode the region. Every row of it has a point at first_stored_mcu().
inline Outcome decode_from_points(Work& work) {
  Rows rows{work, {}, {}, first_stored_mcu(work), work.mcu_y0, work.mcu_y0, 0};
  auto& [a, b] = rows.streams;
  for (;;) {
    if (a.row < 0) hand_out_row(rows, 0);
    if (b.row < 0) hand_out_row(rows, 1);
    if (a.row < 0 && b.row < 0) break;
    if (a.row >= 0 && b.row >= 0) {
      read_two(a.run, b.run, rows.doubt);
    } else {
      read_blocks(a.row >= 0 ? a.run : b.run, rows.doubt);
    }
    if (rows.doubt.damage != 0) return Outcome::kDamaged;
    if (rows.doubt.range != 0) return Outcome::kRange;
    for (int which = 0; which < 2; ++which) {
      Stream& stream = rows.streams[which];
      if (stream.row < 0 || !stream.run.done()) continue;
      if (const Outcome outcome = finish_row(rows, which); outcome != Outcome::kDone) return outcome;
      if (!work.wanted()) return Outcome::kGivenUp;
      stream.row = -1;
    }
  }
  return Outcome::kDone;
}

}  // namespace carya::jpeg::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard
