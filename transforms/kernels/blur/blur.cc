#include "transforms/kernels/blur/blur.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "transforms/kernels/blur/blur_simd.h"
#include "transforms/kernels/image/pad.h"

namespace carya::transforms {
namespace {

constexpr std::int64_t kBandValues = 4096;  // of a row that are in work at a time, in the first-level cache
constexpr std::int64_t kChannelsMax = 4;
constexpr std::int64_t kBorderValues = BlurTaps::kRadiusMax * kChannelsMax;

// A band of columns [begin, end) of the picture, of all its rows.
struct Band {
  std::int64_t begin;
  std::int64_t end;
};

void copy_pixel(const std::int16_t* from, std::int64_t channels, std::int16_t* to) {
  std::memcpy(to, from, static_cast<std::size_t>(channels) * sizeof(std::int16_t));
}

// Row y of the band: sums along the columns for the band and what the row's taps reach beside it, mirrored at
// the picture's sides, then sums along the row. The mirrored columns are within reach of the band, or the
// band is the whole row.
void blur_band_row(const ImageView& in, const Band& band, std::int64_t y, const BlurTaps& along_rows,
                   const BlurTaps& along_columns, const MutableImageView& out) {
  const std::int64_t channels = in.channels;
  const std::int64_t reach = along_rows.radius;
  const std::int64_t first = std::max<std::int64_t>(0, band.begin - reach);
  const std::int64_t last = std::min(in.width, band.end + reach);
  std::array<const std::uint8_t*, BlurTaps::kRadiusMax + 1> above;
  std::array<const std::uint8_t*, BlurTaps::kRadiusMax + 1> below;
  for (int k = 0; k <= along_columns.radius; ++k) {
    above[static_cast<std::size_t>(k)] = in.row(reflected(y - k, in.height)) + first * channels;
    below[static_cast<std::size_t>(k)] = in.row(reflected(y + k, in.height)) + first * channels;
  }
  alignas(64) std::int16_t values[kBandValues + 2 * kBorderValues];
  std::int16_t* const begin = values + kBorderValues;  // of column band.begin
  const auto column = [&](std::int64_t x) { return begin + (x - band.begin) * channels; };
  blur_columns(above.data(), below.data(), along_columns.weights.data(), along_columns.radius,
               (last - first) * channels, column(first));
  for (std::int64_t x = band.begin - reach; x < first; ++x)
    copy_pixel(column(reflected(x, in.width)), channels, column(x));
  for (std::int64_t x = last; x < band.end + reach; ++x)
    copy_pixel(column(reflected(x, in.width)), channels, column(x));
  blur_row(begin, along_rows.weights.data(), along_rows.radius, channels, (band.end - band.begin) * channels,
           out.row(y) + band.begin * channels);
}

}  // namespace

void blur(const ImageView& in, const BlurTaps& along_rows, const BlurTaps& along_columns,
          const MutableImageView& out, Patience* patience) {
  CHECK(in.height > 0 && in.width > 0 && in.channels <= kChannelsMax);
  CHECK(in.height == out.height && in.width == out.width && in.channels == out.channels);
  const std::int64_t columns = kBandValues / in.channels;
  const std::int64_t passes = 2 + along_rows.radius + along_columns.radius;
  for (std::int64_t begin = 0; begin < in.width; begin += columns) {
    const Band band{begin, std::min(in.width, begin + columns)};
    for (std::int64_t y = 0; y < in.height; ++y) {
      blur_band_row(in, band, y, along_rows, along_columns, out);
      if (!goes_on(patience, (band.end - band.begin) * in.channels * passes)) return;
    }
  }
}

}  // namespace carya::transforms
