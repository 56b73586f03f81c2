#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace carya::coefficients {

/// How the AC coefficients of one block are packed: the constants of FORMAT.md. A dense profile gives a width to each
/// of the 63 zigzag places; a sparse one has a bitmap of the first places, and gives a width to each value that is not
/// zero, by its rank among them.
struct Profile {
  /// Widths in bits, 0..8, by group of places (dense) or of ranks (sparse, whose eleventh number is the index of its
  /// bitmap's length in kBitmapBits).
  std::array<std::uint8_t, 11> numbers;
};

inline constexpr std::size_t kProfiles = 256;
inline constexpr std::size_t kDenseProfiles =
    128;  ///< the profiles before it are dense, the others are sparse

/// Where groups of places, 0 for the first AC coefficient, and of ranks begin.
inline constexpr std::array<std::uint8_t, 12> kPlaceGroups = {0, 2, 5, 9, 14, 20, 27, 35, 42, 48, 57, 63};
inline constexpr std::array<std::uint8_t, 11> kRankGroups = {0, 1, 2, 4, 7, 11, 16, 23, 31, 43, 63};
inline constexpr std::array<std::uint8_t, 16> kBitmapBits = {2,  4,  6,  8,  10, 13, 16, 20,
                                                             24, 28, 33, 38, 43, 48, 52, 57};

/// The table: of version 1 of the format, so that it never changes. Profile 0 is that of blocks without AC coefficients.
/// Source: tools/coefficient_profiles.py.
extern const std::array<Profile, kProfiles> kProfileTable;

/// What unpacking a block needs of its profile.
struct alignas(64) UnpackTable {
  // For each value: the byte where its group of eight begins, its bit from there, and the mask of its width.
  std::array<std::uint8_t, 64> byte;
  std::array<std::uint8_t, 64> shift;
  std::array<std::uint8_t, 64> mask;
  std::array<std::uint16_t, 64> bits;  ///< of so many values
  std::uint64_t bitmap_mask;           ///< the bits of the bitmap; 0: dense
  std::uint64_t dense_mask;            ///< the places that are always there
  std::uint32_t bitmap_bits;
  std::uint32_t is_sparse;

  /// Lanes beyond the last value are read, at most at this byte.
  static constexpr int kLastByte = 63;
};

const std::array<UnpackTable, kProfiles>& unpack_tables();

}  // namespace carya::coefficients
