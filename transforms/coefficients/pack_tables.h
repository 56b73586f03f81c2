#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "transforms/coefficients/profile.h"
#include "transforms/coefficients/segment.h"

namespace carya::coefficients {

inline constexpr std::size_t kGroups = 11;
/// A width that no profile has: of values that are exceptions everywhere.
inline constexpr std::size_t kWidthNone = 9;

/// The bits that an AC coefficient takes, beside that it is there, in a dense and in a sparse profile.
inline std::size_t dense_width(int value) {
  if (value == 0) return 0;
  if (std::abs(value) > kPackedMax) return kWidthNone;
  return 1 + static_cast<std::size_t>(std::bit_width(static_cast<unsigned>(value < 0 ? -value - 1 : value)));
}
inline std::size_t sparse_width(int value) {
  if (std::abs(value) > kPackedMax) return kWidthNone;
  return 1 + static_cast<std::size_t>(std::bit_width(static_cast<unsigned>(std::abs(value) - 1)));
}

/// The two widths of each value, without a branch: what is beyond kPackedMax is at both ends.
struct Widths {
  std::array<std::uint8_t, 2 * kPackedMax + 3> dense{}, sparse{};
  static std::size_t place(int value) {
    return static_cast<std::size_t>(std::clamp(value, -kPackedMax - 1, kPackedMax + 1) + kPackedMax + 1);
  }
};
const Widths& pack_widths();

/// The group of each zigzag place, 0 for the first AC coefficient, and of each rank.
template <std::size_t kBounds>
constexpr std::array<std::uint8_t, 63> groups_of(const std::array<std::uint8_t, kBounds>& bounds) {
  std::array<std::uint8_t, 63> groups{};
  for (std::size_t g = 0; g + 1 < kBounds; ++g)
    for (std::size_t i = bounds[g]; i < bounds[g + 1]; ++i) groups[i] = static_cast<std::uint8_t>(g);
  return groups;
}
inline constexpr std::array<std::uint8_t, 63> kGroupOfPlace = groups_of(kPlaceGroups);
inline constexpr std::array<std::uint8_t, 63> kGroupOfRank = groups_of(kRankGroups);

/// Costs in bits, as rows of 16 bytes: by width for values, by the index of the bitmap's length for bitmaps.
struct PackTables {
  alignas(64) std::uint8_t numbers[kGroups][kProfiles];  ///< of the profiles, by group
  alignas(16) std::uint8_t dense_empty[kGroups][16];     ///< the groups of a block without values
  alignas(16) std::uint8_t sparse_empty[kGroups][16];
  alignas(16) std::uint8_t dense_value[kWidthNone + 1][16];  ///< what a value of a width adds to its group
  alignas(16) std::uint8_t sparse_value[kWidthNone + 1][16];
  alignas(16) std::uint8_t
      beyond_bitmap[63][16];  ///< what a value at a place adds if the bitmap ends before it
};

const PackTables& pack_tables();

}  // namespace carya::coefficients
