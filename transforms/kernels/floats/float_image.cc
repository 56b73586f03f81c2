#include "transforms/kernels/floats/float_image.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "base/error.h"
#include "transforms/kernels/resize/resize_window.h"
#include "transforms/kernels/warp/warp_grid.h"

namespace carya::transforms {
namespace {

/// A float32 value takes about as long as this many of uint8, for Patience.
constexpr std::int64_t kPlainLoops = 4;

// What each of `out_size` values of one dimension is the weighted sum of.
class Windows {
 public:
  explicit Windows(const ResizeFilter& filter)
      : stride_(resize_window_max(filter)),
        windows_(static_cast<std::size_t>(filter.out_size)),
        weights_(windows_.size() * static_cast<std::size_t>(stride_)) {
    std::vector<double> exact(static_cast<std::size_t>(stride_));
    for (std::int64_t i = 0; i < filter.out_size; ++i) {
      float* weights = weights_.data() + i * stride_;
      if (filter.interpolation == Interpolation::kNearest) {
        windows_[static_cast<std::size_t>(i)] = {nearest_index(i, filter.in_size, filter.out_size), 1};
        weights[0] = 1.0F;
        continue;
      }
      const InputWindow window = resize_window(filter, i, exact.data());
      for (std::int64_t k = 0; k < window.count; ++k)
        weights[k] = static_cast<float>(exact[static_cast<std::size_t>(k)]);
      windows_[static_cast<std::size_t>(i)] = window;
    }
  }
  const InputWindow& at(std::int64_t i) const { return windows_[static_cast<std::size_t>(i)]; }
  const float* weights(std::int64_t i) const { return weights_.data() + i * stride_; }

