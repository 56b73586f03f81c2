#include "transforms/coefficients/profile.h"

#include <algorithm>

namespace carya::coefficients {
namespace {

constexpr std::size_t kValues = 63;

std::array<std::uint8_t, kValues> widths_of(const Profile& profile, bool is_sparse) {
  std::array<std::uint8_t, kValues> widths{};
  const std::size_t groups = is_sparse ? kRankGroups.size() - 1 : kPlaceGroups.size() - 1;
  for (std::size_t g = 0; g < groups; ++g) {
    const std::size_t begin = is_sparse ? kRankGroups[g] : kPlaceGroups[g];
    const std::size_t end = is_sparse ? kRankGroups[g + 1] : kPlaceGroups[g + 1];
    std::fill(widths.begin() + static_cast<std::ptrdiff_t>(begin),
              widths.begin() + static_cast<std::ptrdiff_t>(end), profile.numbers[g]);
  }
  return widths;
}

UnpackTable make_table(const Profile& profile, bool is_sparse) {
  UnpackTable table{};
  const auto widths = widths_of(profile, is_sparse);
  unsigned bit = 0;
  for (std::size_t begin = 0; begin < 64; begin += 8) {
    const std::size_t end = std::min(begin + 8, kValues);
    unsigned group_bits = 0;
    for (std::size_t i = begin; i < end; ++i) group_bits += widths[i];
    // A group is read from one word of 64 bits.
    if (bit % 8 + group_bits > 64) bit = (bit + 7) / 8 * 8;
    const unsigned byte = bit / 8;
    for (std::size_t i = begin; i < begin + 8; ++i)
      table.byte[i] =
          static_cast<std::uint8_t>(std::min<std::size_t>(byte + i - begin, UnpackTable::kLastByte));
    for (std::size_t i = begin; i < end; ++i) {
      table.shift[i] = static_cast<std::uint8_t>(bit - 8 * byte);
      table.mask[i] = static_cast<std::uint8_t>((1U << widths[i]) - 1);
      bit += widths[i];
      table.bits[i + 1] = static_cast<std::uint16_t>(bit);
    }
  }
  table.is_sparse = is_sparse ? 1 : 0;
  if (is_sparse) {
    table.bitmap_bits = kBitmapBits[profile.numbers[kRankGroups.size() - 1]];
    table.bitmap_mask = (std::uint64_t{1} << table.bitmap_bits) - 1;
  } else {
    std::size_t places = kValues;
    while (places > 0 && widths[places - 1] == 0) --places;
    table.dense_mask = (std::uint64_t{1} << places) - 1;
  }
  return table;
}

}  // namespace

const std::array<UnpackTable, kProfiles>& unpack_tables() {
  static const auto tables = [] {
    std::array<UnpackTable, kProfiles> made;
    for (std::size_t p = 0; p < kProfiles; ++p) made[p] = make_table(kProfileTable[p], p >= kDenseProfiles);
    return made;
  }();
  return tables;
}

}  // namespace carya::coefficients
