#include "transforms/kernels/warp/warp_grid.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"

namespace carya::transforms {
namespace {

constexpr double kPillowUnit = 65'536.0;  // of its 16.16 numbers
constexpr double kPillowLimit = 32'768.0;

// Pillow's check_fixed: whether a corner fits 16.16.
bool fits_pillow(const std::array<double, 6>& m, double x, double y) {
  return std::fabs(x * m[0] + y * m[1] + m[2]) < kPillowLimit &&
         std::fabs(x * m[3] + y * m[4] + m[5]) < kPillowLimit;
}

// The smallest k >= 0, at most `count`, with at + k * step >= limit; step > 0.
template <typename Int>
std::int64_t first_from(Int at, std::int64_t step, std::int64_t limit, std::int64_t count) {
  const Int missing = limit - at;
  if (missing <= 0) return 0;
  const Int k = (missing + step - 1) / step;
  return k < count ? static_cast<std::int64_t>(k) : count;
}

// The columns [0, count) with low <= at + x * step < high.
template <typename Int>
WarpGrid::Columns between(Int at, std::int64_t step, std::int64_t low, std::int64_t high,
                          std::int64_t count) {
  if (step == 0) return {0, at >= low && at < high ? count : 0};
  if (step > 0) return {first_from(at, step, low, count), first_from(at, step, high, count)};
  return {first_from<Int>(-at, -step, 1 - high, count), first_from<Int>(-at, -step, 1 - low, count)};
}

}  // namespace

WarpGrid::WarpGrid(const std::array<double, 6>& m, std::int64_t height, std::int64_t width,
                   bool pillow_nearest) {
  CHECK(std::max({std::fabs(m[0]), std::fabs(m[1]), std::fabs(m[3]), std::fabs(m[4])}) < 0x1p30);
  CHECK(std::max(std::fabs(m[2]), std::fabs(m[5])) < 0x1p60);
  const auto w = static_cast<double>(width);
  const auto h = static_cast<double>(height);
  const bool coarse = pillow_nearest && fits_pillow(m, 0, 0) && fits_pillow(m, w, h) &&
                      fits_pillow(m, 0, h) && fits_pillow(m, w, 0);
  const double unit = coarse ? kPillowUnit : static_cast<double>(kPixel);
  const std::int64_t scale = coarse ? kPixel / static_cast<std::int64_t>(kPillowUnit) : 1;
  const auto step = [&](double v) { return static_cast<std::int64_t>(std::floor(v * unit + 0.5)) * scale; };
  const auto origin = [&](double v) { return static_cast<Wide>(std::floor(v * unit + 0.5)) * scale; };
  x_right_ = step(m[0]);
  x_down_ = step(m[1]);
  y_right_ = step(m[3]);
  y_down_ = step(m[4]);
  x_origin_ = origin(m[2] + m[0] * 0.5 + m[1] * 0.5);
  y_origin_ = origin(m[5] + m[3] * 0.5 + m[4] * 0.5);
}

void WarpGrid::begin_at(std::int64_t top, std::int64_t left) {
  x_origin_ += static_cast<Wide>(x_down_) * top + static_cast<Wide>(x_right_) * left;
  y_origin_ += static_cast<Wide>(y_down_) * top + static_cast<Wide>(y_right_) * left;
}

void WarpGrid::count_from(std::int64_t top, std::int64_t left) {
  x_origin_ -= static_cast<Wide>(left) << kBits;
  y_origin_ -= static_cast<Wide>(top) << kBits;
}

Region WarpGrid::reads(const Region& window, std::int64_t height, std::int64_t width) const {
  constexpr std::int64_t kAround = 2;
  // Places are affine: the outermost ones are those of the corners.
  const auto stretch = [&](Wide origin, std::int64_t right, std::int64_t down, std::int64_t size) {
    const Wide first = origin + static_cast<Wide>(right) * window.left + static_cast<Wide>(down) * window.top;
    const Wide along = static_cast<Wide>(right) * (window.width - 1);
    const Wide across = static_cast<Wide>(down) * (window.height - 1);
    const auto pixel = [&](Wide place) {
      return static_cast<std::int64_t>(std::clamp<Wide>(place >> kBits, 0, size - 1));
    };
    const Wide low = first + std::min<Wide>(along, 0) + std::min<Wide>(across, 0);
    const Wide high = first + std::max<Wide>(along, 0) + std::max<Wide>(across, 0);
    const Wide around = static_cast<Wide>(kAround) << kBits;
    const std::int64_t begin = pixel(low - around);
    return std::pair{begin, pixel(high + around) - begin + 1};
  };
  const auto [left, columns] = stretch(x_origin_, x_right_, x_down_, width);
  const auto [top, rows] = stretch(y_origin_, y_right_, y_down_, height);
  return {top, left, rows, columns};
}

WarpGrid::Columns WarpGrid::within(std::int64_t y, std::int64_t width, const Box& box) const {
  const Wide x_at = x_origin_ + static_cast<Wide>(x_down_) * y;
  const Wide y_at = y_origin_ + static_cast<Wide>(y_down_) * y;
  constexpr Wide kNear = static_cast<Wide>(1)
                         << 61;  // far enough from the ends of 64 bits, which divide faster
  Columns in_x;
  Columns in_y;
  if (x_at > -kNear && x_at < kNear && y_at > -kNear && y_at < kNear) {
    in_x = between(static_cast<std::int64_t>(x_at), x_right_, box.low_x, box.high_x, width);
    in_y = between(static_cast<std::int64_t>(y_at), y_right_, box.low_y, box.high_y, width);
  } else {
    in_x = between(x_at, x_right_, box.low_x, box.high_x, width);
    in_y = between(y_at, y_right_, box.low_y, box.high_y, width);
  }
  const std::int64_t begin = std::max(in_x.begin, in_y.begin);
  return {begin, std::max(begin, std::min(in_x.end, in_y.end))};
}

WarpGrid::Place WarpGrid::at(std::int64_t y, std::int64_t x) const {
  const Wide row = y;
  const Wide column = x;
  return {static_cast<std::int64_t>(x_origin_ + x_down_ * row + x_right_ * column),
          static_cast<std::int64_t>(y_origin_ + y_down_ * row + y_right_ * column)};
}

}  // namespace carya::transforms
