#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "transforms/jpeg/header.h"

namespace carya::jpeg {

/// Where decoding can begin without what stands before it: a bit of the scan, and the DC predictors there.
struct IndexPoint {
  std::uint32_t byte = 0;  ///< from the scan's first byte, stuffing counted; never on a stuffed 00
  std::uint8_t bit = 0;    ///< 0..7 of that byte, from the top
  std::array<std::int16_t, 3> dc{};
  bool operator==(const IndexPoint&) const = default;
};

/// Entry points into one scan: at every MCU row, and inside it every `spacing` MCUs (0: rows only). Points
/// are in scan order and known down to some place; later decodes go on from there. Bytes: FORMAT.md.
///
/// Nothing in it is trusted: it is used only for a file of the same length and hash, and a decode that starts
/// at a point checks every further point it meets. A wrong point can cost time and, if the checksum was
/// forged as well, pixels; never more.
///
/// Invariant: at most one point per MCU row and spacing of the scan it is bound to; byte offsets do not
/// decrease. Threads: const is thread-safe, else owner only.
class Index {
 public:
  static constexpr int kSpacingMax = 65535;

  explicit Index(int spacing = 0) : spacing_(spacing) {}

  /// Replace the contents by what write() made. False (and empty, same spacing as before) when the bytes are
  /// not an index: magic, checksum, counts or order are wrong. Cost: ~5 ns per point; no allocation
  /// once the largest index was read.
  bool read(std::span<const std::uint8_t> bytes);

  /// Append the bytes of FORMAT.md to `bytes`.
  void write(std::vector<std::uint8_t>& bytes) const;

  int spacing() const { return spacing_; }
  std::span<const IndexPoint> points() const { return points_; }
  /// Points that a complete index of its scan has; 0 before it is bound.
  int point_count_max() const { return per_row() * mcu_rows_; }
  bool complete() const {
    return point_count_max() > 0 && static_cast<int>(points_.size()) == point_count_max();
  }

  /// Whether it says to be made for this scan, and starts where any scan starts: its MCUs, and the file's
  /// length and hash64 (the points mean nothing under other tables either).
  bool fits(const Header& header, std::size_t file_bytes, std::uint64_t file_hash) const;
  /// Forget all points and belong to this scan from now on.
  void bind(const Header& header, std::size_t file_bytes, std::uint64_t file_hash);
  /// The next point in scan order. The caller has decoded everything before it without a doubt.
  void append(const IndexPoint& point) { points_.push_back(point); }
  /// Take back what was appended after there were `count` points.
  void cut(std::size_t count) { points_.resize(count); }

  /// Points per MCU row for a given number of MCU columns, and MCUs between two of them.
  static int points_per_row(int spacing, int mcu_cols) {
    return spacing == 0 ? 1 : (mcu_cols + spacing - 1) / spacing;
  }
  int per_row() const { return points_per_row(spacing_, mcu_cols_); }

 private:
  bool read_points(std::span<const std::uint8_t> bytes, std::size_t count, int components);

  int spacing_ = 0;
  int mcu_cols_ = 0;
  int mcu_rows_ = 0;
  int component_count_ = 3;
  std::uint64_t file_bytes_ = 0;
  std::uint64_t file_hash_ = 0;
  std::vector<IndexPoint> points_;
};

}  // namespace carya::jpeg
