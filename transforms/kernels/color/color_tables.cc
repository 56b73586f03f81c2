#include "transforms/kernels/color/color_tables.h"

#include <algorithm>
#include <array>

#include "base/error.h"

namespace carya::transforms {
namespace {

using Table = std::array<std::uint8_t, 256>;
using Tables = std::array<Table, 4>;  // of each channel

template <int kChannels>
void apply(const ImageView& in, const Tables& tables, const MutableImageView& out, Patience* patience) {
  const std::int64_t width = in.width;  // read once: a byte written could be one of `in`'s own
  for (std::int64_t y = 0; y < in.height && goes_on(patience, in.row_bytes()); ++y) {
    const std::uint8_t* __restrict from = in.row(y);
    std::uint8_t* __restrict to = out.row(y);
    for (std::int64_t x = 0; x < width; ++x, from += kChannels, to += kChannels)
      for (std::size_t c = 0; c < kChannels; ++c) to[c] = tables[c][from[c]];
  }
}

void apply_tables(const ImageView& in, const Tables& tables, const MutableImageView& out,
                  Patience* patience) {
  CHECK(in.height == out.height && in.width == out.width && in.channels == out.channels);
  if (in.channels == 1) return apply<1>(in, tables, out, patience);
  if (in.channels == 3) return apply<3>(in, tables, out, patience);
  CHECK(in.channels == 4);
  apply<4>(in, tables, out, patience);
}

struct Range {
  std::uint8_t low = 255;
  std::uint8_t high = 0;
};

// Values whose extremes are kept side by side, which the compiler turns into vectors; whole pixels of 1, 3
// and 4.
constexpr std::size_t kSide = 48;

std::array<Range, 4> ranges_of(const ImageView& in, Patience* patience) {
  std::array<std::uint8_t, kSide> low;
  std::array<std::uint8_t, kSide> high{};
  low.fill(255);
  const auto count = static_cast<std::size_t>(in.row_bytes());
  for (std::int64_t y = 0; y < in.height && goes_on(patience, in.row_bytes()); ++y) {
    const std::uint8_t* row = in.row(y);
    std::size_t begin = 0;
    for (; begin + kSide <= count; begin += kSide)
      for (std::size_t i = 0; i < kSide; ++i) {
        low[i] = std::min(low[i], row[begin + i]);
        high[i] = std::max(high[i], row[begin + i]);
      }
    for (std::size_t i = 0; begin + i < count; ++i) {
      low[i] = std::min(low[i], row[begin + i]);
      high[i] = std::max(high[i], row[begin + i]);
    }
  }
  std::array<Range, 4> ranges;
  for (std::size_t i = 0; i < kSide; ++i) {
    Range& range = ranges[i % static_cast<std::size_t>(in.channels)];
    range.low = std::min(range.low, low[i]);
    range.high = std::max(range.high, high[i]);
  }
  return ranges;
}

using Histogram = std::array<std::int64_t, 256>;

std::array<Histogram, 4> histograms_of(const ImageView& in, Patience* patience) {
  std::array<Histogram, 4> histograms{};
  for (std::int64_t y = 0; y < in.height && goes_on(patience, in.row_bytes()); ++y) {
    const std::uint8_t* from = in.row(y);
    for (std::int64_t x = 0; x < in.width; ++x, from += in.channels)
      for (std::int64_t c = 0; c < in.channels; ++c) ++histograms[static_cast<std::size_t>(c)][from[c]];
  }
  return histograms;
}

Table flat_table(const Histogram& histogram) {
  std::int64_t below_highest = 0;
  std::int64_t highest = 0;
  for (const std::int64_t count : histogram) {
    if (count == 0) continue;
    below_highest += highest;
    highest = count;
  }
  const std::int64_t step = below_highest / 255;
  Table table;
  std::int64_t sum = step / 2;
  for (std::size_t x = 0; x < table.size(); ++x) {
    table[x] = static_cast<std::uint8_t>(step > 0 ? std::min<std::int64_t>(255, sum / step)
                                                  : static_cast<std::int64_t>(x));
    sum += histogram[x];
  }
  return table;
}

}  // namespace

void autocontrast(const ImageView& in, const MutableImageView& out, Patience* patience) {
  const std::array<Range, 4> ranges = ranges_of(in, patience);
  Tables tables;
  for (std::size_t c = 0; c < tables.size(); ++c) {
    const int low = ranges[c].low;
    const int high = ranges[c].high;
    for (int x = 0; x < 256; ++x) {
      const int value = high > low ? 255 * (std::clamp(x, low, high) - low) / (high - low) : x;
      tables[c][static_cast<std::size_t>(x)] = static_cast<std::uint8_t>(value);
    }
  }
  apply_tables(in, tables, out, patience);
}

void equalize(const ImageView& in, const MutableImageView& out, Patience* patience) {
  const std::array<Histogram, 4> histograms = histograms_of(in, patience);
  Tables tables;
  for (std::size_t c = 0; c < tables.size(); ++c) tables[c] = flat_table(histograms[c]);
  apply_tables(in, tables, out, patience);
}

}  // namespace carya::transforms