 private:
  std::int64_t stride_;
  std::vector<InputWindow> windows_;
  std::vector<float> weights_;
};

// Values that are summed at once, and readable behind a row: compilers make vectors of loops of a fixed length.
constexpr std::int64_t kLane = 4;
constexpr std::int64_t kBlock = 32;

// sums[i] is that of in[k * stride + i] * weights[k] over all k, from 0 on.
template <std::size_t kCount>
void weigh(const float* in, std::int64_t stride, const float* weights, std::int64_t count,
           std::array<float, kCount>& sums) {
  sums.fill(0.0F);
  for (std::int64_t k = 0; k < count; ++k) {
    std::array<float, kCount> values;
    std::memcpy(values.data(), in + k * stride, sizeof values);
    for (std::size_t i = 0; i < kCount; ++i) sums[i] += values[i] * weights[k];
  }
}

// Writes `values` values and may read kBlock of each row; the rest of a picture's last row is summed one by one.
void resize_column(const FloatView& in, const InputWindow& window, const float* weights, float* out) {
  const std::int64_t values = in.width * in.channels;
  const float* first = in.row(window.start);
  std::int64_t i = 0;
  std::array<float, kBlock> sums;
  for (; i + kBlock <= values; i += kBlock) {
    weigh(first + i, values, weights, window.count, sums);
    std::memcpy(out + i, sums.data(), sizeof sums);
  }
  std::array<float, 1> sum;
  for (; i < values; ++i) {
    weigh(first + i, values, weights, window.count, sum);
    out[i] = sum[0];
  }
}

// `in` can be read kLane values beyond its end.
void resize_row(const float* in, const Windows& columns, std::int64_t channels, std::int64_t width,
                float* out) {
  std::array<float, kLane> sums;
  for (std::int64_t x = 0; x < width; ++x) {
    const auto& [start, count] = columns.at(x);
    weigh(in + start * channels, channels, columns.weights(x), count, sums);
    if (x + kLane <= width)  // what is behind the pixel is written over by the next one
      std::memcpy(out + x * channels, sums.data(), sizeof sums);
    else
      std::copy_n(sums.data(), channels, out + x * channels);
  }
}

std::int64_t pixel_of(std::int64_t place, std::int64_t size) {
  return std::clamp<std::int64_t>(place >> WarpGrid::kBits, 0, size - 1);
}

// How far the place is into its pixel, 0 to 1.
float part_of(std::int64_t place) {
  constexpr int kKept = 24;  // bits of a float32
  const std::int64_t part = (place & (WarpGrid::kPixel - 1)) >> (WarpGrid::kBits - kKept);
  return static_cast<float>(part) * 0x1p-24F;
}

// `place` is half a pixel less than the grid's.
void blend_pixels(const FloatView& in, WarpGrid::Place place, float* out) {
  const float* upper = in.row(pixel_of(place.y, in.height));
  const float* lower = in.row(pixel_of(place.y + WarpGrid::kPixel, in.height));
  const std::int64_t left = pixel_of(place.x, in.width) * in.channels;
  const std::int64_t right = pixel_of(place.x + WarpGrid::kPixel, in.width) * in.channels;
  const float across = part_of(place.x);
  const float down = part_of(place.y);
  for (std::int64_t c = 0; c < in.channels; ++c) {
    const float above = upper[left + c] + (upper[right + c] - upper[left + c]) * across;
    const float below = lower[left + c] + (lower[right + c] - lower[left + c]) * across;
    out[c] = above + (below - above) * down;
  }
}

}  // namespace

void crop_padded(const FloatView& in, const Region& window, PaddingMode mode, const FloatFill& fill,
                 const MutableFloatView& out) {
  CHECK(out.height == window.height && out.width == window.width && out.channels == in.channels);
  const bool inside = window.left >= 0 && window.left + window.width <= in.width && window.top >= 0 &&
                      window.top + window.height <= in.height;
  for (std::int64_t y = 0; inside && y < out.height; ++y)
    std::copy_n(in.row(window.top + y) + window.left * in.channels, out.width * out.channels, out.row(y));
  for (std::int64_t y = 0; !inside && y < out.height; ++y) {
    const std::int64_t from_y = padded_index(window.top + y, in.height, mode);
    for (std::int64_t x = 0; x < out.width; ++x) {
      const std::int64_t from_x = padded_index(window.left + x, in.width, mode);
      const bool outside = from_y < 0 || from_x < 0;
      const float* pixel = outside ? fill.data() : in.row(from_y) + from_x * in.channels;
      std::copy_n(pixel, in.channels, out.row(y) + x * in.channels);
    }
  }
}

void flip(const MutableFloatView& image, bool horizontal, bool vertical) {
  const std::int64_t values = image.width * image.channels;
  for (std::int64_t y = 0; vertical && y < image.height / 2; ++y)
    std::swap_ranges(image.row(y), image.row(y) + values, image.row(image.height - 1 - y));
  for (std::int64_t y = 0; horizontal && y < image.height; ++y)
    for (std::int64_t x = 0; x < image.width / 2; ++x) {
      float* left = image.row(y) + x * image.channels;
      std::swap_ranges(left, left + image.channels, image.row(y) + (image.width - 1 - x) * image.channels);
    }
}

void resize(const FloatView& in, Interpolation interpolation, bool antialias, const MutableFloatView& out,
            Patience* patience) {
  CHECK(in.channels == out.channels);
  const Windows rows({in.height, out.height, interpolation, antialias});
  const Windows columns({in.width, out.width, interpolation, antialias});
  const std::int64_t values = in.width * in.channels;
  std::vector<float> middle(static_cast<std::size_t>(values + kLane));
  for (std::int64_t y = 0; y < out.height; ++y) {
    const std::int64_t count = rows.at(y).count;
    resize_column(in, rows.at(y), rows.weights(y), middle.data());
    resize_row(middle.data(), columns, in.channels, out.width, out.row(y));
    if (!goes_on(patience, kPlainLoops * (values * count + 2 * out.width * out.channels))) return;
  }
}

void warp(const FloatView& in, const std::array<double, 6>& matrix, Interpolation interpolation,
          const FloatFill& fill, const MutableFloatView& out, Patience* patience) {
  CHECK(in.height == out.height && in.width == out.width && in.channels == out.channels);
  CHECK(!overshoots(interpolation));
  const bool nearest = interpolation == Interpolation::kNearest;
  const WarpGrid grid(matrix, in.height, in.width, nearest);
  const WarpGrid::Box picture{0, in.width * WarpGrid::kPixel, 0, in.height * WarpGrid::kPixel};
  for (std::int64_t y = 0; y < out.height; ++y) {
    const auto& [begin, end] = grid.within(y, out.width, picture);
    for (std::int64_t x = 0; x < out.width; ++x) {
      float* to = out.row(y) + x * out.channels;
      if (x < begin || x >= end) {
        std::copy_n(fill.data(), out.channels, to);
        continue;
      }
      const WarpGrid::Place place = grid.at(y, x);
      if (nearest) {
        std::copy_n(in.row(pixel_of(place.y, in.height)) + pixel_of(place.x, in.width) * in.channels,
                    in.channels, to);
      } else {
        blend_pixels(in, {place.x - WarpGrid::kPixel / 2, place.y - WarpGrid::kPixel / 2}, to);
      }
    }
    if (!goes_on(patience, kPlainLoops * out.width * out.channels * 4)) return;
  }
}

}  // namespace carya::transforms
