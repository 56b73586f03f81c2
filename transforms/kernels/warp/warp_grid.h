#pragma once

#include <array>
#include <cstdint>

#include "transforms/kernels/image/image_view.h"

namespace carya::transforms {

/// The origins of a warp's pixels, in whole 2^-32 pixels. Column x of row y comes from (x_origin + x * x_right + y *
/// x_down, y_origin + x * y_right + y * y_down).
///
/// Exact:   integers from the first row on, so the same bits on every machine; a matrix of doubles is rounded once.
/// Threads: const is thread-safe.
class WarpGrid {
 public:
  static constexpr int kBits = 32;
  static constexpr std::int64_t kPixel = std::int64_t{1} << kBits;

  /// A place in the picture. From column to column of a row, places are (x_right, y_right) apart. Only places of the
  /// columns that within() returned have a meaning.
  struct Place {
    std::int64_t x = 0;
    std::int64_t y = 0;
  };
  /// Columns [begin, end) of a row; empty if begin == end.
  struct Columns {
    std::int64_t begin = 0;
    std::int64_t end = 0;
  };
  /// Places with low_x <= x < high_x and low_y <= y < high_y.
  struct Box {
    std::int64_t low_x, high_x, low_y, high_y;
  };

  /// `matrix` is (a, b, c, d, e, f) as in Pillow's Image.transform: the middle of the pixel at column x of row y, (x +
  /// 0.5, y + 0.5), comes from (a x + b y + c, d x + e y + f). |a|, |b|, |d|, |e| are below 2^30, |c| and |f| below
  /// 2^60. With `pillow_nearest`, values are rounded to 2^-16 pixels where Pillow's nearest transform rounds them, so
  /// that the same pixels are chosen in a picture of height x width.
  WarpGrid(const std::array<double, 6>& matrix, std::int64_t height, std::int64_t width, bool pillow_nearest);

  /// Make the pixel at (top, left) of the result the one at (0, 0) from now on.
  void begin_at(std::int64_t top, std::int64_t left);
  /// Count places from (top, left) of the picture from now on.
  void count_from(std::int64_t top, std::int64_t left);
  /// The region of a picture of height x width that the pixels of `window` come from, with a margin of 2 pixels around
  /// their places. It is one pixel if that is empty.
  Region reads(const Region& window, std::int64_t height, std::int64_t width) const;

  /// The columns of row y, of `width`, whose places are in `box`. They are one stretch, since the box is convex.
  Columns within(std::int64_t y, std::int64_t width, const Box& box) const;
  /// The place of column x of row y, which must be in a box of within().
  Place at(std::int64_t y, std::int64_t x) const;

  std::int64_t x_right() const { return x_right_; }
  std::int64_t y_right() const { return y_right_; }

 private:
  __extension__ using Wide = __int128;  // 64 bits cannot hold a far origin

  Wide x_origin_;
  Wide y_origin_;
  std::int64_t x_right_;
  std::int64_t x_down_;
  std::int64_t y_right_;
  std::int64_t y_down_;
};

}  // namespace carya::transforms
