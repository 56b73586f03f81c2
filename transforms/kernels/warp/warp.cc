#include "transforms/kernels/warp/warp.h"

#include <algorithm>
#include <cstring>
#include <iterator>

#include "base/error.h"
#include "transforms/kernels/warp/warp_grid.h"
#include "transforms/kernels/warp/warp_pixel.h"
#include "transforms/kernels/warp/warp_simd.h"

namespace carya::transforms {
namespace {

constexpr std::int64_t kPixel = WarpGrid::kPixel;

// Stretches of one row, from the outside in: what lies outside the picture, what a plain pixel looks after,
// and what the loop without tests takes.
struct RowParts {
  WarpGrid::Columns inside;
  WarpGrid::Columns inner;
};

// A run of fill pixels, to be copied from: whole pixels of 1, 3 and 4 channels.
using FillRun = std::array<std::uint8_t, 192>;

FillRun fill_run(const std::array<std::uint8_t, 4>& fill, std::int64_t channels) {
  FillRun run;
  for (std::size_t i = 0; i < run.size(); ++i) run[i] = fill[i % static_cast<std::size_t>(channels)];
  return run;
}

void fill_pixels(const FillRun& run, std::uint8_t* begin, const std::uint8_t* end) {
  for (; end - begin > std::ssize(run); begin += run.size()) std::memcpy(begin, run.data(), run.size());
  std::memcpy(begin, run.data(), static_cast<std::size_t>(end - begin));
}

void nearest_pixel(const ImageView& in, WarpGrid::Place place, std::uint8_t* out) {
  std::memcpy(out, in.row(place.y >> WarpGrid::kBits) + (place.x >> WarpGrid::kBits) * in.channels,
              static_cast<std::size_t>(in.channels));
}

// `place` is half a pixel less than the grid's, so it may lie before the first row and column.
void bilinear_pixel(const ImageView& in, WarpGrid::Place place, std::uint8_t* out) {
  const std::int64_t x = place.x >> WarpGrid::kBits;
  const std::int64_t y = place.y >> WarpGrid::kBits;
  const auto inside = [](std::int64_t at, std::int64_t size) {
    return std::clamp<std::int64_t>(at, 0, size - 1);
  };
  blend_pixels(in.row(inside(y, in.height)), in.row(inside(y + 1, in.height)), inside(x, in.width),
               inside(x + 1, in.width), place, in.channels, out);
}

// One row: `plain` makes a pixel at any place inside, `inner` those of a stretch without tests.
template <typename Plain, typename Inner>
void warp_row(const RowParts& parts, const MutableImageView& out, std::int64_t y, const FillRun& fill,
              Plain plain, Inner inner) {
  std::uint8_t* row = out.row(y);
  const std::int64_t channels = out.channels;
  const auto& [begin, end] = parts.inside;
  fill_pixels(fill, row, row + begin * channels);
  if (parts.inner.begin == parts.inner.end) {
    for (std::int64_t x = begin; x < end; ++x) plain(x, row + x * channels);
  } else {
    for (std::int64_t x = begin; x < parts.inner.begin; ++x) plain(x, row + x * channels);
    inner(parts.inner, row + parts.inner.begin * channels);
    for (std::int64_t x = parts.inner.end; x < end; ++x) plain(x, row + x * channels);
  }
  fill_pixels(fill, row + end * channels, row + out.width * channels);
}

WarpGrid grid_of(const WarpSpec& spec, std::int64_t height, std::int64_t width) {
  return {spec.matrix, height, width, spec.interpolation == Interpolation::kNearest};
}

// The grid from the window's first pixel to places in the part of the picture that is there.
WarpGrid grid_within(const WarpSource& in, const WarpSpec& spec, const Region& window) {
  WarpGrid grid = grid_of(spec, in.height, in.width);
  grid.begin_at(window.top, window.left);
  grid.count_from(in.top, in.left);
  return grid;
}

// The whole picture, as places in that part.
WarpGrid::Box picture_box(const WarpSource& in) {
  return {-in.left * kPixel, (in.width - in.left) * kPixel, -in.top * kPixel, (in.height - in.top) * kPixel};
}

void warp_nearest(const WarpSource& source, const WarpSpec& spec, const Region& window,
                  const MutableImageView& out, Patience* patience) {
  const ImageView& in = source.pixels;
  const WarpGrid grid = grid_within(source, spec, window);
  const WarpGrid::Box inside = picture_box(source);
  WarpGrid::Box inner{0, in.width * kPixel, 0, in.height * kPixel};
  if (in.channels == 3) inner.high_x -= kPixel;
  const FillRun fill = fill_run(spec.fill, in.channels);
  for (std::int64_t y = 0; y < out.height; ++y) {
    const RowParts parts{grid.within(y, out.width, inside), grid.within(y, out.width, inner)};
    warp_row(
        parts, out, y, fill, [&](std::int64_t x, std::uint8_t* to) { nearest_pixel(in, grid.at(y, x), to); },
        [&](WarpGrid::Columns columns, std::uint8_t* to) {
          nearest_row(in, grid, grid.at(y, columns.begin), columns.end - columns.begin, to);
        });
    if (!goes_on(patience, out.row_bytes())) return;
  }
}

// Where a matrix only stretches and shifts, Pillow adds up doubles from column to column and from row to row.
// So does this, as places between two pixels are common there and its rounding decides them.
struct Walk {
  double at;
  double step;
  Walk(double origin, double along, std::int64_t skipped) : at(origin), step(along) {
    for (std::int64_t i = 0; i < skipped; ++i) at += step;
  }
  // The pixel that the place is in, or -1; then on to the next place.
  std::int64_t next(std::int64_t size) {
    const bool inside = at >= 0.0 && at < static_cast<double>(size);
    const std::int64_t pixel = inside ? static_cast<std::int64_t>(at) : -1;
    at += step;
    return pixel;
  }
};

constexpr std::int64_t kBand = 1024;  // columns whose pixels are looked up once for all rows

template <std::size_t kChannels>
void warp_scaled(const WarpSource& source, const WarpSpec& spec, const Region& window,
                 const MutableImageView& out, Patience* patience) {
  const ImageView& in = source.pixels;
  const auto& m = spec.matrix;
  Walk along_row(m[2] + m[0] * 0.5, m[0], window.left);
  std::int64_t offsets[kBand];
  for (std::int64_t begin = 0; begin < out.width; begin += kBand) {
    const std::int64_t count = std::min(kBand, out.width - begin);
    for (std::int64_t x = 0; x < count; ++x) {
      const std::int64_t from_x = along_row.next(source.width);
      offsets[x] = from_x < 0 ? -1 : (from_x - source.left) * in.channels;
    }
    Walk down(m[5] + m[4] * 0.5, m[4], window.top);
    for (std::int64_t y = 0; y < out.height; ++y) {
      const std::int64_t from_y = down.next(source.height);
      const std::uint8_t* from = from_y < 0 ? nullptr : in.row(from_y - source.top);
      std::uint8_t* to = out.row(y) + begin * out.channels;
      for (std::int64_t x = 0; x < count; ++x, to += kChannels)
        std::memcpy(to, from && offsets[x] >= 0 ? from + offsets[x] : spec.fill.data(), kChannels);
      if (!goes_on(patience, count * out.channels)) return;
    }
  }
}

void warp_bilinear(const WarpSource& source, const WarpSpec& spec, const Region& window,
                   const MutableImageView& out, Patience* patience) {
  const ImageView& in = source.pixels;
  const WarpGrid grid = grid_within(source, spec, window);
  const WarpGrid::Box inside = picture_box(source);
  const std::int64_t half = kPixel / 2;
  const std::int64_t spare = in.channels == 3 ? 2 : 1;  // columns that the loop reads beside the place's own
  const WarpGrid::Box inner{half, half + (in.width - spare) * kPixel, half, half + (in.height - 1) * kPixel};
  const FillRun fill = fill_run(spec.fill, in.channels);
  const auto place = [&](std::int64_t y, std::int64_t x) {
    const WarpGrid::Place middle = grid.at(y, x);
    return WarpGrid::Place{middle.x - half, middle.y - half};
  };
  for (std::int64_t y = 0; y < out.height; ++y) {
    const RowParts parts{grid.within(y, out.width, inside), grid.within(y, out.width, inner)};
    warp_row(
        parts, out, y, fill, [&](std::int64_t x, std::uint8_t* to) { bilinear_pixel(in, place(y, x), to); },
        [&](WarpGrid::Columns columns, std::uint8_t* to) {
          bilinear_row(in, grid, place(y, columns.begin), columns.end - columns.begin, to);
        });
    if (!goes_on(patience, 4 * out.row_bytes())) return;
  }
}

}  // namespace

Region warp_reads(const WarpSpec& spec, const Region& window, std::int64_t height, std::int64_t width) {
  return grid_of(spec, height, width).reads(window, height, width);
}

void warp(const WarpSource& in, const WarpSpec& spec, const Region& window, const MutableImageView& out,
          Patience* patience) {
  const std::int64_t channels = in.pixels.channels;
  const Region part{in.top, in.left, in.pixels.height, in.pixels.width};
  CHECK(part.inside(in.height, in.width));
  CHECK(window.inside(in.height, in.width));
  CHECK(window.height == out.height && window.width == out.width && channels == out.channels);
  CHECK(channels == 1 || channels == 3 || channels == 4);
  CHECK(!overshoots(spec.interpolation));
  if (spec.interpolation != Interpolation::kNearest) return warp_bilinear(in, spec, window, out, patience);
  if (spec.matrix[1] != 0.0 || spec.matrix[3] != 0.0) return warp_nearest(in, spec, window, out, patience);
  if (channels == 1) return warp_scaled<1>(in, spec, window, out, patience);
  if (channels == 3) return warp_scaled<3>(in, spec, window, out, patience);
  warp_scaled<4>(in, spec, window, out, patience);
}

}  // namespace carya::transforms
