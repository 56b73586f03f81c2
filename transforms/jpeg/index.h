#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "transforms/jpeg/header.h"

namespace carya::jpeg {

/// A place where decoding can begin without the bytes before it: a bit of the scan, and the DC predictors there.
struct IndexPoint {
  std::uint32_t byte = 0;  ///< counted from the scan's first byte, with stuffing; never on a stuffed 00
  std::uint8_t bit = 0;    ///< 0..7 in that byte, from the top
  std::array<std::int16_t, 3> dc{};
  bool operator==(const IndexPoint&) const = default;
};

/// The entry points of one scan: one at every MCU row, and inside a row one every `spacing` MCUs (0: rows only). Points
/// are in scan order and known down to some place, from where later decodes continue. FORMAT.md describes the bytes.
///
/// Nothing in an index is trusted. It is used only for a file of the same length and hash. A decode that starts at a
/// point checks every further point that it meets. A wrong point can cost time. If the checksum was forged too, it can
/// give wrong pixels, but nothing worse.
///
/// Invariant: at most one point per MCU row and spacing of the scan that it is bound to; byte offsets do not decrease.
/// Threads: const is thread-safe, else owner only.
class Index {
 public:
  static constexpr int kSpacingMax = 65535;

  explicit Index(int spacing = 0) : spacing_(spacing) {}

  /// Replace the contents by bytes that write() made. Returns false if they are not an index (magic, checksum, counts
  /// or order are wrong); the index is then empty and keeps its spacing. Cost: ~5 ns per point; no allocation once the
  /// largest index was read.
  bool read(std::span<const std::uint8_t> bytes);

  /// Append the bytes of FORMAT.md to `bytes`.
  void write(std::vector<std::uint8_t>& bytes) const;

  int spacing() const { return spacing_; }
  std::span<const IndexPoint> points() const { return points_; }
  /// The number of points of a complete index of its scan; 0 before it is bound.
  int point_count_max() const { return per_row() * mcu_rows_; }
  bool complete() const {
    return point_count_max() > 0 && static_cast<int>(points_.size()) == point_count_max();
  }

  /// Whether the index claims to be made for this scan (its MCUs, the file's length and hash64), and starts where every
  /// scan starts. The hash covers the tables, without which points mean nothing.
  bool fits(const Header& header, std::size_t file_bytes, std::uint64_t file_hash) const;
  /// Drop all points, and bind the index to this scan.
  void bind(const Header& header, std::size_t file_bytes, std::uint64_t file_hash);
  /// Append the next point in scan order. The caller has decoded everything before it without a doubt.
  void append(const IndexPoint& point) { points_.push_back(point); }
  /// Make room for all points, so that append() moves none of them. May throw std::bad_alloc.
  void reserve() { points_.reserve(static_cast<std::size_t>(point_count_max())); }
  /// Drop all points but the first `count`.
  void cut(std::size_t count) { points_.resize(count); }

  /// The number of points per MCU row, for a spacing and a number of MCU columns.
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
