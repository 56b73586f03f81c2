#include "transforms/coefficients/pack_tables.h"

namespace carya::coefficients {
namespace {

constexpr unsigned kExceptionBits = 8 * kExceptionBytes;

PackTables make_tables() {
  PackTables t{};
  for (std::size_t g = 0; g < kGroups; ++g)
    for (std::size_t p = 0; p < kProfiles; ++p) t.numbers[g][p] = kProfileTable[p].numbers[g];
  for (std::size_t w = 0; w < 9; ++w) {
    for (std::size_t g = 0; g < kGroups; ++g)
      t.dense_empty[g][w] = static_cast<std::uint8_t>((kPlaceGroups[g + 1] - kPlaceGroups[g]) * w);
    for (std::size_t width = 0; width <= kWidthNone; ++width) {
      const unsigned exception = width > w ? kExceptionBits : 0;
      t.dense_value[width][w] = static_cast<std::uint8_t>(exception);
      t.sparse_value[width][w] = static_cast<std::uint8_t>(w + exception);
    }
  }
  for (std::size_t b = 0; b < kBitmapBits.size(); ++b) {
    t.sparse_empty[kGroups - 1][b] = kBitmapBits[b];
    for (std::size_t place = 0; place < 63; ++place)
      t.beyond_bitmap[place][b] = static_cast<std::uint8_t>(place >= kBitmapBits[b] ? kExceptionBits : 0);
  }
  return t;
}

Widths make_widths() {
  Widths widths;
  for (int value = -kPackedMax - 1; value <= kPackedMax + 1; ++value) {
    widths.dense[Widths::place(value)] = static_cast<std::uint8_t>(dense_width(value));
    widths.sparse[Widths::place(value)] = static_cast<std::uint8_t>(sparse_width(value));
  }
  return widths;
}

}  // namespace

const Widths& pack_widths() {
  static const Widths widths = make_widths();
  return widths;
}

const PackTables& pack_tables() {
  static const PackTables tables = make_tables();
  return tables;
}

}  // namespace carya::coefficients
